"""NVIDIA's packages by library name, and what a wheel needs to use them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

import pytest
from packaging.requirements import Requirement

from tasks.stages.wheel.cuda_requirements import (
    NO_REQUIREMENTS,
    CudaPackage,
    CudaRequirements,
    add_requirements,
    resolve_cuda_requirements,
)
from tasks.wheels.library_linkage import LibraryNeed, Linkage
from tasks.wheels.nvidia_packages import (
    build_pinned_requirement,
    find_nvidia_package,
    find_package_by_distribution,
    is_in_package_folder,
)
from tests.support.rows import each_row

HOME = "/opt/cuda"
CUDART = CudaPackage("nvidia-cuda-runtime==13.2.75", "nvidia/cu13/lib")
CUDNN = CudaPackage("nvidia-cudnn-cu13==9.26.0.5", "nvidia/cudnn/lib")
NVJITLINK = CudaPackage("nvidia-nvjitlink==13.2.78", "nvidia/other/lib")
BROUGHT = {"libcudart.so.13": CUDART, "libcudnn.so.9": CUDNN, "libnvJitLink.so.13": NVJITLINK}


# The versions are those that torch 2.6.0 of PyPI requires, the files those of CUDA 12.4 in Debian
@each_row(
    ("cuda", "file", "requirement"),
    [
        ("12.4.131", "libcublas.so.12.4.5.8", "nvidia-cublas-cu12==12.4.5.8"),
        ("12.4.131", "libcublasLt.so.12.4.5.8", "nvidia-cublas-cu12==12.4.5.8"),
        ("12.4.131", "libcufft.so.11.2.1.3", "nvidia-cufft-cu12==11.2.1.3"),
        ("12.4.131", "libcudart.so.12.4.127", "nvidia-cuda-runtime-cu12==12.4.127"),
        ("12.4.131", "libcupti.so.2024.1.1", "nvidia-cuda-cupti-cu12==12.4.*"),
        ("12.4.131", "libnvToolsExt.so.1.0.0", "nvidia-nvtx-cu12==12.4.*"),
        ("12.4.131", "libcudnn_ops.so.9.1.0", "nvidia-cudnn-cu12==9.1.0.*"),
        ("12.4.131", "libcusparseLt.so.0.6.2.3", "nvidia-cusparselt-cu12==0.6.2.*"),
        ("12.4.131", "libcublas.so.12", "nvidia-cublas-cu12==12.*"),
        ("12.4.131", "libcudnn.so", "nvidia-cudnn-cu12"),
        ("13.2.86", "libcublas.so.13.4.0.1", "nvidia-cublas==13.4.0.1"),
        ("13.2.86", "libnccl.so.2.30.4", "nvidia-nccl-cu13==2.30.4.*"),
        ("13.2", "libcufile.so.1.17.1", "nvidia-cufile==1.17.1.*"),
    ],
)
def test_toolkit_library_belongs_to_one_package_of_its_version(
    cuda: str, file: str, requirement: str
) -> None:
    found = find_nvidia_package(file)
    assert found
    assert build_pinned_requirement(found, cuda, file) == requirement
    assert find_package_by_distribution(Requirement(requirement).name) == found


@pytest.mark.parametrize("name", ["libcuda.so.1", "libc.so.6", "libcublasfoo.so", "libnpp.so.13"])
def test_library_in_no_package_has_no_owner(name: str) -> None:
    assert find_nvidia_package(name) is None


@pytest.mark.parametrize("library", ["libcublas.so.12", "libcudnn_ops.so.9", "libcudart.so.13"])
@pytest.mark.parametrize("major", [12, 13])
def test_package_libraries_are_in_the_recorded_directory(library: str, major: int) -> None:
    found = find_nvidia_package(library)
    assert found
    assert is_in_package_folder(PurePosixPath(found.format_folder(major)) / library)
    assert not is_in_package_folder(PurePosixPath("nvidia/curand/lib") / library)


def library(*needed: str, rpath: tuple[str, ...] = (), runpath: tuple[str, ...] = ()) -> Linkage:
    return Linkage("EM_X86_64", needed=needed, rpath=rpath, runpath=runpath)


def compute_requirements(held: Mapping[str, Linkage], *beyond: LibraryNeed) -> CudaRequirements:
    own = [
        LibraryNeed(name, one, f"{HOME}/lib64/{one}") for name in held for one in held[name].needed
    ]
    return resolve_cuda_requirements(
        held,
        [*own, *beyond],
        lambda need: BROUGHT.get(need.name),
        lambda folder: folder.startswith(HOME),
    )


def test_rpath_reaches_the_directories_each_library_needs() -> None:
    held = {
        "torch/lib/libtorch_cuda.so": library(
            "libcudnn.so.9", "libcudart.so.13", runpath=("$ORIGIN", f"{HOME}/lib64")
        ),
        "torch/_C.so": library("libcudart.so.13"),
    }
    found = compute_requirements(held)
    assert found.paths == {
        "torch/lib/libtorch_cuda.so": (
            "$ORIGIN/../../nvidia/cu13/lib", "$ORIGIN/../../nvidia/cudnn/lib", "$ORIGIN",
        ),
        "torch/_C.so": ("$ORIGIN/../nvidia/cu13/lib",),
    }  # fmt: skip
    assert found.requires == (CUDART.requirement, CUDNN.requirement)
    assert "nvidia/cudnn/lib/libcudnn.so.9" in found.promised
    assert found.unpackaged == ()


def test_transitive_nvidia_dependencies_are_declared_and_reachable() -> None:
    held = {"torch/lib/libtorch_cuda.so": library("libcudart.so.13")}
    found = compute_requirements(
        held, LibraryNeed("/opt/cuda/lib64/libcudart.so.13", "libnvJitLink.so.13", "/x")
    )
    assert found.requires == (CUDART.requirement, NVJITLINK.requirement)
    assert found.paths["torch/lib/libtorch_cuda.so"][-1] == "$ORIGIN/../../nvidia/other/lib"


def test_library_without_cuda_loses_only_its_toolkit_rpath() -> None:
    held = {
        "torch/lib/libc10.so": library("libc.so.6", runpath=("$ORIGIN",)),
        "torch/lib/libtorch_cpu.so": library(
            "libblas.so.3", runpath=("$ORIGIN", f"{HOME}/lib64", "/opt/blas/lib")
        ),
    }
    needs = [LibraryNeed("torch/lib/libtorch_cpu.so", "libblas.so.3", "/opt/blas/lib/libblas.so.3")]
    found = resolve_cuda_requirements(
        held, needs, lambda _: None, lambda folder: folder.startswith(HOME)
    )
    assert found.paths == {"torch/lib/libtorch_cpu.so": ("$ORIGIN", "/opt/blas/lib")}
    assert found.requires == ()


def test_library_in_no_package_keeps_its_toolkit_rpath() -> None:
    held = {"torch/lib/libx.so": library("libcudart.so.13", "libnpp.so", rpath=(f"{HOME}/lib64",))}
    found = compute_requirements(held)
    assert found.unpackaged == ("libnpp.so",)
    assert found.paths["torch/lib/libx.so"][-1] == f"{HOME}/lib64"


def test_driver_adds_no_requirement_and_correct_rpath_is_kept() -> None:
    path = ("$ORIGIN/../../nvidia/cu13/lib", "$ORIGIN")
    held = {"torch/lib/libx.so": library("libcudart.so.13", "libcuda.so.1", rpath=path)}
    found = compute_requirements(held)
    assert found.paths == {}
    assert found.unpackaged == ()
    assert found.requires == (CUDART.requirement,)
    assert compute_requirements({"torch/_C.so": library("libcuda.so.1")}) == NO_REQUIREMENTS


METADATA = """Metadata-Version: 2.1
Name: torch
Version: 2.6.0
Requires-Dist: filelock
Requires-Dist: cuda-toolkit[cublas]==13.2.1; platform_system == "Linux"
Provides-Extra: optree

# Requires-Dist: in a description is none
"""


def test_requirements_are_appended_and_existing_ones_kept() -> None:
    result = add_requirements(METADATA, ["nvidia-cublas==13.4.0.1", "nvidia-cuda-runtime==13.2.75"])
    line = 'Requires-Dist: nvidia-cuda-runtime==13.2.75; platform_system == "Linux"\n'
    assert result == METADATA.replace("Provides-Extra", f"{line}Provides-Extra")
    assert add_requirements(result, ["nvidia-cuda-runtime==13.2.75"]) == result


def test_metadata_without_requirements_and_description_gets_requirements() -> None:
    result = add_requirements("Name: torch\nVersion: 1\n", ["nvidia-nccl-cu13==2"])
    line = 'Requires-Dist: nvidia-nccl-cu13==2; platform_system == "Linux"\n'
    assert result == f"Name: torch\nVersion: 1\n{line}"


@pytest.mark.parametrize(
    "own",
    [
        "nvidia-cublas-cu11",
        "nvidia-cublas",
        'nvidia-cublas-cu12; platform_system == "Windows"',
        'nvidia-cublas-cu12; extra == "cuda"',
        "cuda-toolkit[all]==13.2.1",
    ],
)
def test_requirement_for_other_cuda_or_platform_does_not_count(own: str) -> None:
    metadata = f"Metadata-Version: 2.1\nName: torch\nRequires-Dist: {own}\n"
    result = add_requirements(metadata, ["nvidia-cublas-cu12==12.4.5.8"])
    assert result.count("Requires-Dist: nvidia-cublas-cu12==12.4.5.8; ") == 1


@pytest.mark.parametrize("own", ["nvidia-cublas-cu12>=12.4", "cuda-toolkit[all]==12.4.1"])
def test_requirement_that_brings_the_same_cuda_counts(own: str) -> None:
    metadata = f"Metadata-Version: 2.1\nName: torch\nRequires-Dist: {own}\n"
    assert add_requirements(metadata, ["nvidia-cublas-cu12==12.4.5.8"]) == metadata
