"""PyTorch's own tree with Debian's CUDA 12.4 for compute capability 9.0: as far as one kernel file.

One tree serves all tests of this file, in the order they stand in.
"""

from __future__ import annotations

import pytest

from tests.real.debian import Debian, InsideYard, profile
from tests.support.ninjalog import made

pytestmark = pytest.mark.real

KERNELS = "BinaryLogicalOpsKernels.cu"
OBJECT = f"caffe2/CMakeFiles/torch_cuda.dir/__/aten/src/ATen/native/cuda/{KERNELS}.o"


@pytest.fixture(scope="module")
def yard(debian_cuda: Debian) -> InsideYard:
    return InsideYard(debian_cuda, "cuda")


def choose(yard: InsideYard, compiled: str, **sections: object) -> None:
    """Write the profile with that target of CMake's."""
    yard.profile(**profile("debian-trixie-cuda", build={"target": compiled}, **sections))


def test_an_arch_that_the_toolkit_does_not_know_is_refused_before_cmake_starts(
    yard: InsideYard,
) -> None:
    choose(yard, "c10_cuda", target={"gpus": ["12.0"]})
    code, out = yard.doit("build")
    assert code == 3
    assert "12.0" in out
    assert "12.8 is the first that can" in out
    assert "Traceback" not in out
    assert not (yard.build / "src").exists()


def test_c10_cuda_is_compiled_with_a_compiler_that_the_toolkit_takes(yard: InsideYard) -> None:
    choose(yard, "c10_cuda")
    yard.must("build")
    deps = yard.manifest("deps")
    assert deps["toolkit"]["version"].startswith("12.4.")
    assert deps["cxx"]["version"].startswith("13.")
    assert yard.manifest("env")["set"]["TORCH_CUDA_ARCH_LIST"] == "9.0"
    assert "lib/libc10_cuda.so" in made(yard.build / "src" / "pytorch" / "build")
    assert "Up to date" in yard.must("build")


def test_a_kernel_file_of_aten_holds_machine_code_for_9_0(yard: InsideYard) -> None:
    choose(yard, OBJECT)
    yard.must("build")
    build = yard.inside / "build" / "trial" / "src" / "pytorch" / "build"
    listed = yard.debian.must("cuobjdump", "--list-elf", str(build / OBJECT))
    assert listed.count("sm_90.cubin") == len(listed.splitlines()) > 0
