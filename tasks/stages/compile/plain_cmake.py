"""The C++ libraries alone: CMake configures, builds and installs, without any Python packaging.
Pure.
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.stages.compile.job import DEST
from tasks.stages.compile.work import Step, Work, cmake_build

_PREFIXES = ("USE_", "BUILD_", "CMAKE_")

# What PyTorch's own scripts hand to CMake besides the prefixes: _ENV_PASSTHROUGH of
# cmake/EnvVarForwarding.cmake (commit 002e962d8b17).
_FORWARDED = (
    "UBSAN_FLAGS", "BLAS", "WITH_BLAS", "CUDA_HOST_COMPILER", "CUDA_NVCC_EXECUTABLE",
    "CUDA_SEPARABLE_COMPILATION", "CUDNN_LIBRARY", "CUDNN_INCLUDE_DIR", "CUDNN_ROOT",
    "EXPERIMENTAL_SINGLE_THREAD_POOL", "FLASH_ATTENTION_MAX_JOBS", "INSTALL_TEST",
    "INTEL_MKL_DIR", "INTEL_OMP_DIR", "MKL_THREADING", "MKLDNN_CPU_RUNTIME",
    "MSVC_Z7_OVERRIDE", "CAFFE2_USE_MSVC_STATIC_RUNTIME", "Numa_INCLUDE_DIR",
    "Numa_LIBRARIES", "ONNX_ML", "ONNX_NAMESPACE", "ATEN_THREADING", "WERROR",
    "OPENSSL_ROOT_DIR", "STATIC_DISPATCH_BACKEND", "SELECTED_OP_LIST", "TORCH_CUDA_ARCH_LIST",
    "TORCH_XPU_ARCH_LIST", "TRACING_BASED",
)  # fmt: skip


def folder(work: Work) -> PurePath:
    """Our own folder."""
    return work.ours / "cmake"


def products(work: Work) -> tuple[PurePath, ...]:
    """The whole CMake folder."""
    return (folder(work),)


def compile_steps(work: Work) -> tuple[Step, ...]:
    """Configure every time, which CMake makes short when nothing changed; then build."""
    argv = (
        *(work.cmake, "-S", str(work.tree), "-B", str(folder(work)), "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={work.ninja}",
        *(f"-DPYTHON_EXECUTABLE={work.python}", f"-DPython_EXECUTABLE={work.python}"),
        *(f"-D{name}={value}" for name, value in sorted(_variables(work).items())),
    )
    return (Step("configure PyTorch", argv, {}), cmake_build(work, folder(work)))


def wheel_command(work: Work) -> Step:
    """An install prefix, which find_package(Torch) accepts."""
    argv = (work.cmake, "--install", str(folder(work)), "--prefix", DEST)
    return Step("install the libraries", argv, {})


def ignores(name: str) -> bool:
    """All but what is given on the command line as -D."""
    return not _is_forwarded(name)


def _variables(work: Work) -> dict[str, str]:
    given = {name: value for name, value in work.variables.items() if _is_forwarded(name)}
    fixed = {"BUILD_PYTHON": "OFF", "CMAKE_BUILD_TYPE": work.type}
    given.pop("CMAKE_GENERATOR", None)  # it is given as -G
    return {"BUILD_SHARED_LIBS": "ON", **given, **fixed}


def _is_forwarded(name: str) -> bool:
    return name.startswith(_PREFIXES) or name in _FORWARDED
