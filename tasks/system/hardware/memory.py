"""What memory a build may still take: the least of what the machine has and what each control group
above this process has.

The kernel's files: cgroup v2 `memory.max`, `memory.high`, `memory.current` and `inactive_file` of
`memory.stat` (docs.kernel.org/admin-guide/cgroup-v2.html), v1 `memory.limit_in_bytes`,
`memory.usage_in_bytes` and `total_inactive_file` (…/cgroup-v1/memory.html), `MemAvailable` of
/proc/meminfo. Inactive pages of files are let go before anyone is killed, so they count as free.
Pressure (PSI) is not asked: it tells that memory was short, not how much there is.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PROC = Path("/proc" if sys.platform == "linux" else os.devnull)
_MIB = 2**20
_LIMITS = {1: ("memory.limit_in_bytes",), 2: ("memory.max", "memory.high")}
_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}
_IDLE = {1: "total_inactive_file", 2: "inactive_file"}
_ESCAPED = re.compile(r"\\([0-7]{3})")  # how mountinfo writes a space


@dataclass(frozen=True)
class Memory:
    """In MiB, by the limit that leaves the least: the limit itself, and what is left of it."""

    limit_mib: int
    available_mib: int


@dataclass(frozen=True)
class Group:
    """A folder of a control group that may hold a limit, and its version."""

    folder: Path
    version: int


@dataclass(frozen=True)
class _Mount:
    device: str
    root: PurePosixPath
    point: Path
    version: int


def groups(proc: Path = PROC) -> tuple[Group, ...]:
    """The control groups above this process that can limit its memory, the nearest first; none
    where the system has no such thing.
    """
    try:
        mounts = tuple(_mounts((proc / "self" / "mountinfo").read_text(encoding="utf-8")))
        own = dict(_paths((proc / "self" / "cgroup").read_text(encoding="utf-8")))
    except OSError:
        return ()
    return tuple(
        group
        for version, path in own.items()
        for mount in _once(mount for mount in mounts if mount.version == version)
        for group in _above(mount, path)
        if any((group.folder / name).exists() for name in _LIMITS[version])
    )


def measure(above: tuple[Group, ...], proc: Path = PROC) -> Memory:
    """What is there now; `above` comes from `groups`, which a running process asks once."""
    return min(_readings(above, proc), key=lambda memory: memory.available_mib)


def limit_mib(above: tuple[Group, ...], proc: Path = PROC) -> int:
    """The least limit there is, which stays the same from run to run: that of `measure` is the one
    which leaves the least at the moment.
    """
    return min(memory.limit_mib for memory in _readings(above, proc))


def _readings(above: tuple[Group, ...], proc: Path) -> list[Memory]:
    return [_machine(proc), *filter(None, map(_of_group, above))]


def _machine(proc: Path) -> Memory:
    try:
        text = (proc / "meminfo").read_text(encoding="utf-8")
    except OSError:
        import psutil  # noqa: PLC0415 - only where there is no /proc

        memory = psutil.virtual_memory()
        return Memory(memory.total // _MIB, memory.available // _MIB)
    sizes = {name: int(rest.split()[0]) for name, _, rest in _lines(text, ":")}
    return Memory(sizes["MemTotal"] // 1024, sizes["MemAvailable"] // 1024)


def _of_group(group: Group) -> Memory | None:
    """None where the group has no limit, or is gone."""
    limits = [_number(group.folder / name) for name in _LIMITS[group.version]]
    limit = min((value for value in limits if value is not None), default=None)
    used = _number(group.folder / _USED[group.version])
    if limit is None or used is None:
        return None
    idle = _inactive(group.folder, _IDLE[group.version])
    return Memory(limit // _MIB, max(0, limit - max(0, used - idle)) // _MIB)


def _number(path: Path) -> int | None:
    """None for "max" and where there is no such file. v1 tells no limit as 2**63 less a page, which
    is never the least.
    """
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _inactive(folder: Path, name: str) -> int:
    with contextlib.suppress(OSError):
        for key, _, rest in _lines((folder / "memory.stat").read_text(encoding="ascii"), " "):
            if key == name:
                return int(rest)
    return 0


def _lines(text: str, separator: str) -> Iterator[tuple[str, str, str]]:
    return (line.partition(separator) for line in text.splitlines() if separator in line)


def _paths(text: str) -> Iterator[tuple[int, PurePosixPath]]:
    """Version and path out of /proc/self/cgroup: `4:memory:/a` is v1, `0::/b` is v2."""
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield 2, PurePosixPath(path)
        elif "memory" in controllers.split(","):
            yield 1, PurePosixPath(path)


def _mounts(text: str) -> Iterator[_Mount]:
    """`31 23 0:28 ROOT POINT options … - TYPE source superoptions` (proc_pid_mountinfo(5))."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, *_, options = after.split()
        device, root, point = (_unescaped(field) for field in before.split()[2:5])
        if kind == "cgroup2":
            yield _Mount(device, PurePosixPath(root), Path(point), 2)
        elif kind == "cgroup" and "memory" in options.split(","):
            yield _Mount(device, PurePosixPath(root), Path(point), 1)


def _unescaped(field: str) -> str:
    return _ESCAPED.sub(lambda code: chr(int(code[1], 8)), field)


def _once(mounts: Iterable[_Mount]) -> Iterable[_Mount]:
    """The same tree mounted again, for a changed root, says nothing new."""
    found: dict[tuple[str, PurePosixPath], _Mount] = {}
    for mount in mounts:
        found.setdefault((mount.device, mount.root), mount)
    return found.values()


def _above(mount: _Mount, path: PurePosixPath) -> Iterator[Group]:
    """The group's folder and all above it within the mount. In a container the path may be told as
    the host sees it while only the container's own part is mounted, or the other way round: what
    is mounted is then the group itself.
    """
    folder = mount.point
    if path.is_relative_to(mount.root):
        folder = mount.point / path.relative_to(mount.root)
    if ".." in folder.parts or not folder.is_dir():
        folder = mount.point
    while folder != mount.point:
        yield Group(folder, mount.version)
        folder = folder.parent
    yield Group(mount.point, mount.version)
