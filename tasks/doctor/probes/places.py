"""Long paths, and what an earlier build left."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.doctor.host_facts import Asked, Exposed, Leftover
from tasks.doctor.probes import disks
from tasks.system import files
from tasks.system.folders import holds_something, is_there
from tasks.system.process import leftovers

_OWNERLESS = {"9p", "drvfs", "vfat", "exfat", "ntfs", "ntfs3", "fuseblk"}


def look(asked: Asked, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`disks`, `begun`, `long_paths`, `leftovers`, `exposed`."""
    found: dict[str, Any] = {}
    if wanted & {"disk", "filesystem"}:
        found["disks"] = tuple(disks.disks(asked))
        found["begun"] = begun(asked)
    if asked.host.system == "windows" and "long-paths" in wanted:
        found["long_paths"] = _long_paths()
    if "leftovers" in wanted:
        found["leftovers"] = tuple(_leftovers(asked))
    if os.name == "posix" and "trust" in wanted:
        found["exposed"] = tuple(_exposed(asked))
    return found


def begun(asked: Asked) -> bool:
    """Whether most of the room of this build is taken already."""
    return any(is_there(path) for path in asked.begun)


def _long_paths() -> bool | None:
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


def _leftovers(asked: Asked) -> Iterator[Leftover]:
    """Of all profiles of this checkout: they share memory, and may share a tree."""
    import psutil  # noqa: PLC0415 - not at load

    build = Path(asked.build) if asked.build else None
    if build and is_there(build) and not files.is_owned(build) and holds_something(build):
        yield Leftover("not ours", str(build))
    above = Path(asked.root) / "build"
    for folder in sorted(above.iterdir()) if above.is_dir() else ():
        run = files.holder_of(folder) if folder.is_dir() else ""
        pid = run.partition("-")[0]
        if not run or run == leftovers.RUN:
            continue
        if pid.isdigit() and psutil.pid_exists(int(pid)):
            yield Leftover("at work", str(folder))
        else:
            yield Leftover("killed", str(folder), leftovers.at_work(run))


def _exposed(asked: Asked) -> Iterator[Exposed]:
    """Disks that have no owners of files (Windows' in WSL, a stick) say of all that everyone may
    write there: of those nothing is said.
    """
    kinds = tuple(disks.kinds())
    ours = [asked.root, Path(asked.root) / "config", *(path for _, path in asked.places)]
    for folder in dict.fromkeys(map(Path, ours)):
        if _everyone_writes(folder) and disks.kind(folder, kinds) not in _OWNERLESS:
            yield Exposed("folder", str(folder))
    for entry in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        if not Path(entry).is_absolute():
            yield Exposed("relative", entry)
        elif _everyone_writes(Path(entry)) and disks.kind(Path(entry), kinds) not in _OWNERLESS:
            yield Exposed("PATH", entry)


def _everyone_writes(folder: Path) -> bool:
    """Also where only the owner of a file may replace it (/tmp): a new one is enough."""
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False
