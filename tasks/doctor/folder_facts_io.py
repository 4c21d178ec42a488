"""Read facts about folders: disks, filesystems, leftovers, permissions and checkouts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.core.errors import CommandFailedError, MissingToolError, TorchyardError
from tasks.doctor.host_facts import (
    Disk,
    Leftover,
    MissingSubmodules,
    ProbeRequest,
    UnmergedCheckout,
    UnsafePath,
)
from tasks.stages.install import target_interpreter_io
from tasks.system import files, git, process_group
from tasks.system.files import find_existing_ancestor, has_content, is_accessible

_MIB_BYTES = 2**20
_MOUNTS = Path("/proc/self/mounts")


def list_disks(asked: ProbeRequest) -> Iterator[Disk]:
    """Yield each disk with its places, named by the path of the first, which needs most space."""
    mounts = tuple(list_mounts())
    places_by_device: dict[int, list[tuple[str, PurePath, Path]]] = {}
    for label, path in _list_written_places(asked):
        place = find_existing_ancestor(path)
        with contextlib.suppress(OSError):
            places_by_device.setdefault(place.stat().st_dev, []).append((label, path, place))
    for places in places_by_device.values():
        _, path, place = places[0]
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(place).free // _MIB_BYTES
            holds = tuple(label for label, _, _ in places)
            yield Disk(holds, str(path), free, find_filesystem_type(place, mounts))


def _list_written_places(asked: ProbeRequest) -> Iterator[tuple[str, PurePath]]:
    yield from asked.places
    if asked.into and not (asked.installed and is_accessible(asked.installed)):
        with contextlib.suppress(TorchyardError):  # reported by the install stage
            yield (
                "install.into",
                target_interpreter_io.find_interpreter(asked.into, asked.root).parent.parent,
            )
    yield "caches", _find_cache_folder()
    yield "temporary files", _find_temporary_folder()


def _find_cache_folder() -> PurePath:
    """Return uv's cache folder (docs.astral.sh/uv/concepts/cache).

    Compiler caches are next to it by default.
    """
    if cache_folder := os.environ.get("UV_CACHE_DIR"):
        return Path(cache_folder)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home())
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _find_temporary_folder() -> PurePath:
    """Return the folder for temporary files, without tempfile's test for write access."""
    candidates = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return Path(next(filter(None, candidates), "/tmp"))  # noqa: S108 - only inspected, never written


def list_mounts() -> Iterator[tuple[Path, str]]:
    """Yield mount points with their filesystem types, the deepest first (proc_pid_mounts(5))."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    rows = [line.split() for line in lines]
    points = [(Path(row[1].replace("\\040", " ")), row[2]) for row in rows if len(row) > 2]
    yield from sorted(points, key=lambda point: len(point[0].parts), reverse=True)


def find_filesystem_type(place: Path, known: tuple[tuple[Path, str], ...]) -> str:
    """Return the type of the filesystem of `place`, "" if unknown."""
    real = place.resolve()
    if sys.platform == "win32":
        import psutil  # noqa: PLC0415 - not at load

        drives = {part.mountpoint: part.fstype for part in psutil.disk_partitions()}
        return str(drives.get(real.anchor, ""))
    return next((kind for point, kind in known if real.is_relative_to(point)), "")


_OWNERLESS = {"9p", "drvfs", "vfat", "exfat", "ntfs", "ntfs3", "fuseblk"}


def read_folder_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """Read `disks`, `begun`, `long_paths`, `leftovers` and `exposed`."""
    facts: dict[str, Any] = {}
    if wanted & {"disk", "filesystem"}:
        facts["disks"] = tuple(list_disks(asked))
        facts["begun"] = has_started_build(asked)
    if asked.host.system == "windows" and "long-paths" in wanted:
        facts["long_paths"] = _read_long_paths_setting()
    if "leftovers" in wanted:
        facts["leftovers"] = tuple(_find_leftovers(asked))
    if os.name == "posix" and "trust" in wanted:
        facts["exposed"] = tuple(_find_unsafe_paths(asked))
    return facts


def has_started_build(asked: ProbeRequest) -> bool:
    """Return True if most of the disk space of this build is already used."""
    return any(is_accessible(path) for path in asked.begun)


def _read_long_paths_setting() -> bool | None:
    """Return the machine-wide setting (learn.microsoft.com, "Maximum Path Length Limitation")."""
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


def _find_leftovers(asked: ProbeRequest) -> Iterator[Leftover]:
    """Yield leftovers of all profiles of this checkout: they share memory, and may share a tree."""
    import psutil  # noqa: PLC0415 - not at load

    build = Path(asked.build) if asked.build else None
    if build and is_accessible(build) and not files.is_owned(build) and has_content(build):
        yield Leftover("not ours", str(build))
    build_root = Path(asked.root) / "build"
    for folder in sorted(build_root.iterdir()) if build_root.is_dir() else ():
        run = files.read_lock_holder(folder) if folder.is_dir() else ""
        pid = run.partition("-")[0]
        if not run or run == process_group.RUN_ID:
            continue
        if pid.isdigit() and psutil.pid_exists(int(pid)):
            yield Leftover("at work", str(folder))
        else:
            yield Leftover("killed", str(folder), process_group.list_running_programs(run))


def _find_unsafe_paths(asked: ProbeRequest) -> Iterator[UnsafePath]:
    """Yield the folders of the build and on PATH that other users may write to.

    Filesystems without file owners (Windows disks in WSL, USB sticks) report all files as writable
    by everyone; these are skipped.
    """
    mounts = tuple(list_mounts())
    build_folders = [asked.root, Path(asked.root) / "config", *(path for _, path in asked.places)]
    for folder in dict.fromkeys(map(Path, build_folders)):
        if _is_world_writable(folder) and find_filesystem_type(folder, mounts) not in _OWNERLESS:
            yield UnsafePath("folder", str(folder))
    for entry in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        if not Path(entry).is_absolute():
            yield UnsafePath("relative", entry)
        elif (
            _is_world_writable(Path(entry))
            and find_filesystem_type(Path(entry), mounts) not in _OWNERLESS
        ):
            yield UnsafePath("PATH", entry)


def _is_world_writable(folder: Path) -> bool:
    """Return True if everyone may create files in the folder.

    The sticky bit (/tmp) does not help: a new file is enough.
    """
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


# git-config(5), "Syntax"; gitmodules(5) for the keys
_GITMODULES_SECTION = re.compile(r"^\s*\[", re.MULTILINE)
_GITMODULES_PATH = re.compile(
    r"^\s*path\s*=\s*\"?([^\"#;\n]+?)\"?\s*(?:[#;].*)?$", re.MULTILINE | re.I
)
_NEVER_UPDATED = re.compile(r"^\s*update\s*=\s*none\b", re.MULTILINE | re.I)


def read_submodule_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """Read `unfetched`."""
    if "submodules" not in wanted or not asked.build:
        return {}
    missing = (
        submodules
        for name, *folders in asked.own
        for submodules in _find_missing_submodules(name, *folders)
    )
    return {"unfetched": tuple(missing)}


def _find_missing_submodules(
    extension: str, copied: PurePath, built: PurePath
) -> Iterator[MissingSubmodules]:
    """Yield missing submodules, by .gitmodules of both folders and of their work tree."""
    with contextlib.suppress(OSError):  # the stage that copies it reports the error
        copied_root, source = Path(copied).resolve(), Path(built).resolve()
        candidates = (source, *source.parents)
        work_tree = next((place for place in candidates if _is_git_clone(place)), source)
        for tree in dict.fromkeys((source, copied_root, work_tree)):
            if empty := tuple(_find_empty_submodules(tree, copied_root)):
                yield MissingSubmodules(extension, source, tree, empty, _is_git_clone(tree))


def _is_git_clone(place: Path) -> bool:
    return (place / ".git").exists()


def _find_empty_submodules(tree: Path, copied: Path) -> Iterator[Path]:
    """Yield the empty submodules that are below the copied folder or contain it."""
    for path in _parse_submodule_paths(tree / ".gitmodules"):
        place = tree / path
        is_related = place.is_relative_to(copied) or copied.is_relative_to(place)
        if is_related and not has_content(place):
            yield place


def _parse_submodule_paths(gitmodules: Path) -> Iterator[str]:
    """Yield the paths of the submodules, except those that git never fetches."""
    if not gitmodules.is_file():
        return
    for section in _GITMODULES_SECTION.split(
        gitmodules.read_text(encoding="utf-8", errors="replace")
    ):
        if not _NEVER_UPDATED.search(section) and (path := _GITMODULES_PATH.search(section)):
            yield path[1]


def read_conflict_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """Return `unmerged`; {} if git cannot be run."""
    if "conflicts" not in wanted or not asked.build:
        return {}
    try:
        return {"unmerged": tuple(_find_unmerged_checkouts(asked))}
    except (CommandFailedError, MissingToolError, OSError):
        return {}


def _find_unmerged_checkouts(asked: ProbeRequest) -> Iterator[UnmergedCheckout]:
    for setting, folder in asked.checkouts:
        if conflict := git.find_conflicts(folder):
            yield UnmergedCheckout(setting, f"in {folder} {conflict}", conflict.hint)
