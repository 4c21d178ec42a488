"""Available memory, read from fabricated /proc and cgroup trees."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tasks.system.hardware import capacity
from tasks.system.hardware.capacity import MemoryReading

MIB = 2**20
NO_LIMIT_V1 = "9223372036854771712"
MACHINE = MemoryReading(16_000, 9_000)


class Tree:
    """A /proc and cgroup mounts in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc = folder / "proc"
        self.mounts: list[str] = ["22 1 8:1 / / rw - ext4 /dev/root rw"]
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "meminfo").write_text(
            f"MemTotal: {16_000 * 1024} kB\nMemFree: 1 kB\nMemAvailable: {9_000 * 1024} kB\n"
        )

    def at(self, *own: str) -> Tree:
        (self.proc / "self" / "cgroup").write_text("".join(f"{line}\n" for line in own))
        return self

    def mount(self, version: int, root: str = "/", name: str = "cg") -> Path:
        point = self.folder / name
        point.mkdir()
        kind = "cgroup2 cgroup2 rw" if version == 2 else "cgroup cgroup rw,memory"
        escaped = str(point).replace(" ", "\\040")
        self.mounts.append(f"31 23 0:28 {root} {escaped} rw,relatime shared:9 - {kind}")
        (self.proc / "self" / "mountinfo").write_text("\n".join(self.mounts) + "\n")
        return point

    def now(self) -> MemoryReading:
        return capacity.measure_memory(capacity.find_control_groups(self.proc), self.proc)


def v1(folder: Path, limit: str, used_mib: int = 0, inactive_mib: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used_mib * MIB}\n")
    stat = f"cache 1\ninactive_file 7\ntotal_inactive_file {inactive_mib * MIB}\n"
    (folder / "memory.stat").write_text(stat)


def v2(folder: Path, limit: str, used_mib: int, inactive_mib: int = 0, high: str = "max") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.high").write_text(f"{high}\n")
    (folder / "memory.current").write_text(f"{used_mib * MIB}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {inactive_mib * MIB}\n")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_memory_without_cgroups_is_that_of_host(tree: Tree) -> None:
    assert capacity.find_control_groups(tree.proc) == ()
    assert tree.now() == MACHINE


def test_v2_available_memory_excludes_inactive_files(tree: Tree) -> None:
    point = tree.at("0::/user/build").mount(2)
    v2(point / "user" / "build", str(4000 * MIB), used_mib=3000, inactive_mib=500)
    assert tree.now() == MemoryReading(4000, 1500)


def test_v2_memory_high_is_limit(tree: Tree) -> None:
    point = tree.at("0::/build").mount(2)
    v2(point / "build", str(4000 * MIB), used_mib=1000, high=str(2000 * MIB))
    assert tree.now() == MemoryReading(2000, 1000)


def test_tightest_ancestor_limit_applies(tree: Tree) -> None:
    point = tree.at("0::/slice/build").mount(2)
    v2(point / "slice" / "build", "max", used_mib=100)
    v2(point / "slice", str(3000 * MIB), used_mib=2900)
    assert tree.now() == MemoryReading(3000, 100)


def test_lowest_limit_is_found_even_if_host_has_less_available(tree: Tree) -> None:
    point = tree.at("0::/build").mount(2)
    v2(point / "build", str(12_000 * MIB), used_mib=100)
    assert tree.now() == MACHINE  # the machine has less available
    assert capacity.find_memory_limit(capacity.find_control_groups(tree.proc), tree.proc) == 12_000


def test_v1_usage_includes_child_groups(tree: Tree) -> None:
    point = tree.at("9:name=systemd:/", "4:cpu,memory:/a").mount(1)
    v1(point / "a", str(2000 * MIB), used_mib=1500, inactive_mib=300)
    v1(point, NO_LIMIT_V1, used_mib=9000)
    assert tree.now() == MemoryReading(2000, 800)


@pytest.mark.parametrize("version", [1, 2])
def test_cgroup_without_limit_reports_host_memory(tree: Tree, version: int) -> None:
    point = tree.at("4:memory:/a", "0::/a").mount(version)
    if version == 1:
        v1(point / "a", NO_LIMIT_V1, used_mib=100)
    else:
        v2(point / "a", "max", used_mib=100)
    assert tree.now() == MACHINE


def test_limit_above_host_memory_is_ignored(tree: Tree) -> None:
    v1(tree.at("4:memory:/a").mount(1) / "a", str(64_000 * MIB), used_mib=100)
    assert tree.now() == MACHINE


def test_hybrid_hierarchy_uses_v1_limits(tree: Tree) -> None:
    tree.at("4:memory:/a", "0::/")
    v1(tree.mount(1, name="memory") / "a", str(1000 * MIB), used_mib=250)
    tree.mount(2, name="unified")
    assert tree.now() == MemoryReading(1000, 750)


@pytest.mark.parametrize(
    ("own", "root"),
    [
        ("/docker/abc", "/docker/abc"),  # the host's path; the group itself is mounted
        (
            "/",
            "/docker/abc",
        ),  # a namespace hides the path, and the mount is older than the namespace
        ("/docker/abc", "/"),  # the host's path; the mount begins at the container
        ("/../other", "/"),  # a namespace that the process was moved out of
    ],
)
def test_container_sees_its_own_group_at_mount(tree: Tree, own: str, root: str) -> None:
    v1(tree.at(f"4:memory:{own}").mount(1, root), str(1000 * MIB), used_mib=400)
    assert tree.now() == MemoryReading(1000, 600)


def test_nested_group_inside_container_is_found(tree: Tree) -> None:
    point = tree.at("0::/docker/abc/build").mount(2, "/docker/abc")
    v2(point / "build", str(500 * MIB), used_mib=100)
    v2(point, str(1000 * MIB), used_mib=400)
    assert tree.now() == MemoryReading(500, 400)


def test_mount_path_with_space_is_parsed(tree: Tree) -> None:
    v1(tree.at("4:memory:/").mount(1, name="control groups"), str(1000 * MIB), used_mib=400)
    assert tree.now() == MemoryReading(1000, 600)


def test_removed_group_imposes_no_limit(tree: Tree) -> None:
    folder = tree.at("4:memory:/a").mount(1) / "a"
    v1(folder, str(1000 * MIB))
    above = capacity.find_control_groups(tree.proc)
    for file in folder.iterdir():
        file.unlink()
    assert capacity.measure_memory(above, tree.proc) == MACHINE


def test_usage_above_limit_leaves_no_memory(tree: Tree) -> None:
    v2(tree.at("0::/a").mount(2) / "a", str(1000 * MIB), used_mib=1200)
    assert tree.now() == MemoryReading(1000, 0)


def test_system_without_proc_uses_psutil(tmp_path: Path) -> None:
    found = capacity.measure_memory((), tmp_path / "none")
    assert found.limit_mib == psutil.virtual_memory().total // MIB
    assert 0 < found.available_mib <= found.limit_mib


def test_memory_of_this_machine_is_measured() -> None:
    assert capacity.measure_memory(capacity.find_control_groups()).available_mib > 0
