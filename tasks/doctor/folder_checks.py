"""Check disk space, filesystems, paths, leftovers, permissions and checkouts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tasks.core.text_formatting import format_short_list, format_size, format_size_range
from tasks.doctor import check_result
from tasks.doctor.check_result import report_ok, report_problem, report_unchecked, report_warning
from tasks.knowledge import resource_estimates as estimates
from tasks.knowledge.costs import estimate_cost

if TYPE_CHECKING:
    from pathlib import PurePath

    from tasks.doctor.check_result import CheckResult, Results
    from tasks.doctor.host_facts import Disk, HostFacts, MissingSubmodules
    from tasks.knowledge import Knowledge
    from tasks.knowledge.resource_estimates import DiskUsage, Range
    from tasks.lock.opened_profile_io import Profile

_PLACES_OF_BUILD = {"environment", "wheels", "caches", "temporary files"}


def _describe_disk(disk: Disk) -> str:
    """Return the folders on a disk as text, such as `the build and install.into`."""
    names = {"build": "the build", "environment": "its environment"}
    hidden = _PLACES_OF_BUILD if "build" in disk.holds else set()
    places = sorted(disk.holds, key=lambda place: place != "build")
    return " and ".join(names.get(place, place) for place in places if place not in hidden)


def compute_disk_usage(disks: Iterable[Disk], disk_usage: DiskUsage) -> dict[Disk, Range]:
    """Return the minimum and maximum disk usage in MiB for each disk that a build writes to."""
    usage = {disk: disk_usage.sum_places(disk.holds) for disk in disks}
    return {disk: (minimum, maximum) for disk, (minimum, maximum) in usage.items() if maximum}


def format_disk_usage(disks: Iterable[Disk], disk_usage: DiskUsage | None) -> str:
    """Return text such as `3 GiB of disk for the build, 1 GiB for install.into`, "" if unknown."""
    usage = compute_disk_usage(disks, disk_usage) if disk_usage else {}
    if len(usage) == 1:
        return f"{format_size_range(*next(iter(usage.values())))} of disk"
    parts = [f"{format_size_range(*mib)} for {_describe_disk(disk)}" for disk, mib in usage.items()]
    return ", ".join(parts).replace(" for ", " of disk for ", 1)


_MAYBE_PRESENT = {"caches", "install.into"}  # may have files of other builds or of a replaced torch
_MEMORY_FILESYSTEMS = {"tmpfs", "ramfs"}
_NETWORK_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs"}
_WSL_FILESYSTEMS = {"9p", "drvfs"}  # filesystem types of Windows disks in WSL


def check_folders(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Yield the results of the checks `disk`, `filesystem`, `paths` and `long-paths`."""
    if s.disks is None:
        yield from (report_unchecked(check) for check in ("disk", "filesystem"))
    else:
        # Without a profile, assume the disk usage of a prebuilt torch
        usage = profile.cost.disk_usage if profile else None
        usage = (
            usage
            or estimate_cost(knowledge, "prebuilt", 1, 0).disk_usage
            or estimates.NO_DISK_USAGE
        )
        yield from (_check_disk(s, disk, usage) for disk in s.disks)
        yield _check_filesystem(s, s.disks)
    yield from _check_paths(s, profile)
    if s.host.system == "windows":
        yield _check_long_paths(s, profile)


def _check_disk(s: HostFacts, disk: Disk, disk_usage: DiskUsage) -> CheckResult:
    place, (minimum, maximum) = disk.main_place, disk_usage.sum_places(disk.holds)
    is_short = disk.free_mib < estimates.TEMPORARY_FILES_MIB[0]
    if place in _MAYBE_PRESENT and "temporary files" in disk.holds and is_short:
        place = "temporary files"  # these cannot exist before the build
    if place == "temporary files":
        minimum, maximum = estimates.TEMPORARY_FILES_MIB
    elif s.begun and place != "install.into":
        minimum, maximum = (
            min(minimum, estimates.STARTED_BUILD_MIB[0]),
            min(maximum, estimates.STARTED_BUILD_MIB[1]),
        )
    message = f"{format_size(disk.free_mib)} free for {_describe_disk(disk)} ({disk.path})"
    temporary = "TEMP" if s.host.system == "windows" else "TMPDIR"
    alternatives = {
        "temporary files": f"set {temporary} to a folder on a larger disk",
        "install.into": "set install.into to an environment on a larger disk",
        "caches": "set UV_CACHE_DIR to a folder on a larger disk",
    }
    hint = f"free disk space, or {alternatives.get(place, 'move the project to a larger disk')}"
    if place not in _MAYBE_PRESENT and disk.free_mib < minimum:
        message += f"; it needs at least {format_size(minimum)}"
        return report_problem("disk", message, hint, disk.main_place)
    if disk.free_mib < maximum:
        message += f"; it needs up to about {format_size(maximum)}"
        return report_warning("disk", message, hint, disk.main_place)
    message += f"; it needs {format_size_range(minimum, maximum)}" if minimum else ""
    return report_ok("disk", message, disk.main_place)


def _check_filesystem(s: HostFacts, disks: tuple[Disk, ...]) -> CheckResult:
    build = next((disk for disk in disks if disk.main_place == "build"), None)
    if build is None or not build.kind:
        return report_unchecked("filesystem", "the type of the build's filesystem is not known")
    message, hint = f"{build.path} is on {build.kind}", "move the project to a local disk"
    if build.kind in _MEMORY_FILESYSTEMS:
        message += ": the files of the build use memory that compilers need"
    elif build.kind in _NETWORK_FILESYSTEMS:
        message += ", which is slow and may not support locks"
    elif s.wsl and build.kind in _WSL_FILESYSTEMS:
        message += ", a disk of Windows, which is many times slower in WSL"
        command = "git clone <this folder> ~/project"
        hint = check_result.format_command(command, "clone the project to WSL's own disk:")
    else:
        return report_ok("filesystem", f"the build folder is on {build.kind}")
    return report_warning("filesystem", message, hint)


def _check_paths(s: HostFacts, profile: Profile | None) -> Results:
    """Check that the paths of Python and the project have no spaces and, on Windows, are ASCII."""
    windows = s.host.system == "windows"
    has_problem = False
    for what, path in (("the project", str(s.root)), ("Python", s.host.python.path)):
        has_space = " " in path and (windows or what == "the project")
        if not has_space and not (windows and not path.isascii()):
            continue
        has_problem, report = True, report_warning
        message = f"{what} is at {path}: a space in the path "
        hint = "move the project to a path without spaces"
        if not has_space:
            message = f"{what} is at {path}: compilers can misread letters outside of ASCII"
            hint = "move it to an ASCII path such as C:\\src"
        elif windows and what == "Python":
            if profile is None or profile.choice.strategy == "source":
                report = report_problem
            message += "breaks link commands and build scripts"
            hint = "install Python into a path without spaces, and set python: "
            hint += "C:\\Python312\\python.exe"
        else:
            message += "can break build scripts"
        yield report("paths", message, hint)
    if not has_problem:
        yield report_ok("paths", "the paths of Python and the project have no spaces")


def _check_long_paths(s: HostFacts, profile: Profile | None) -> CheckResult:
    if s.long_paths is None:
        return report_unchecked("long-paths", "the Windows registry could not be read")
    if s.long_paths:
        return report_ok("long-paths", "Windows accepts paths of more than 260 characters")
    build: PurePath = profile.layout.build if profile else s.root
    remaining = estimates.MAX_PATH - len(str(build))
    key = r"HKLM:\SYSTEM\CurrentControlSet\Control\FileSystem"
    command = f"New-ItemProperty {key} LongPathsEnabled -Value 1 -PropertyType DWORD -Force; "
    command += "git config --global core.longpaths true"
    hint = check_result.format_command(command, "run in PowerShell as an administrator:")
    message = f"long paths are off: {remaining} characters are left below {build}"
    if profile and profile.choice.strategy == "source" and remaining < estimates.MAX_BUILD_SUBPATH:
        message += f", but PyTorch's tree needs {estimates.MAX_BUILD_SUBPATH}"
        return report_problem("long-paths", message, hint)
    return report_warning("long-paths", message, hint)


def check_leftovers(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Check `leftovers`: other runs, and a build folder that torchyard did not create."""
    del profile, knowledge
    if s.leftovers is None:
        yield report_unchecked("leftovers")
    elif not s.leftovers:
        yield report_ok("leftovers", "no other build runs, and no killed build left files behind")
    for leftover in s.leftovers or ():
        match leftover.kind:
            case "foreign":
                message = f"torchyard did not create {leftover.where}"
                hint = "move it away: torchyard writes only into folders that it created"
                yield report_problem("leftovers", message, hint)
            case "running":
                message = f"another run uses {leftover.where}"
                hint = "wait until this run ends, or stop it"
                yield report_warning("leftovers", message, hint)
            case "killed":
                running = ", ".join(leftover.processes)
                message = f"a run was killed in {leftover.where}"
                message += f"; still running: {running}" if running else ""
                steps = "continue the build; it ends the processes that still run:"
                hint = check_result.format_command("doit build", steps)
                yield report_warning("leftovers", message, hint)


def check_write_access(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Check `trust`: whether other users may write to folders of the build or on PATH."""
    del profile, knowledge
    if s.exposed is None:
        yield report_unchecked("trust", "permissions are not inspected on this system")
    elif not s.exposed:
        places = "the project, its builds, or programs on PATH"
        yield report_ok("trust", f"no other user has write permission for {places}")
    for unsafe in s.exposed or ():
        if unsafe.kind == "relative":
            message = f'PATH has the entry "{unsafe.path}", which is relative to the current folder'
            hint = "remove this entry from PATH; builds already ignore it"
        else:
            place = "on PATH" if unsafe.kind == "PATH" else "part of the build"
            message = f"{unsafe.path} is {place}, and every user of this machine can write to it"
            hint = check_result.format_command(f"chmod o-w {unsafe.path}")
        yield report_warning("trust", message, hint)


def check_submodules(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Check `submodules`: whether submodules are missing in the user's folders of extensions."""
    if profile is None:
        yield report_unchecked("submodules", check_result.NO_PROFILE)
    elif s.unfetched is None:
        yield report_unchecked("submodules")
    elif not s.unfetched:
        yield report_ok("submodules", "the folders of the extensions contain their submodules")
    else:
        jobs = [stage.job for stage in profile.plan.find_stages("extensions")]
        optional = {job.name for job in jobs if job.optional}
        for missing in s.unfetched:
            is_optional = missing.extension in optional
            yield _report_missing_submodules(missing, knowledge, optional=is_optional)


def _report_missing_submodules(
    missing: MissingSubmodules, knowledge: Knowledge, *, optional: bool
) -> CheckResult:
    """Report empty submodules: a problem if the extension needs one of them, else a warning.

    config/knowledge/extensions.yaml lists needed submodules. A submodule that contains the
    extension is also needed. An `optional` extension only gets a warning.
    """
    extension = knowledge.extensions.get(missing.extension)
    required = [missing.source / path for path in (extension.submodules if extension else ())]
    parents = (missing.source, *missing.source.parents)
    is_needed = any(folder in (*parents, *required) for folder in missing.folders)
    folders = format_short_list([str(folder) for folder in missing.folders], 3)
    verb, pronoun = ("are", "them") if len(missing.folders) > 1 else ("is", "it")
    consequence = "does not build without" if is_needed else "may need"
    message = f"{folders} {verb} missing or empty, and {missing.extension} {consequence} {pronoun}"
    tree = f'"{missing.tree}"' if " " in str(missing.tree) else str(missing.tree)
    if missing.cloned:
        hint = check_result.format_command(f"git -C {tree} submodule update --init --recursive")
    else:
        hint = f"{tree} is not a git clone: replace it with one made by git clone --recursive"
    report = report_problem if is_needed and not optional else report_warning
    return report("submodules", message, hint, missing.extension)


def check_merge_conflicts(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Check `conflicts`: yield a problem for each source folder with merge conflicts."""
    del knowledge
    if profile is None:
        yield report_unchecked("conflicts", check_result.NO_PROFILE)
    elif s.unmerged is None:
        yield report_unchecked("conflicts")
    elif not s.unmerged:
        yield report_ok("conflicts", "no source folder has merge conflicts")
    for checkout in s.unmerged or ():
        yield report_problem("conflicts", checkout.message, checkout.hint, checkout.setting)
