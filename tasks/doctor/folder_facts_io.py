"""Read facts about folders: disks, filesystems, leftovers, permissions and checkouts."""

import contextlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, MissingToolError, TorchyardError
from tasks.doctor import host_facts
from tasks.doctor.host_facts import Disk, Leftover, ProbeRequest, UnsafePath
from tasks.stages.install import target_interpreter_io
from tasks.system import files, process_group
from tasks.system.files import find_existing_ancestor, has_content, is_accessible
from tasks.system.git import local_changes

_MIB_BYTES = 2**20
_MOUNTS = Path("/proc/self/mounts")


def list_disks(request: ProbeRequest) -> Iterator[Disk]:
    """Yield the disks that a build writes to. The `path` of a disk is the first folder on it."""
    mounts = tuple(list_mounts())
    places_by_device: dict[int, list[tuple[str, PurePath, Path]]] = {}
    for label, path in _list_written_places(request):
        place = find_existing_ancestor(path)
        with contextlib.suppress(OSError):
            places_by_device.setdefault(place.stat().st_dev, []).append((label, path, place))
    for places in places_by_device.values():
        _, path, place = places[0]
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(place).free // _MIB_BYTES
            labels = tuple(label for label, _, _ in places)
            yield Disk(labels, str(path), free, find_filesystem_type(place, mounts))


def _list_written_places(request: ProbeRequest) -> Iterator[tuple[str, PurePath]]:
    yield from request.places
    if request.into and not (request.installed and is_accessible(request.installed)):
        with contextlib.suppress(TorchyardError):  # the install stage reports this error
            python = target_interpreter_io.find_interpreter(request.into, request.project.root)
            yield "install.into", python.parent.parent
    # docs.astral.sh/uv/concepts/cache; by default, compiler caches are next to uv's cache
    if sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA") or Path.home())
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    yield "caches", Path(os.environ.get("UV_CACHE_DIR") or caches)
    # tempfile.gettempdir() is not used: it writes a test file
    candidates = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    temporary = next(filter(None, candidates), "/tmp")  # noqa: S108 - only inspected, never written
    yield "temporary files", Path(temporary)


def list_mounts() -> Iterator[tuple[Path, str]]:
    """Yield mount points and their filesystem types, deepest path first (proc_pid_mounts(5))."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    rows = [line.split() for line in lines]
    points = [(Path(row[1].replace("\\040", " ")), row[2]) for row in rows if len(row) > 2]
    yield from sorted(points, key=lambda point: len(point[0].parts), reverse=True)


def find_filesystem_type(place: Path, known: tuple[tuple[Path, str], ...]) -> str:
    """Return the filesystem type of `place`, or "". `known` are the mounts, deepest path first."""
    real = place.resolve()
    if sys.platform == "win32":
        import psutil  # noqa: PLC0415 - not at load

        drives = {part.mountpoint: part.fstype for part in psutil.disk_partitions()}
        return str(drives.get(real.anchor, ""))
    return next((kind for point, kind in known if real.is_relative_to(point)), "")


_OWNERLESS = {"9p", "drvfs", "vfat", "exfat", "ntfs", "ntfs3", "fuseblk"}


def has_started_build(request: ProbeRequest) -> bool:
    """Return True if this build has started, so that most of its disk space is already used."""
    return any(is_accessible(path) for path in request.begun)


def read_long_paths_setting() -> bool | None:
    """Return the registry value LongPathsEnabled (learn.microsoft.com), None if it is unknown."""
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415 - exists only on Windows

        key = r"SYSTEM\CurrentControlSet\Control\FileSystem"
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as registry_key:
                return bool(winreg.QueryValueEx(registry_key, "LongPathsEnabled")[0])
        except FileNotFoundError:
            return False
        except OSError:
            return None
    return None


def find_leftovers(request: ProbeRequest) -> Iterator[Leftover]:
    """Yield other runs of any profile, and this build folder if torchyard did not create it."""
    import psutil  # noqa: PLC0415 - not at load

    build = Path(request.build) if request.build else None
    if build and is_accessible(build) and not files.is_owned(build) and has_content(build):
        yield Leftover("foreign", str(build))
    build_root = Path(request.project.outputs) / "build"
    for folder in sorted(build_root.iterdir()) if build_root.is_dir() else ():
        run = files.read_lock_holder(folder) if folder.is_dir() else ""
        pid = run.partition("-")[0]
        if not run or run == process_group.RUN_ID:
            continue
        if pid.isdigit() and psutil.pid_exists(int(pid)):
            yield Leftover("running", str(folder))
        else:
            yield Leftover("killed", str(folder), process_group.list_running_programs(run))


def find_unsafe_paths(request: ProbeRequest) -> tuple[UnsafePath, ...] | None:
    """Return the folders of the build and on PATH that other users may write to.

    Filesystems without file owners (Windows disks in WSL, USB sticks) are skipped, because all
    files there seem to be writable by everyone. Return None on a system that is not POSIX.
    """
    if os.name != "posix":
        return None
    mounts = tuple(list_mounts())

    def is_unsafe(folder: Path) -> bool:
        # The sticky bit (as of /tmp) does not help, because other users can add a program
        with contextlib.suppress(OSError):
            if folder.stat().st_mode & stat.S_IWOTH:
                return find_filesystem_type(folder, mounts) not in _OWNERLESS
        return False

    project = request.project
    roots = (project.root, project.code, project.config, *dict(request.places).values())
    folders = dict.fromkeys(map(Path, roots))
    unsafe = [UnsafePath("folder", str(folder)) for folder in folders if is_unsafe(folder)]
    for entry in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        if not Path(entry).is_absolute():
            unsafe.append(UnsafePath("relative", entry))
        elif is_unsafe(Path(entry)):
            unsafe.append(UnsafePath("PATH", entry))
    return tuple(unsafe)


# Syntax: git-config(1), "Syntax"; keys: gitmodules(5)
_GITMODULES_SECTION = re.compile(r"^\s*\[", re.M)
_GITMODULES_PATH = re.compile(r"^\s*path\s*=\s*\"?([^\"#;\n]+?)\"?\s*(?:[#;].*)?$", re.M | re.I)
_NEVER_UPDATED = re.compile(r"^\s*update\s*=\s*none\b", re.M | re.I)  # git never fetches these


def find_missing_submodules(
    request: ProbeRequest,
) -> tuple[host_facts.MissingSubmodules, ...] | None:
    """Return the empty submodules of extensions in the user's folders, `None` without a profile.

    The git work tree around such a folder is also searched.
    """
    found = []
    for extension, copied, built in request.own:
        with contextlib.suppress(OSError):  # the stage that copies the folder reports the error
            copied_root, source = Path(copied).resolve(), Path(built).resolve()
            candidates = (source, *source.parents)
            work_tree = next((place for place in candidates if (place / ".git").exists()), source)
            for tree in dict.fromkeys((source, copied_root, work_tree)):
                if empty := tuple(_find_empty_submodules(tree, copied_root)):
                    is_clone = (tree / ".git").exists()
                    found.append(
                        host_facts.MissingSubmodules(extension, source, tree, empty, is_clone)
                    )
    return tuple(found) if request.build else None


def _find_empty_submodules(tree: Path, copied: Path) -> Iterator[Path]:
    """Yield the empty submodules of `tree` that are inside or around the folder `copied`."""
    if not (gitmodules := tree / ".gitmodules").is_file():
        return
    text = gitmodules.read_text(encoding="utf-8", errors="replace")
    for section in _GITMODULES_SECTION.split(text):
        if _NEVER_UPDATED.search(section) or not (path := _GITMODULES_PATH.search(section)):
            continue
        place = tree / path[1]
        is_related = place.is_relative_to(copied) or copied.is_relative_to(place)
        if is_related and not has_content(place):
            yield place


def find_merge_conflicts(request: ProbeRequest) -> tuple[host_facts.UnmergedCheckout, ...] | None:
    """Return the user's checkouts with merge conflicts; None without a profile or without git."""
    try:
        unmerged = tuple(
            host_facts.UnmergedCheckout(setting, f"in {folder} {conflict}", conflict.hint)
            for setting, folder in request.checkouts
            if (conflict := local_changes.find_conflicts(folder))
        )
    except (CommandFailedError, MissingToolError, OSError):
        return None
    return unmerged if request.build else None
