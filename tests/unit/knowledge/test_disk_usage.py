"""Disk usage of a build: init, explain, doctor and install use the same estimate."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.core.errors import NoSpaceError
from tasks.core.project import Project
from tasks.core.text_formatting import format_size_range
from tasks.doctor import folder_facts_io
from tasks.doctor.examine_host import check_host
from tasks.doctor.folder_checks import format_disk_usage
from tasks.doctor.host_facts import Disk, ProbeRequest
from tasks.knowledge.costs import estimate_cost
from tasks.knowledge.resource_estimates import (
    ALL_PLACES,
    STARTED_BUILD_MIB,
    DiskUsage,
    estimate_unpacked_size,
)
from tasks.stages.install import run
from tasks.system import files, manifests
from tests.support.surroundings import LINUX, LINUX_HOST, profile_on
from tests.support.systems import needs_links
from tests.unit.planning.test_decide import KNOWLEDGE

ROOM = DiskUsage(build=(10, 20), installed=(100, 200), wheels=(1, 2), cache=(0, 5))
NEEDED_BY_TORCH = (
    *("torch", "triton", "cuda-bindings", "sympy", "nvidia-cublas", "nvidia-cuda-cccl"),
    *("nvidia-cuda-cupti", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cudnn-cu13"),
    *("nvidia-cufft", "nvidia-cufile", "nvidia-cusolver", "nvidia-cusparse"),
    *("nvidia-cusparselt-cu13", "nvidia-nccl-cu13", "nvidia-nvjitlink", "nvidia-nvshmem-cu13"),
)


def test_installed_size_is_counted_once_per_disk() -> None:
    assert (
        ROOM.sum_places(ALL_PLACES) == ROOM.sum_places((*ALL_PLACES, "install.into")) == (111, 227)
    )
    assert ROOM.sum_places(("install.into",)) == (100, 200)
    assert ROOM.sum_places(("caches",)) == (100, 205)
    assert ROOM.sum_places(("wheels",)) == (1, 2)
    assert ROOM.sum_places(("temporary files",)) == (0, 0)


def test_source_tree_on_other_disk_counts_only_build_files() -> None:
    assert ROOM.sum_places(("build",)) == (10, 20)
    assert ROOM.sum_places(("environment", "wheels")) == (101, 202)


def test_each_disk_is_reported_with_its_contents() -> None:
    one, other = Disk(ALL_PLACES, "/a", 1), Disk(("install.into",), "/b", 1)
    assert format_disk_usage([one], ROOM) == "111 MiB to 227 MiB of disk"
    assert format_disk_usage([one, other], ROOM) == (
        "111 MiB to 227 MiB of disk for the build, 100 MiB to 200 MiB for install.into"
    )
    assert format_disk_usage([one, Disk(("temporary files",), "/tmp", 1)], ROOM).endswith("of disk")
    assert format_disk_usage([one], None) == ""


def test_doctor_uses_the_same_estimates_as_explain_and_init() -> None:
    settings = {"install": {"into": "/home/me/env/bin/python"}}
    profile = profile_on(LINUX, **settings)
    room = profile.cost.disk_usage
    assert room
    apart = (Disk(ALL_PLACES, "/a", 10**6), Disk(("install.into",), "/b", 100))
    result = {
        one.subject: one.seen
        for one in check_host(replace(LINUX, disks=apart), profile, KNOWLEDGE)
        if one.id == "disk"
    }
    least, most = room.sum_places(ALL_PLACES)
    assert format_size_range(least, most) in result["build"]
    assert (
        f"up to about {format_size_range(*room.sum_places(('install.into',)))}"
        in result["install.into"]
    )
    assert format_size_range(least, most) in format_disk_usage(apart, room)


@pytest.mark.parametrize(("free", "level"), [(100, "problem"), (600, "warning"), (10**6, "ok")])
@pytest.mark.parametrize("begun", [False, True])
def test_full_temporary_disk_stops_a_build_on_another_disk(
    free: int, level: str, begun: bool
) -> None:
    """Caches may exist already; the compilers' files in TMPDIR do not."""
    apart = (
        Disk(ALL_PLACES[:-1], "/a", 10**6),
        Disk(("caches", "temporary files"), "/home/me/.cache", free),
    )
    there = replace(LINUX, disks=apart, begun=begun)
    result = {one.subject: one for one in check_host(there, profile_on(LINUX), KNOWLEDGE)}
    assert result["caches"].level == level
    assert ("set TMPDIR" in result["caches"].todo) == (level == "problem")


def test_known_package_sizes_add_up_to_size_of_cuda_torch() -> None:
    room = estimate_cost(KNOWLEDGE, "prebuilt", 1, 0).disk_usage
    assert room
    found = sum(estimate_unpacked_size(name, KNOWLEDGE.package_sizes) for name in NEEDED_BY_TORCH)
    assert found == pytest.approx(room.installed[0], rel=0.01)


def test_package_size_is_that_of_longest_matching_prefix() -> None:
    sizes = {"": 1, "nvidia-": 20, "nvidia-cusparse": 160, "nvidia-cusparselt": 223}
    assert estimate_unpacked_size("nvidia-cusparse-cu12", sizes) == 160
    assert estimate_unpacked_size("nvidia-cusparselt-cu13", sizes) == 223
    assert estimate_unpacked_size("nvidia-new", sizes) == 20
    assert estimate_unpacked_size("anything", sizes) == 1
    assert estimate_unpacked_size("anything", {}) == 0


def test_complete_environment_needs_no_more_disk_space(tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    done = tmp_path / "install.json"
    requested = ProbeRequest(
        Project.of_checkout(tmp_path), LINUX_HOST, (), into=str(python), installed=done
    )
    assert "install.into" in {
        place for disk in folder_facts_io.list_disks(requested) for place in disk.holds
    }
    done.touch()
    assert "install.into" not in {
        place for disk in folder_facts_io.list_disks(requested) for place in disk.holds
    }
    gone = replace(requested, into=str(tmp_path / "gone"), installed=None)
    assert "install.into" not in {
        place for disk in folder_facts_io.list_disks(gone) for place in disk.holds
    }


def order(tmp_path: Path, uv: str | None = "uv") -> Any:
    """Return an install order for a torch of 300 MiB and cuDNN into tmp_path/env."""
    build = tmp_path / "build" / "mine"
    site = build / "venv" / "site-packages"
    site.mkdir(parents=True)
    wheel = SimpleNamespace(folder=str(site / "torch"))
    sizes = {"": 1, "nvidia-cudnn": 848}
    job = SimpleNamespace(
        replaced=build / "replaced", sizes=sizes, wheel=wheel, into="~/env/python"
    )
    return SimpleNamespace(
        installer=SimpleNamespace(uv=uv, job=job, target=SimpleNamespace(prefix=tmp_path / "env")),
        chosen=[SimpleNamespace(name="torch", size=300 * 2**20, path=Path("torch.whl"))],
        versions={"torch": "2.15.0", "nvidia-cudnn-cu13": "9.26"},
        stamp=build / "replaced" / "20261122-1",
    )


@pytest.fixture(autouse=True)
def _manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "read_manifest", lambda manifest, _: manifest)


@needs_links
def test_files_shared_with_uv_cache_are_not_counted_twice(tmp_path: Path) -> None:
    one = order(tmp_path)
    assert run.estimate_unpacked_mib(one) == 300 + 848
    info = Path(one.installer.job.wheel.folder).parent / "nvidia_cudnn_cu13-9.26.dist-info"
    info.mkdir()
    (info / "METADATA").touch()
    assert run.estimate_unpacked_mib(one) == 300 + 848  # a copy: the cache may lack it
    (tmp_path / "cached").hardlink_to(info / "METADATA")
    assert run.estimate_unpacked_mib(one) == 300
    one.installer.uv = None
    assert run.estimate_unpacked_mib(one) == 300 + 848  # pip copies


def test_install_disk_space_error_names_the_environment_as_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = order(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**20))
    with pytest.raises(NoSpaceError) as error:
        run._unpack_packages(one)
    assert str(error.value).startswith("install.into: ~/env/python: unpacking the packages ")
    assert f"for {tmp_path / 'env'} needs 1.1 GiB, but only 1 MiB of disk space are left" in str(
        error.value
    )
    assert "replaced" not in str(error.value)
    monkeypatch.setattr(run, "is_same_disk", lambda *_: False)
    with pytest.raises(NoSpaceError) as error:
        run._unpack_packages(one)
    assert str(error.value).startswith(f"{tmp_path / 'build' / 'mine'}, for install.into: ~/env")


def test_disk_space_error_shows_required_and_available_space(tmp_path: Path) -> None:
    files.require_disk_space(tmp_path / "not" / "yet", 1, "torch")
    with pytest.raises(NoSpaceError) as error:
        files.require_disk_space(tmp_path / "not" / "yet", 10**12, "torch")
    message = str(error.value)
    assert "torch needs 976,562,500 GiB, but only " in message
    assert message.endswith("→ free some disk space, or put the project on a larger disk")


def test_every_stage_requires_the_same_minimum_disk_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mib = STARTED_BUILD_MIB[0]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=mib * 2**20))
    files.require_minimum_space(tmp_path, "compiling PyTorch")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=mib * 2**20 - 1))
    with pytest.raises(NoSpaceError, match=r"compiling PyTorch, at the very least, needs 1"):
        files.require_minimum_space(tmp_path, "compiling PyTorch")
