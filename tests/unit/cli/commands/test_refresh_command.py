"""`doit refresh` reads wheels, writes the files, and fails if they contradict the curated ones."""

from __future__ import annotations

import gzip
import lzma
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from tasks.cli.commands import refresh
from tasks.core.errors import TorchyardError
from tasks.core.project import Project
from tasks.knowledge.knowledge_files_io import KNOWLEDGE_FOLDER, parse_knowledge_file
from tasks.lock.opened_profile_io import SelectedProfile
from tests.support.checkout import Heard
from tests.support.fatbins import elf, fatbin
from tests.support.newest import NEXT_CUDA, NEXT_MINOR, NEXT_TORCH

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs the programs of packages")
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
NVCC = "#!/bin/sh\n[ $1 = --list-gpu-code ] && echo sm_90 && echo sm_120\n"


@pytest.fixture
def index(tmp_path: Path) -> str:
    """Return a folder with a wheel of torch, and the packages of a toolkit for any platform."""
    kit, folder = f"{NEXT_CUDA}.1", tmp_path / "index"
    folder.mkdir()
    wheels: dict[str, dict[str, str | bytes]] = {
        f"torch-{NEXT_TORCH}-cp311-cp311-manylinux_2_28_x86_64.whl": {
            "torch/version.py": f"__version__ = '{NEXT_TORCH}'\ncuda = '{NEXT_CUDA}'\n",
            "torch/lib/libtorch_cuda.so": elf({".nv_fatbin": fatbin("9.0", "12.0")}),
            f"torch-{NEXT_TORCH}.dist-info/METADATA": METADATA.format("torch", NEXT_TORCH),
        },
        f"cuda_toolkit-{kit}-py3-none-any.whl": {
            f"cuda_toolkit-{kit}.dist-info/METADATA": METADATA.format("cuda-toolkit", kit)
        },
        f"nvidia_cuda_nvcc-{kit}-py3-none-any.whl": {"nvidia/cu13/bin/nvcc": NVCC},
        f"nvidia_cuda_crt-{kit}-py3-none-any.whl": {
            "nvidia/cu13/include/crt/host_config.h": "#if __GNUC__ > 17\n#error\n"
        },
    }
    for name, members in wheels.items():
        with zipfile.ZipFile(folder / name, "w") as wheel:
            for path, content in members.items():
                wheel.writestr(path, content)
    return str(folder)


@pytest.fixture
def folder(tmp_path: Path, mocker: MockerFixture) -> Path:
    """Return a copy of the knowledge, which the command uses."""
    copy = tmp_path / "config/knowledge"
    shutil.copytree(KNOWLEDGE_FOLDER, copy)
    mocker.patch.object(refresh, "KNOWLEDGE_FOLDER", copy)
    mocker.patch.object(refresh, "_READ_FOLDER", copy / "read")
    mocker.patch.object(refresh, "render_generated_files", return_value={"docs/page.md": "text"})
    return copy


@pytest.mark.parametrize("check", [False, True])
def test_releases_are_read_and_written(index: str, folder: Path, heard: Heard, check: bool) -> None:
    root = folder.parents[1]
    refresh.run(SelectedProfile(Project.of_checkout(root), "mine", None), index=index, check=check)
    row = {"nvcc": f"{NEXT_CUDA}.1", "sm": ["9.0", "12.0"], "gcc_max": 17}
    assert f'  + {NEXT_MINOR}.wheels.{NEXT_CUDA} linux x86_64.archs: ["9.0", "12.0"]' in heard
    assert "torch 2.0 was not read: it keeps its values" in heard
    toolkits = parse_knowledge_file(folder / "read/toolkits.yaml")["releases"]
    assert check is (NEXT_CUDA not in toolkits)
    assert check is not (root / "docs/page.md").is_file()
    if not check:
        assert row.items() <= toolkits[NEXT_CUDA].items()


def test_contradiction_fails_and_is_written(index: str, folder: Path, heard: Heard) -> None:
    path = folder / "toolkits.yaml"
    text = path.read_text("utf-8").replace("    dropped: []\n", "    gcc_max: 99\n", 1)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TorchyardError) as caught:
        refresh.run(
            SelectedProfile(Project.of_checkout(folder.parents[1]), "mine", None), index=index
        )
    assert "toolkits.yaml: releases.11.8.gcc_max is 99, but nvidia_cuda_nvcc" in str(caught.value)
    assert NEXT_CUDA in parse_knowledge_file(folder / "read/toolkits.yaml")["releases"]


def test_packages_of_a_mirror_are_read(folder: Path, heard: Heard, tmp_path: Path) -> None:
    suite = tmp_path / "mirror/dists/oldstable/main"
    (suite / "source").mkdir(parents=True)
    contents = "usr/include/toy.h  libdevel/libtoy-dev\n"
    (suite / "Contents-amd64.gz").write_bytes(gzip.compress(contents.encode()))
    (suite / "Contents-all.gz").write_bytes(gzip.compress(b""))
    sources = "".join(f"Package: {name}\nBuild-Depends: libtoy-dev\n\n" for name in "ab")
    (suite / "source/Sources.xz").write_bytes(lzma.compress(sources.encode()))
    project = Project.of_checkout(folder.parents[1])
    refresh.run(SelectedProfile(project, "mine", None), debian=str(tmp_path / "mirror"))
    packages = parse_knowledge_file(folder / "read/system_packages.yaml")
    assert any(line.startswith("system_packages.yaml: ") for line in heard)
    assert packages["headers"] == {"libtoy-dev": "toy.h"}
    assert f"reading {tmp_path}/mirror/dists/oldstable/main/source/Sources.xz" in heard
