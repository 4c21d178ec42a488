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
    has_build = "build" in disk.holds
    parts = ["the build"] if has_build else []
    other_places = [
        place
        for place in disk.holds
        if place != "build" and not (has_build and place in _PLACES_OF_BUILD)
    ]
    return " and ".join([*parts, *(_PLACE_LABELS.get(place, place) for place in other_places)])


def compute_disk_usage(disks: Iterable[Disk], room: DiskUsage) -> dict[Disk, Range]:
    """Return the minimum and maximum MiB for each disk that a build writes to."""
    usage = {disk: room.sum_places(disk.holds) for disk in disks}
    return {disk: (minimum, maximum) for disk, (minimum, maximum) in usage.items() if maximum}


def format_disk_usage(disks: Iterable[Disk], room: DiskUsage | None) -> str:
    """Return the disk usage as text, "" if unknown.

    Examples: `6.2 GiB of disk`, `3.2 GiB to 18 GiB of disk for the build, 1.2 GiB for
    install.into`.
    """
    usage = compute_disk_usage(disks, room) if room else {}
    if len(usage) == 1:
        return f"{format_size_range(*next(iter(usage.values())))} of disk"
    parts = [f"{format_size_range(*mib)} for {describe_disk(disk)}" for disk, mib in usage.items()]
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
        disk_usage = estimate_disk_usage(profile, knowledge)
        yield from (_check_disk(s, disk, disk_usage) for disk in s.disks)
        yield _check_filesystem(s, s.disks)
    yield from _check_paths(s, profile)
    if s.host.system == "windows":
        yield _check_long_paths(s, profile)
    yield from _check_leftovers(s)


def estimate_disk_usage(profile: Profile | None, knowledge: Knowledge) -> DiskUsage:
    """Return the disk usage of a build; without a profile, that of a prebuilt torch."""
    disk_usage = profile.cost.disk_usage if profile else None
    if disk_usage is None:
        disk_usage = estimate_cost(knowledge, "prebuilt", 1, 0).disk_usage
    return disk_usage or NO_DISK_USAGE


def _check_disk(s: HostFacts, disk: Disk, room: DiskUsage) -> check_result.CheckResult:
    place, (minimum, maximum) = disk.main_place, room.sum_places(disk.holds)
    if (
        place in _MAYBE_PRESENT
        and "temporary files" in disk.holds
        and disk.free_mib < TEMPORARY_FILES_MIB[0]
    ):
        place = "temporary files"  # these files do not exist yet
    if place == "temporary files":
        minimum, maximum = TEMPORARY_FILES_MIB
    elif s.begun and place != "install.into":
        minimum, maximum = min(minimum, STARTED_BUILD_MIB[0]), min(maximum, STARTED_BUILD_MIB[1])
    is_certain = place not in _MAYBE_PRESENT
    message = f"{format_size(disk.free_mib)} free for {describe_disk(disk)} ({disk.path})"
    hint = _suggest_more_space(place, windows=s.host.system == "windows")
    if is_certain and disk.free_mib < minimum:
        return check_result.report_problem(
            "disk",
            f"{message}; it takes {format_size(minimum)} at the very least",
            hint,
            disk.main_place,
        )
    if disk.free_mib < maximum:
        return check_result.report_warning(
            "disk", f"{message}; it takes up to about {format_size(maximum)}", hint, disk.main_place
        )
    return check_result.report_ok(
        "disk",
        f"{message}; it takes {format_size_range(minimum, maximum)}" if minimum else message,
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
    kind, hint_elsewhere = build.kind, "put the checkout on a disk of this machine"
    if kind in _MEMORY_FILESYSTEMS:
        message = f"{build.path} is on {kind}: what is built there takes memory from the compilers"
        return check_result.report_warning("filesystem", message, hint_elsewhere)
    if kind in _NETWORK_FILESYSTEMS:
        message = f"{build.path} is on {kind}: slow, and locks may not hold there"
        return check_result.report_warning("filesystem", message, hint_elsewhere)
    if s.wsl and kind in _WSL_FILESYSTEMS:
        message = f"{build.path} is a disk of Windows: from WSL it is many times slower"
        hint = check_result.format_command(
            "git clone <this checkout> ~/torchyard", "put it on WSL's own disk:"
        )
        return check_result.report_warning("filesystem", message, hint)
    return check_result.report_ok("filesystem", f"{kind} for the build")


def _check_paths(s: HostFacts, profile: Profile | None) -> Iterator[check_result.CheckResult]:
    """Check for characters that command lines and Windows code pages cannot represent."""
    windows = s.host.system == "windows"
    has_problem = False
    for what, path in (("the checkout", str(s.root)), ("Python", s.host.python.path)):
        if " " in path and (windows or what == "the checkout"):
            has_problem = True
            yield _report_space_in_path(what, path, windows=windows, profile=profile)
        elif windows and not path.isascii():
            has_problem = True
            hint = "move it to a path of plain letters, such as C:\\src"
            yield check_result.report_warning(
                "paths", f"{what} is at {path}: compilers can misread such letters", hint
            )
    if not has_problem:
        yield check_result.report_ok("paths", "no space in the paths of Python and the checkout")


def _report_space_in_path(
    what: str, path: str, *, windows: bool, profile: Profile | None
) -> check_result.CheckResult:
    message = f"{what} is at {path}, and that has a space in it"
    if windows and what == "Python":
        hint = "install Python into a path without spaces, and name it: python: C:\\Python312\\"
        is_compiled = profile is None or profile.choice.strategy == "source"
        report = check_result.report_problem if is_compiled else check_result.report_warning
        return report(
            "paths", f"{message}: link and build scripts break on it", f"{hint}python.exe"
        )
    consequence = "build scripts can break on it" + (
        "" if windows else ", and memory cannot govern jobs"
    )
    return check_result.report_warning(
        "paths", f"{message}: {consequence}", "move the checkout to a path without spaces"
    )


def _check_long_paths(s: HostFacts, profile: Profile | None) -> check_result.CheckResult:
    if s.long_paths is None:
        return check_result.report_unchecked("long-paths", "the registry could not be read")
    if s.long_paths:
        return check_result.report_ok("long-paths", "Windows takes paths beyond 260 characters")
    build: PurePath = profile.layout.build if profile else s.root
    remaining = MAX_PATH - len(str(build))
    powershell_command = (
        "New-ItemProperty HKLM:\\SYSTEM\\CurrentControlSet\\Control\\FileSystem LongPathsEnabled "
        "-Value 1 -PropertyType DWORD -Force; git config --global core.longpaths true"
    )
    hint = check_result.format_command(powershell_command, "in PowerShell as an administrator:")
    message = f"off: {remaining} characters are left below {build}"
    if profile and profile.choice.strategy == "source" and remaining < MAX_BUILD_SUBPATH:
        return check_result.report_problem(
            "long-paths", f"{message}, and PyTorch's tree takes more", hint
        )
    return check_result.report_warning("long-paths", message, hint)


def _check_leftovers(s: HostFacts) -> Iterator[check_result.CheckResult]:
    if s.leftovers is None:
        yield check_result.report_unchecked("leftovers")
        return
    if not s.leftovers:
        yield check_result.report_ok(
            "leftovers", "no other build, and nothing of one that was killed"
        )
    for leftover in s.leftovers:
        yield _report_leftover(leftover)


def _report_leftover(left: Leftover) -> check_result.CheckResult:
    if left.kind == "not ours":
        hint = "move it away: torchyard writes only into folders that it made"
        return check_result.report_problem(
            "leftovers", f"{left.where} is in the way, and not ours", hint
        )
    if left.kind == "at work":
        hint = "wait for it to finish, or stop it"
        return check_result.report_warning(
            "leftovers", f"another run is at work in {left.where}", hint
        )
    program_list = f", and left {', '.join(left.processes)} at work" if left.processes else ""
    hint = check_result.format_command(
        "doit build", "nothing by hand; the next run ends what is left and goes on:"
    )
    return check_result.report_warning(
        "leftovers", f"a run was killed in {left.where}{program_list}", hint
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
    for unsafe_path in s.exposed:
        yield _report_unsafe_path(unsafe_path)


def _report_unsafe_path(one: UnsafePath) -> check_result.CheckResult:
    if one.kind == "relative":
        message = f'PATH has "{one.path}" in it: programs of whatever folder a command runs in'
        return check_result.report_warning(
            "trust", message, "take it out of PATH; builds here leave it out already"
        )
    description = (
        "is on PATH, and everyone" if one.kind == "PATH" else "is of the build, and everyone"
    )
    message = f"{one.path} {description} on this machine may write to it"
    return check_result.report_warning(
        "trust", message, check_result.format_command(f"chmod o-w {one.path}")
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
        for missing in s.unfetched:
            yield _report_missing_submodules(
                missing, knowledge, optional=missing.extension in optional
            )


def _report_missing_submodules(
    one: MissingSubmodules, knowledge: Knowledge, *, optional: bool
) -> check_result.CheckResult:
    """Report empty submodules: a problem if they are known to be required, else a warning.

    A fork may leave a submodule empty that it does not need.
    """
    is_needed = _is_submodule_needed(one, knowledge)
    folder_names, is_plural = (
        format_short_list([str(folder) for folder in one.folders], _SHOWN_FOLDERS),
        len(one.folders) > 1,
    )
    verb, pronoun = ("are", "them") if is_plural else ("is", "it")
    consequence = f"does not build without {pronoun}" if is_needed else f"may need {pronoun}"
    message = f"{folder_names} {verb} empty or not there, and {one.extension} {consequence}"
    report = (
        check_result.report_problem if is_needed and not optional else check_result.report_warning
    )
    return report(_SUBMODULES_ID, message, _suggest_submodule_update(one), one.extension)


def _is_submodule_needed(one: MissingSubmodules, knowledge: Knowledge) -> bool:
    """Return True if a missing submodule is required.

    It contains the extension itself, or config/knowledge/extensions.yaml names it.
    """
    if any(one.source.is_relative_to(folder) for folder in one.folders):
        return True
    extension = knowledge.extensions.get(one.extension)
    return any(
        one.source / path in one.folders for path in (extension.submodules if extension else ())
    )


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
    for checkout in s.unmerged or ():
        yield check_result.report_problem(
            _CONFLICTS_ID, checkout.message, checkout.hint, checkout.setting
        )
