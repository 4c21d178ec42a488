"""Compute how many compilers this machine can run at once, from cores and memory."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tasks.knowledge.resource_estimates import CUDA_COMPILER_MIB, KERNEL_COMPILER_MIB

PROC = Path("/proc" if sys.platform == "linux" else os.devnull)
_BYTES_PER_MIB = 2**20
_LIMIT_FILES = {1: ("memory.limit_in_bytes",), 2: ("memory.max", "memory.high")}
_USAGE_FILES = {1: "memory.usage_in_bytes", 2: "memory.current"}
_INACTIVE_KEYS = {1: "total_inactive_file", 2: "inactive_file"}
_ESCAPED_CHARACTER = re.compile(r"\\([0-7]{3})")  # how mountinfo writes a space


@dataclass(frozen=True)
class MemoryReading:
    """A memory limit, and how much memory is still available below it, in MiB."""

    limit_mib: int
    available_mib: int


@dataclass(frozen=True)
class ControlGroup:
    """A control group (cgroup v1 or v2), whose folder may contain a memory limit."""

    folder: Path
    version: int


class _CgroupMount(NamedTuple):
    version: int
    device: str
    root: PurePosixPath
    point: Path


def find_control_groups(proc: Path = PROC) -> tuple[ControlGroup, ...]:
    """Return the control groups that can limit this process's memory, the nearest first."""
    try:
        mount_text = (proc / "self" / "mountinfo").read_text(encoding="utf-8")
        path_text = (proc / "self" / "cgroup").read_text(encoding="utf-8")
    except OSError:
        return ()
    # A chroot mounts the same tree again: keep the first mount
    mounts: dict[tuple[int, str, PurePosixPath], _CgroupMount] = {}
    for mount in _parse_cgroup_mounts(mount_text):
        mounts.setdefault(mount[:3], mount)
    return tuple(
        group
        for version, path in dict(_parse_cgroup_paths(path_text)).items()
        for mount in mounts.values()
        if mount.version == version
        for group in _list_parent_groups(mount, path)
        if any((group.folder / name).exists() for name in _LIMIT_FILES[version])
    )


def measure_memory(groups: tuple[ControlGroup, ...], proc: Path = PROC) -> MemoryReading:
    """Return the memory of the machine, or of the control group with less available memory."""
    return min(_list_memory_readings(groups, proc), key=lambda memory: memory.available_mib)


def find_memory_limit(groups: tuple[ControlGroup, ...], proc: Path = PROC) -> int:
    """Return the lowest memory limit of the machine and its control groups, in MiB."""
    return min(memory.limit_mib for memory in _list_memory_readings(groups, proc))


def _list_memory_readings(groups: tuple[ControlGroup, ...], proc: Path) -> list[MemoryReading]:
    return [_read_machine_memory(proc), *filter(None, map(_read_group_memory, groups))]


def _read_machine_memory(proc: Path) -> MemoryReading:
    try:
        text = (proc / "meminfo").read_text(encoding="utf-8")
    except OSError:
        import psutil  # noqa: PLC0415 - only where there is no /proc

        memory = psutil.virtual_memory()
        return MemoryReading(memory.total // _BYTES_PER_MIB, memory.available // _BYTES_PER_MIB)
    sizes = {name: int(rest.split()[0]) for name, _, rest in _split_lines(text, ":")}
    return MemoryReading(sizes["MemTotal"] // 1024, sizes["MemAvailable"] // 1024)


def _read_group_memory(group: ControlGroup) -> MemoryReading | None:
    """Return the memory of a control group; None if it has no limit or is gone."""
    limits = [_read_number(group.folder / name) for name in _LIMIT_FILES[group.version]]
    limit = min((value for value in limits if value is not None), default=None)
    used = _read_number(group.folder / _USAGE_FILES[group.version])
    if limit is None or used is None:
        return None
    inactive, key = 0, _INACTIVE_KEYS[group.version]
    with contextlib.suppress(OSError):
        text = (group.folder / "memory.stat").read_text(encoding="ascii")
        inactive = next((int(rest) for name, _, rest in _split_lines(text, " ") if name == key), 0)
    available = max(0, limit - max(0, used - inactive))
    return MemoryReading(limit // _BYTES_PER_MIB, available // _BYTES_PER_MIB)


def _read_number(path: Path) -> int | None:
    """Return the number in a file; None if the file is missing or contains "max"."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _split_lines(text: str, separator: str) -> Iterator[tuple[str, str, str]]:
    return (line.partition(separator) for line in text.splitlines() if separator in line)


def _parse_cgroup_paths(text: str) -> Iterator[tuple[int, PurePosixPath]]:
    """Yield (version, path) of each cgroup: (1, /a) for `4:memory:/a`, (2, /b) for `0::/b`."""
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield 2, PurePosixPath(path)
        elif "memory" in controllers.split(","):
            yield 1, PurePosixPath(path)


def _parse_cgroup_mounts(text: str) -> Iterator[_CgroupMount]:
    """Yield the cgroup mounts in the text of /proc/self/mountinfo."""
    for line in text.splitlines():
        mount_fields, _, filesystem_fields = line.partition(" - ")
        kind, *_, options = filesystem_fields.split()
        device, root, point = (
            _ESCAPED_CHARACTER.sub(lambda code: chr(int(code[1], 8)), field)
            for field in mount_fields.split()[2:5]
        )
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
            version = 2 if kind == "cgroup2" else 1
            yield _CgroupMount(version, device, PurePosixPath(root), Path(point))


def _list_parent_groups(mount: _CgroupMount, path: PurePosixPath) -> Iterator[ControlGroup]:
    """Yield the group at `path` and all groups above it within the mount.

    If `path` is not in the mount, as in some containers, yield only the top of the mount.
    """
    folder = mount.point
    if path.is_relative_to(mount.root):
        folder = mount.point / path.relative_to(mount.root)
    if ".." in folder.parts or not folder.is_dir():
        folder = mount.point
    while folder != mount.point:
        yield ControlGroup(folder, mount.version)
        folder = folder.parent
    yield ControlGroup(mount.point, mount.version)


def count_usable_cores() -> int:
    """Return the number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def compute_safe_jobs(compiler_mib: int = 0, most: int = 0) -> int:
    """Return how many compilers the cores and the available memory allow, at least one.

    A compiler needs `compiler_mib`, if this is more than usual. `most`, if not 0, is used instead
    of the number of cores.
    """
    available = measure_memory(find_control_groups()).available_mib
    by_memory = available // max(CUDA_COMPILER_MIB, compiler_mib)
    return max(1, min(most or count_usable_cores(), by_memory))


def count_processors() -> int:
    """Return the number of processors of the machine; this process may use fewer."""
    return os.cpu_count() or 1


def compute_kernel_jobs(most: int) -> int:
    """Return how many compilers of flash-attention kernels fit the memory limit, at most `most`."""
    limit = find_memory_limit(find_control_groups())
    return max(1, min(most, limit // KERNEL_COMPILER_MIB))
