"""The disks that a build writes to, and their filesystems."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

from tasks.core.errors import TorchyardError
from tasks.doctor.host_facts import Disk, ProbeRequest
from tasks.stages.install.target import interpreter
from tasks.system.folders import find_existing_ancestor, is_accessible

_MIB_BYTES = 2**20
_MOUNTS = Path("/proc/self/mounts")


def list_disks(asked: ProbeRequest) -> Iterator[Disk]:
    """Each disk with the places that lie on it, by the path of the first, which needs the most."""
    known = tuple(list_mounts())
    held: dict[int, list[tuple[str, PurePath, Path]]] = {}
    for what, path in _list_written_places(asked):
        place = find_existing_ancestor(path)
        with contextlib.suppress(OSError):
            held.setdefault(place.stat().st_dev, []).append((what, path, place))
    for found in held.values():
        _, path, place = found[0]
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(place).free // _MIB_BYTES
            holds = tuple(what for what, _, _ in found)
            yield Disk(holds, str(path), free, find_filesystem_type(place, known))


def _list_written_places(asked: ProbeRequest) -> Iterator[tuple[str, PurePath]]:
    yield from asked.places
    if asked.into and not (asked.installed and is_accessible(asked.installed)):
        with contextlib.suppress(TorchyardError):  # told by whoever wants to install there
            yield "install.into", interpreter.find_interpreter(asked.into, asked.root).parent.parent
    yield "caches", _find_cache_folder()
    yield "temporary files", _find_temporary_folder()


def _find_cache_folder() -> PurePath:
    """uv's (docs.astral.sh/uv/concepts/cache), beside which those of compilers lie by default."""
    if named := os.environ.get("UV_CACHE_DIR"):
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home())
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _find_temporary_folder() -> PurePath:
    """Without a try whether it can be written to, which tempfile makes."""
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return Path(next(filter(None, named), "/tmp"))  # noqa: S108 - looked at, never written


def list_mounts() -> Iterator[tuple[Path, str]]:
    """Mount points with the type of what is there, the deepest first (proc_pid_mounts(5))."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    rows = [line.split() for line in lines]
    points = [(Path(row[1].replace("\\040", " ")), row[2]) for row in rows if len(row) > 2]
    yield from sorted(points, key=lambda point: len(point[0].parts), reverse=True)


def find_filesystem_type(place: Path, known: tuple[tuple[Path, str], ...]) -> str:
    """The type of the filesystem that it lies on, "" where nobody tells."""
    real = place.resolve()
    if sys.platform == "win32":
        import psutil  # noqa: PLC0415 - not at load

        drives = {part.mountpoint: part.fstype for part in psutil.disk_partitions()}
        return str(drives.get(real.anchor, ""))
    return next((kind for point, kind in known if real.is_relative_to(point)), "")
