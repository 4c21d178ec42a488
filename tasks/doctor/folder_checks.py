"""Check disk space, filesystems, paths, leftovers, permissions and checkouts.

doctor, init and explain use the disk usage of a build from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tasks.core.check_ids import CheckId
from tasks.core.text_formatting import format_short_list, format_size, format_size_range
from tasks.doctor import check_result
from tasks.knowledge.costs import estimate_cost
from tasks.knowledge.resource_estimates import (
    MAX_BUILD_SUBPATH,
    MAX_PATH,
    NO_DISK_USAGE,
    STARTED_BUILD_MIB,
    TEMPORARY_FILES_MIB,
)

if TYPE_CHECKING:
    from pathlib import PurePath

    from tasks.doctor.host_facts import Disk, HostFacts, Leftover, MissingSubmodules, UnsafePath
    from tasks.knowledge import Knowledge
    from tasks.knowledge.resource_estimates import DiskUsage, Range
    from tasks.lock.opened_profile_io import Profile

_PLACE_LABELS = {"environment": "its environment", "caches": "caches"}
_PLACES_OF_BUILD = {"environment", "wheels", "caches", "temporary files"}


def describe_disk(disk: Disk) -> str:
    """Return a description of the places on the disk; places of the build count as the build."""
    ours = "build" in disk.holds
    parts = ["the build"] if ours else []
    others = [
        one for one in disk.holds if one != "build" and not (ours and one in _PLACES_OF_BUILD)
    ]
    return " and ".join([*parts, *(_PLACE_LABELS.get(one, one) for one in others)])


def compute_disk_usage(disks: Iterable[Disk], room: DiskUsage) -> dict[Disk, Range]:
    """Return the minimum and maximum MiB for each disk that a build writes to."""
    found = {disk: room.sum_places(disk.holds) for disk in disks}
    return {disk: (least, most) for disk, (least, most) in found.items() if most}


def format_disk_usage(disks: Iterable[Disk], room: DiskUsage | None) -> str:
    """Return the disk usage as text, "" if unknown.

    Examples: `6.2 GiB of disk`, `3.2 GiB to 18 GiB of disk for the build, 1.2 GiB for
    install.into`.
    """
    found = compute_disk_usage(disks, room) if room else {}
    if len(found) == 1:
        return f"{format_size_range(*next(iter(found.values())))} of disk"
    parts = [f"{format_size_range(*mib)} for {describe_disk(disk)}" for disk, mib in found.items()]
    return ", ".join(parts).replace(" for ", " of disk for ", 1)


_MAYBE_PRESENT = {"caches", "install.into"}  # by another build, or as the torch that is replaced
_MEMORY_FILESYSTEMS = {"tmpfs", "ramfs"}
_NETWORK_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs"}
_WSL_FILESYSTEMS = {"9p", "drvfs"}  # how WSL mounts C:


def check_folders(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check disk, filesystem, paths, long-paths and leftovers."""
    if s.disks is None:
        yield from (check_result.report_unchecked(check) for check in ("disk", "filesystem"))
    else:
        room = estimate_disk_usage(profile, knowledge)
        yield from (_check_disk(s, disk, room) for disk in s.disks)
        yield _check_filesystem(s, s.disks)
    yield from _check_paths(s, profile)
    if s.host.system == "windows":
        yield _check_long_paths(s, profile)
    yield from _check_leftovers(s)


def estimate_disk_usage(profile: Profile | None, knowledge: Knowledge) -> DiskUsage:
    """Return the disk usage of a build; without a profile, that of a prebuilt torch."""
    room = profile.cost.disk_usage if profile else None
    if room is None:
        room = estimate_cost(knowledge, "prebuilt", 1, 0).disk_usage
    return room or NO_DISK_USAGE


def _check_disk(s: HostFacts, disk: Disk, room: DiskUsage) -> check_result.CheckResult:
    what, (least, most) = disk.main_place, room.sum_places(disk.holds)
    if (
        what in _MAYBE_PRESENT
        and "temporary files" in disk.holds
        and disk.free_mib < TEMPORARY_FILES_MIB[0]
    ):
        what = "temporary files"  # these files do not exist yet
    if what == "temporary files":
        least, most = TEMPORARY_FILES_MIB
    elif s.begun and what != "install.into":
        least, most = min(least, STARTED_BUILD_MIB[0]), min(most, STARTED_BUILD_MIB[1])
    firm = what not in _MAYBE_PRESENT
    seen = f"{format_size(disk.free_mib)} free for {describe_disk(disk)} ({disk.path})"
    todo = _suggest_more_space(what, windows=s.host.system == "windows")
    if firm and disk.free_mib < least:
        return check_result.report_problem(
            "disk",
            f"{seen}; it takes {format_size(least)} at the very least",
            todo,
            disk.main_place,
        )
    if disk.free_mib < most:
        return check_result.report_warning(
            "disk", f"{seen}; it takes up to about {format_size(most)}", todo, disk.main_place
        )
    return check_result.report_ok(
        "disk",
        f"{seen}; it takes {format_size_range(least, most)}" if least else seen,
        disk.main_place,
    )


def _suggest_more_space(what: str, *, windows: bool) -> str:
    match what:
        case "temporary files":
            variable = "TEMP" if windows else "TMPDIR"
            return f"free some room, or set {variable} to a folder on a larger disk"
        case "install.into":
            return "free some room there, or name an environment on a larger disk in install.into"
        case "caches":
            return "free some room, or set UV_CACHE_DIR to a folder on a larger disk"
        case _:
            return "free some room, or put the checkout on a larger disk"


def _check_filesystem(s: HostFacts, disks: tuple[Disk, ...]) -> check_result.CheckResult:
    build = next((disk for disk in disks if disk.main_place == "build"), None)
    if build is None or not build.kind:
        return check_result.report_unchecked("filesystem", "its type is not known here")
    kind, elsewhere = build.kind, "put the checkout on a disk of this machine"
    if kind in _MEMORY_FILESYSTEMS:
        seen = f"{build.path} is on {kind}: what is built there takes memory from the compilers"
        return check_result.report_warning("filesystem", seen, elsewhere)
    if kind in _NETWORK_FILESYSTEMS:
        seen = f"{build.path} is on {kind}: slow, and locks may not hold there"
        return check_result.report_warning("filesystem", seen, elsewhere)
    if s.wsl and kind in _WSL_FILESYSTEMS:
        seen = f"{build.path} is a disk of Windows: from WSL it is many times slower"
        todo = check_result.format_command(
            "git clone <this checkout> ~/torchyard", "put it on WSL's own disk:"
        )
        return check_result.report_warning("filesystem", seen, todo)
    return check_result.report_ok("filesystem", f"{kind} for the build")


def _check_paths(s: HostFacts, profile: Profile | None) -> Iterator[check_result.CheckResult]:
    """Check for characters that command lines and Windows code pages cannot represent."""
    windows = s.host.system == "windows"
    troubled = False
    for what, path in (("the checkout", str(s.root)), ("Python", s.host.python.path)):
        if " " in path and (windows or what == "the checkout"):
            troubled = True
            yield _report_space_in_path(what, path, windows=windows, profile=profile)
        elif windows and not path.isascii():
            troubled = True
            todo = "move it to a path of plain letters, such as C:\\src"
            yield check_result.report_warning(
                "paths", f"{what} is at {path}: compilers can misread such letters", todo
            )
    if not troubled:
        yield check_result.report_ok("paths", "no space in the paths of Python and the checkout")


def _report_space_in_path(
    what: str, path: str, *, windows: bool, profile: Profile | None
) -> check_result.CheckResult:
    seen = f"{what} is at {path}, and that has a space in it"
    if windows and what == "Python":
        todo = "install Python into a path without spaces, and name it: python: C:\\Python312\\"
        compiles = profile is None or profile.choice.strategy == "source"
        level = check_result.report_problem if compiles else check_result.report_warning
        return level("paths", f"{seen}: link and build scripts break on it", f"{todo}python.exe")
    why = "build scripts can break on it" + ("" if windows else ", and memory cannot govern jobs")
    return check_result.report_warning(
        "paths", f"{seen}: {why}", "move the checkout to a path without spaces"
    )


def _check_long_paths(s: HostFacts, profile: Profile | None) -> check_result.CheckResult:
    if s.long_paths is None:
        return check_result.report_unchecked("long-paths", "the registry could not be read")
    if s.long_paths:
        return check_result.report_ok("long-paths", "Windows takes paths beyond 260 characters")
    build: PurePath = profile.layout.build if profile else s.root
    room = MAX_PATH - len(str(build))
    how = (
        "New-ItemProperty HKLM:\\SYSTEM\\CurrentControlSet\\Control\\FileSystem LongPathsEnabled "
        "-Value 1 -PropertyType DWORD -Force; git config --global core.longpaths true"
    )
    todo = check_result.format_command(how, "in PowerShell as an administrator:")
    seen = f"off: {room} characters are left below {build}"
    if profile and profile.choice.strategy == "source" and room < MAX_BUILD_SUBPATH:
        return check_result.report_problem(
            "long-paths", f"{seen}, and PyTorch's tree takes more", todo
        )
    return check_result.report_warning("long-paths", seen, todo)


def _check_leftovers(s: HostFacts) -> Iterator[check_result.CheckResult]:
    if s.leftovers is None:
        yield check_result.report_unchecked("leftovers")
        return
    if not s.leftovers:
        yield check_result.report_ok(
            "leftovers", "no other build, and nothing of one that was killed"
        )
    for left in s.leftovers:
        yield _report_leftover(left)


def _report_leftover(left: Leftover) -> check_result.CheckResult:
    if left.kind == "not ours":
        todo = "move it away: torchyard writes only into folders that it made"
        return check_result.report_problem(
            "leftovers", f"{left.where} is in the way, and not ours", todo
        )
    if left.kind == "at work":
        todo = "wait for it to finish, or stop it"
        return check_result.report_warning(
            "leftovers", f"another run is at work in {left.where}", todo
        )
    named = f", and left {', '.join(left.processes)} at work" if left.processes else ""
    todo = check_result.format_command(
        "doit build", "nothing by hand; the next run ends what is left and goes on:"
    )
    return check_result.report_warning(
        "leftovers", f"a run was killed in {left.where}{named}", todo
    )


def check_write_access(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check trust: who else may write to the build's folders and PATH."""
    del profile, knowledge
    if s.exposed is None:
        yield check_result.report_unchecked("trust", "who may write where is not known here")
        return
    if not s.exposed:
        yield check_result.report_ok(
            "trust", "nobody else may write to the checkout, its builds, or programs on PATH"
        )
    for one in s.exposed:
        yield _report_unsafe_path(one)


def _report_unsafe_path(one: UnsafePath) -> check_result.CheckResult:
    if one.kind == "relative":
        seen = f'PATH has "{one.path}" in it: programs of whatever folder a command runs in'
        return check_result.report_warning(
            "trust", seen, "take it out of PATH; builds here leave it out already"
        )
    what = "is on PATH, and everyone" if one.kind == "PATH" else "is of the build, and everyone"
    seen = f"{one.path} {what} on this machine may write to it"
    return check_result.report_warning(
        "trust", seen, check_result.format_command(f"chmod o-w {one.path}")
    )


_SUBMODULES_ID: CheckId = "submodules"
_SHOWN_FOLDERS = 3


def check_submodules(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check the submodules of extensions in the user's folders."""
    if profile is None:
        yield check_result.report_unchecked(_SUBMODULES_ID, "the profile does not open")
    elif s.unfetched is None:
        yield check_result.report_unchecked(_SUBMODULES_ID)
    elif not s.unfetched:
        yield check_result.report_ok(
            _SUBMODULES_ID, "no extension's folder was cloned without its own"
        )
    else:
        extensions = [stage.job for stage in profile.plan.find_stages("extensions")]
        optional = {job.name for job in extensions if job.optional}
        for one in s.unfetched:
            yield _report_missing_submodules(one, knowledge, optional=one.extension in optional)


def _report_missing_submodules(
    one: MissingSubmodules, knowledge: Knowledge, *, optional: bool
) -> check_result.CheckResult:
    """Report empty submodules: a problem if they are known to be required, else a warning.

    A fork may leave a submodule empty that it does not need.
    """
    needed = _is_submodule_needed(one, knowledge)
    names, several = (
        format_short_list([str(folder) for folder in one.folders], _SHOWN_FOLDERS),
        len(one.folders) > 1,
    )
    are, them = ("are", "them") if several else ("is", "it")
    why = f"does not build without {them}" if needed else f"may need {them}"
    seen = f"{names} {are} empty or not there, and {one.extension} {why}"
    level = check_result.report_problem if needed and not optional else check_result.report_warning
    return level(_SUBMODULES_ID, seen, _suggest_submodule_update(one), one.extension)


def _is_submodule_needed(one: MissingSubmodules, knowledge: Knowledge) -> bool:
    """Return True if a missing submodule is required.

    It contains the extension itself, or config/knowledge/extensions.yaml names it.
    """
    if any(one.source.is_relative_to(folder) for folder in one.folders):
        return True
    fact = knowledge.extensions.get(one.extension)
    return any(one.source / path in one.folders for path in (fact.submodules if fact else ()))


def _suggest_submodule_update(one: MissingSubmodules) -> str:
    tree = f'"{one.tree}"' if " " in str(one.tree) else str(one.tree)
    if one.cloned:
        return check_result.format_command(f"git -C {tree} submodule update --init --recursive")
    return f"{tree} is no clone, so git cannot fetch them: take one of git clone --recursive"


_CONFLICTS_ID: CheckId = "conflicts"


def check_merge_conflicts(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Report each source folder with merge conflicts."""
    del knowledge
    if profile is None:
        yield check_result.report_unchecked(_CONFLICTS_ID, "the profile does not open")
    elif s.unmerged is None:
        yield check_result.report_unchecked(_CONFLICTS_ID)
    elif not s.unmerged:
        yield check_result.report_ok(_CONFLICTS_ID, "no source folder has merge conflicts")
    for one in s.unmerged or ():
        yield check_result.report_problem(_CONFLICTS_ID, one.message, one.hint, one.setting)
