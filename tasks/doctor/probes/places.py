"""Long paths, and what an earlier build left."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.doctor.host_facts import Leftover, ProbeRequest, UnsafePath
from tasks.doctor.probes import disks
from tasks.system import files
from tasks.system.folders import has_content, is_accessible
from tasks.system.process import leftovers

_OWNERLESS = {"9p", "drvfs", "vfat", "exfat", "ntfs", "ntfs3", "fuseblk"}


def read_folder_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`disks`, `begun`, `long_paths`, `leftovers`, `exposed`."""
    found: dict[str, Any] = {}
    if wanted & {"disk", "filesystem"}:
        found["disks"] = tuple(disks.list_disks(asked))
        found["begun"] = has_started_build(asked)
    if asked.host.system == "windows" and "long-paths" in wanted:
        found["long_paths"] = _read_long_paths_setting()
    if "leftovers" in wanted:
        found["leftovers"] = tuple(_find_leftovers(asked))
    if os.name == "posix" and "trust" in wanted:
        found["exposed"] = tuple(_find_unsafe_paths(asked))
    return found


def has_started_build(asked: ProbeRequest) -> bool:
    """Whether most of the room of this build is taken already."""
    return any(is_accessible(path) for path in asked.begun)


def _read_long_paths_setting() -> bool | None:
    """Of the whole machine (learn.microsoft.com, "Maximum Path Length Limitation")."""
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415 - there on Windows alone

        key = r"SYSTEM\CurrentControlSet\Control\FileSystem"
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as opened:
                return bool(winreg.QueryValueEx(opened, "LongPathsEnabled")[0])
        except FileNotFoundError:
            return False
        except OSError:
            return None
    return None


def _find_leftovers(asked: ProbeRequest) -> Iterator[Leftover]:
    """Of all profiles of this checkout: they share memory, and may share a tree."""
    import psutil  # noqa: PLC0415 - not at load

    build = Path(asked.build) if asked.build else None
    if build and is_accessible(build) and not files.is_owned(build) and has_content(build):
        yield Leftover("not ours", str(build))
    above = Path(asked.root) / "build"
    for folder in sorted(above.iterdir()) if above.is_dir() else ():
        run = files.read_lock_holder(folder) if folder.is_dir() else ""
        pid = run.partition("-")[0]
        if not run or run == leftovers.RUN_ID:
            continue
        if pid.isdigit() and psutil.pid_exists(int(pid)):
            yield Leftover("at work", str(folder))
        else:
            yield Leftover("killed", str(folder), leftovers.list_running_programs(run))


def _find_unsafe_paths(asked: ProbeRequest) -> Iterator[UnsafePath]:
    """Disks that have no owners of files (Windows' in WSL, a stick) say of all that everyone may
    write there: of those nothing is said.
    """
    kinds = tuple(disks.list_mounts())
    ours = [asked.root, Path(asked.root) / "config", *(path for _, path in asked.places)]
    for folder in dict.fromkeys(map(Path, ours)):
        if (
            _is_world_writable(folder)
            and disks.find_filesystem_type(folder, kinds) not in _OWNERLESS
        ):
            yield UnsafePath("folder", str(folder))
    for entry in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        if not Path(entry).is_absolute():
            yield UnsafePath("relative", entry)
        elif (
            _is_world_writable(Path(entry))
            and disks.find_filesystem_type(Path(entry), kinds) not in _OWNERLESS
        ):
            yield UnsafePath("PATH", entry)


def _is_world_writable(folder: Path) -> bool:
    """Also where only the owner of a file may replace it (/tmp): a new one is enough."""
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False
