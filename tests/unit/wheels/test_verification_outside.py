"""External dependencies of a wheel compared with its declared ones, by the loader's rules and
independent of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from packaging.requirements import Requirement

from tasks.wheels import dynamic_linkage_io
from tasks.wheels.external_libraries import (
    ExternalLibrary,
    TargetEnvironment,
    find_external_libraries,
)
from tasks.wheels.library_linkage import Linkage
from tests.support.rows import each_row
from tests.support.systems import linux_only

SYSTEM = frozenset({"libc.so.6", "libstdc++.so.6"})
CU13 = "$ORIGIN/../../nvidia/cu13/lib"
CUDNN = "$ORIGIN/../../nvidia/cudnn/lib"


def library(*needed: str, rpath: str = "$ORIGIN") -> Linkage:
    return Linkage("EM_X86_64", needed=needed, rpath=(rpath,) if rpath else ())


def judged(
    held: Mapping[str, Linkage],
    *requires: str,
    system: frozenset[str] | None = SYSTEM,
    against: str = "",
) -> dict[str, ExternalLibrary]:
    beside = TargetEnvironment([Requirement(one) for one in requires], system, against)
    return {one.name: one for one in find_external_libraries(held, beside)}


def check_library(
    needed: str, *requires: str, rpath: str = "$ORIGIN", against: str = ""
) -> ExternalLibrary:
    held = {"torch/lib/libtorch_cuda.so": library(needed, rpath=rpath)}
    return judged(held, *requires, against=against)[needed]


def test_library_in_wheel_reached_by_rpath_is_no_external_dependency() -> None:
    held = {"torch/lib/libc10.so": library(), "torch/_C.so": library("libc10.so", rpath="")}
    assert judged(held)["libc10.so"].status == "failed"
    held["torch/_C.so"] = library("libc10.so", rpath="$ORIGIN/lib")
    assert judged(held) == {}


def test_declared_cuda_package_reached_by_rpath_passes() -> None:
    for needed, required, rpath in (
        ("libcudart.so.12", "nvidia-cuda-runtime-cu12==12.4.127", "cuda_runtime"),
        ("libcudart.so.13", "nvidia-cuda-runtime", "cu13"),
        ("libcublasLt.so.13", "cuda-toolkit[cublas,cudart]==13.2.2", "cu13"),
        ("libcudnn_ops.so.9", "nvidia-cudnn-cu13==9.26", "cudnn"),
        ("libnvshmem_host.so.3", "nvidia-nvshmem-cu13", "nvshmem"),
    ):
        found = check_library(needed, required, rpath=f"$ORIGIN/../../nvidia/{rpath}/lib")
        assert found.status == "passed", found
        assert found.by.startswith(required.partition("[")[0].partition("=")[0])


def test_undeclared_package_is_reported_with_its_users() -> None:
    found = check_library("libcudart.so.13", "cuda-toolkit[cublas]==13.2.2", rpath=CU13)
    assert found.status == "failed"
    assert "nvidia-cuda-runtime has it, but is not in Requires-Dist" in found.by
    assert found.users == ("libtorch_cuda.so",)


@each_row(
    ("needed", "required", "brought"),
    [
        ("libcublas.so.12", "nvidia-cublas-cu12", True),
        ("libcublas.so.12", "nvidia-cublas-cu11", False),
        ("libcublas.so.12", "nvidia-cublas", False),  # which belongs to CUDA 13
        ("libcublas.so.13", "nvidia-cublas-cu12", False),
        ("libcublas.so.13", "nvidia-cublas==13.4.0.1", True),
        ("libcublas.so.12", 'nvidia-cublas-cu12; platform_system == "Windows"', False),
        ("libcublas.so.12", 'nvidia-cublas-cu12; extra == "cuda"', False),
        ("libcublas.so.12", 'nvidia-cublas-cu12; platform_machine == "x86_64"', True),
        ("libcublas.so.12", 'nvidia-cublas-cu12; platform_machine == "aarch64"', False),
        ("libcublas.so.12", 'nvidia-cublas-cu12; sys_platform == "linux"', True),
        ("libcublas.so.13", "cuda-toolkit[all]==13.2.2", True),
        ("libcublas.so.13", "cuda-toolkit[all]>=13,<14", True),
        ("libcublas.so.13", "cuda-toolkit[all]", True),
        ("libcublas.so.12", "cuda-toolkit[all]==13.*", False),
        ("libcublas.so.12", "cuda-toolkit[cublas]>=13.0.1", False),
        ("libcudnn.so.9", "cuda-toolkit[all]", False),  # not part of the toolkit
    ],
)
def test_package_counts_only_for_its_cuda_and_marker(
    needed: str, required: str, brought: bool
) -> None:
    folders = ("cublas", "cu13", "cudnn")
    rpath = [f"$ORIGIN/../../nvidia/{one}/lib" for one in folders]
    held = {"torch/lib/libtorch_cuda.so": Linkage("EM_X86_64", needed=(needed,), rpath=(*rpath,))}
    found = judged(held, required)[needed]
    assert found.status == ("passed" if brought else "failed"), found


def test_library_with_own_version_belongs_to_cuda_of_the_others() -> None:
    held = {"torch/lib/libtorch_cuda.so": library("libcudart.so.12", "libcudnn.so.9", rpath=CUDNN)}
    found = judged(held, "nvidia-cudnn-cu11")["libcudnn.so.9"]
    assert found.status == "failed"
    assert found.by.startswith("nvidia-cudnn-cu12 has it, but is not in Requires-Dist")
    assert judged(held, "nvidia-cudnn-cu12")["libcudnn.so.9"].status == "passed"


def test_torch_required_only_by_an_extra_does_not_count() -> None:
    assert check_library("libcudart.so.13", 'torch; extra == "test"').status == "failed"


@pytest.mark.parametrize("rpath", ["$ORIGIN", "$ORIGIN/../nvidia/cu13/lib", "/opt/cuda/lib", CUDNN])
def test_declared_package_not_reached_by_rpath_fails(rpath: str) -> None:
    found = check_library("libcudart.so.13", "nvidia-cuda-runtime", rpath=rpath)
    assert found.status == "failed"
    assert "no RPATH leads to" in found.by


def test_library_outside_the_toolkit_needs_its_own_rpath() -> None:
    assert check_library("libcudnn.so.9", "nvidia-cudnn-cu13", rpath=CU13).status == "failed"


def test_driver_and_manylinux_libraries_require_no_package() -> None:
    for needed in ("libcuda.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"):
        assert check_library(needed).status == "passed"
    found = check_library("libopenblas.so.0")
    assert (found.status, found.by) == (
        "failed",
        "neither a requirement nor every Linux system provides it",
    )


def test_manylinux_libraries_are_unknown_without_auditwheel() -> None:
    held = {"toy/_C.so": library("libz.so.1", "libcudart.so.13", "libcuda.so.1")}
    found = judged(held, system=None)
    states = {name: one.status for name, one in found.items()}
    assert states == {
        "libz.so.1": "not run",
        "libcudart.so.13": "failed",
        "libcuda.so.1": "passed",
    }


def test_extension_finds_libraries_already_loaded_by_torch() -> None:
    for needed in ("libc10_cuda.so", "libtorch.so", "libcudart.so.13"):
        assert check_library(needed).status == "failed"
        assert check_library(needed, "torch").status == "passed"
        assert "not in Requires-Dist" in check_library(needed, against="2.15.0").by


@linux_only
def test_installed_auditwheel_policy_is_read() -> None:
    names = dynamic_linkage_io.read_manylinux_libraries()
    assert names
    assert {"libc.so.6", "libstdc++.so.6", "libz.so.1"} <= names
    assert not {"libgomp.so.1", "libopenblas.so.0", "libcuda.so.1"} & names
