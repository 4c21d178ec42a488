"""A CUDA_HOME assembled from a small copy of NVIDIA's packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tasks.core.errors import MissingToolError
from tasks.system.hardware import toolchain

unix = pytest.mark.skipif(sys.platform == "win32", reason="the packages' own layout is used there")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site-packages folder with a toolkit in the layout of its packages."""
    folder = tmp_path / "site-packages"
    add(
        folder, "nvidia/cu13/bin/nvcc", "nvidia/cu13/bin/crt/link.stub", "nvidia/cu13/nvvm/bin/cicc"
    )
    add(folder, "nvidia/cu13/include/cuda.h", "nvidia/cu13/lib/libcudart.so.13")
    add(folder, "nvidia/cu13/lib/libcudadevrt.a")
    return folder


def add(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")


def tree(home: Path) -> dict[str, str]:
    """Return every entry below home, with the targets of links."""
    return {
        path.relative_to(home).as_posix(): str(path.readlink()) if path.is_symlink() else ""
        for path in home.rglob("*")
    }


@unix
def test_cuda_home_is_assembled_from_packages(site: Path, tmp_path: Path) -> None:
    home = toolchain.assemble_cuda_home(site, tmp_path / "cuda")
    toolkit = site / "nvidia" / "cu13"
    found = tree(home)
    assert found["nvvm"] == str(toolkit / "nvvm")
    assert found["include"] == str(toolkit / "include")
    assert found["lib"] == "lib64"
    assert found["lib64/libcudart.so.13"] == str(toolkit / "lib" / "libcudart.so.13")
    assert found["lib64/libcudart.so"] == "libcudart.so.13"
    assert (home / "lib" / "libcudart.so").read_text(encoding="utf-8").endswith("libcudart.so.13")
    assert (home / "lib64" / "libcudadevrt.a").is_file()


@unix
def test_programs_are_copied_because_nvcc_searches_its_own_folder(
    site: Path, tmp_path: Path
) -> None:
    home = toolchain.assemble_cuda_home(site, tmp_path / "cuda")
    for name in ("bin/nvcc", "bin/crt/link.stub"):
        assert (home / name).is_file()
        assert not (home / name).is_symlink()


@unix
def test_libraries_installed_later_are_linked(site: Path, tmp_path: Path) -> None:
    home = toolchain.assemble_cuda_home(site, tmp_path / "cuda")
    add(site, "nvidia/cu13/lib/libcublas.so.13", "nvidia/cudnn/lib/libcudnn.so.9")
    add(site, "nvidia/cu13/include/cublas.h")
    toolchain.link_new_libraries(site, home)
    found = tree(home)
    assert found["lib64/libcublas.so"] == "libcublas.so.13"
    assert found["lib64/libcudnn.so"] == "libcudnn.so.9"
    assert (home / "include" / "cublas.h").is_file()
    toolchain.link_new_libraries(site, home)
    assert tree(home) == found


@unix
def test_headers_of_all_packages_share_one_folder(site: Path, tmp_path: Path) -> None:
    add(site, "nvidia/cudnn/include/cudnn.h", "nvidia/nccl/include/nccl.h")
    home = toolchain.assemble_cuda_home(site, tmp_path / "cuda")
    names = {path.name for path in (home / "include").iterdir()}
    assert names == {"cuda.h", "cudnn.h", "nccl.h"}


@unix
def test_assembling_again_changes_nothing(site: Path, tmp_path: Path) -> None:
    home = toolchain.assemble_cuda_home(site, tmp_path / "cuda")
    found = tree(home)
    assert tree(toolchain.assemble_cuda_home(site, tmp_path / "cuda")) == found
    assert (site / "nvidia" / "cu13" / "bin" / "nvcc").is_file()


@unix
def test_system_toolkit_is_not_modified(site: Path, tmp_path: Path) -> None:
    (tmp_path / "system" / "lib64").mkdir(parents=True)
    toolchain.link_new_libraries(site, tmp_path / "system")
    assert list((tmp_path / "system" / "lib64").iterdir()) == []


def test_packages_without_nvcc_are_refused(tmp_path: Path) -> None:
    add(tmp_path, "nvidia/cu12/bin/ptxas", "nvidia/cu12/bin/nvcc.profile")
    with pytest.raises(MissingToolError) as error:
        toolchain.find_packages_root(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: the installed CUDA packages contain no nvcc\n"
        "  → choose toolkit.version 13.0 or later: older packages contain no nvcc"
    )
