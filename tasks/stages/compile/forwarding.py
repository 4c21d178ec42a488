"""Which variables of the environment reach CMake, and which a configured folder takes again. Pure.

The rules of PyTorch's cmake/EnvVarForwarding.cmake, pytorch/pytorch at commit
002e962d8b1731799f3f0291d089b373be23b2ee; setup.py handed on the same prefixes and names before.
"""

from __future__ import annotations

PREFIXES = ("BUILD_", "USE_", "CMAKE_")  # given again, they override the cache
SUFFIXES = ("EXITCODE", "EXITCODE__TRYRUN_OUTPUT")

PASSTHROUGH = (  # handed on where the cache does not have them yet
    "UBSAN_FLAGS", "BLAS", "WITH_BLAS", "CUDA_HOST_COMPILER", "CUDA_NVCC_EXECUTABLE",
    "CUDA_SEPARABLE_COMPILATION", "CUDNN_LIBRARY", "CUDNN_INCLUDE_DIR", "CUDNN_ROOT",
    "EXPERIMENTAL_SINGLE_THREAD_POOL", "FLASH_ATTENTION_MAX_JOBS", "INSTALL_TEST",
    "INTEL_MKL_DIR", "INTEL_OMP_DIR", "MKL_THREADING", "MKLDNN_CPU_RUNTIME",
    "MSVC_Z7_OVERRIDE", "CAFFE2_USE_MSVC_STATIC_RUNTIME", "Numa_INCLUDE_DIR",
    "Numa_LIBRARIES", "ONNX_ML", "ONNX_NAMESPACE", "ATEN_THREADING", "WERROR",
    "OPENSSL_ROOT_DIR", "STATIC_DISPATCH_BACKEND", "SELECTED_OP_LIST", "TORCH_CUDA_ARCH_LIST",
    "TORCH_XPU_ARCH_LIST", "TRACING_BASED",
)  # fmt: skip

# Cached under another name where that one is not there yet, so a new value changes nothing.
ALIASES = {
    "CUDNN_LIB_DIR": "CUDNN_LIBRARY",
    "USE_CUDA_STATIC_LINK": "CAFFE2_STATIC_LINK_CUDA",
    "CUDAHOSTCXX": "CUDA_HOST_COMPILER",
    "CMAKE_CUDA_HOST_COMPILER": "CUDA_HOST_COMPILER",
    "CUDACXX": "CUDA_NVCC_EXECUTABLE",
    "CMAKE_CUDA_COMPILER": "CUDA_NVCC_EXECUTABLE",
}

# CMake itself keeps these from the first time on: https://cmake.org/cmake/help/latest/variable/
_KEPT_BY_CMAKE = ("CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", "CMAKE_TOOLCHAIN_FILE")
_GENERATOR = "CMAKE_GENERATOR"


def is_forwarded(name: str) -> bool:
    """Whether a variable reaches CMake under its own name."""
    return _overrides(name) or name in PASSTHROUGH


def is_taken_again(name: str) -> bool:
    """Whether a new value reaches a folder that is configured already."""
    kept = name in ALIASES or name in _KEPT_BY_CMAKE or name.startswith(_GENERATOR)
    return _overrides(name) and not kept


def _overrides(name: str) -> bool:
    return name.startswith(PREFIXES) or name.endswith(SUFFIXES)
