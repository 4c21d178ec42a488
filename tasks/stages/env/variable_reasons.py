"""The reasons why an environment sets or unsets each variable.

Variables of the user's shell that would change a build are unset by the scripts. Child processes of
torchyard never inherit these variables (`shell.PASSED` is an allow-list).
"""

from collections.abc import Mapping
from dataclasses import replace

from tasks.core.deps_model import DepsManifest
from tasks.stages.env.model import Environment, EnvJob

_COMPILER_VARIABLES = """
CC CXX CPP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDSHARED CUDAFLAGS ASMFLAGS AR CL _CL_ LINK _LINK_
DISTUTILS_USE_SDK CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH GCC_EXEC_PREFIX
SOURCE_DATE_EPOCH
"""
_CUDA_VARIABLES = """
CUDA_HOME CUDA_PATH CUDA_ROOT CUDA_BIN_PATH CUDA_TOOLKIT_ROOT_DIR CUDACXX CUDAHOSTCXX CUDAARCHS
CUDA_NVCC_EXECUTABLE CUDA_NVCC_FLAGS NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS NVCC_CCBIN CUDNN_HOME
CUDNN_ROOT CUDNN_LIB_DIR CUDNN_INCLUDE_DIR CUDNN_LIBRARY NCCL_ROOT NCCL_ROOT_DIR NCCL_LIB_DIR
NCCL_INCLUDE_DIR CUSPARSELT_ROOT MAGMA_HOME
"""
_CMAKE_VARIABLES = """
CMAKE_ARGS CMAKE_PREFIX_PATH CMAKE_GENERATOR CMAKE_GENERATOR_PLATFORM CMAKE_GENERATOR_TOOLSET
CMAKE_GENERATOR_INSTANCE CMAKE_BUILD_TYPE CMAKE_CONFIG_TYPE CMAKE_TOOLCHAIN_FILE
CMAKE_INSTALL_PREFIX CMAKE_BUILD_PARALLEL_LEVEL CMAKE_CUDA_ARCHITECTURES CMAKE_CUDA_COMPILER
CMAKE_CUDA_HOST_COMPILER CMAKE_CUDA_FLAGS CMAKE_C_COMPILER CMAKE_CXX_COMPILER CMAKE_C_FLAGS
CMAKE_CXX_FLAGS CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_CUDA_COMPILER_LAUNCHER
CMAKE_INCLUDE_PATH CMAKE_LIBRARY_PATH CMAKE_PROGRAM_PATH CMAKE_FRESH CMAKE_ONLY SKBUILD_CMAKE_ARGS
SKBUILD_CMAKE_DEFINE SKBUILD_CMAKE_BUILD_TYPE SKBUILD_BUILD_DIR SKBUILD_EDITABLE_MODE MAKEFLAGS
"""
_PYTHON_VARIABLES = """
PYTHONPATH PYTHONHOME PYTHONPLATLIBDIR PYTHONOPTIMIZE VIRTUAL_ENV CONDA_PREFIX CONDA_BUILD_SYSROOT
SETUPTOOLS_USE_DISTUTILS SETUPTOOLS_SCM_PRETEND_VERSION
"""
_TORCH_VARIABLES = """
MAX_JOBS DEBUG REL_WITH_DEB_INFO BLAS MKLROOT INTEL_MKL_DIR OpenBLAS_HOME PYTORCH_BUILD_VERSION
PYTORCH_BUILD_NUMBER PYTORCH_EXTRA_INSTALL_REQUIREMENTS PYTORCH_NVCC TORCH_CUDA_ARCH_LIST
TORCH_NVCC_FLAGS TORCH_BUILD_VERSION TORCH_DONT_CHECK_COMPILER_ABI TORCH_NO_COMPILER_WRAPPER
TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES TORCH_NATIVE_AOT TH_BINARY_BUILD ATEN_STATIC_CUDA
FLASH_ATTENTION_MAX_JOBS INSTALL_TEST NO_CUDA FORCE_CUDA USE_CUDA USE_ROCM USE_XPU USE_MPS USE_CUDNN
USE_STATIC_CUDNN USE_CUSPARSELT USE_CUDSS USE_CUFILE USE_CUPTI_SO USE_CUDA_STATIC_LINK USE_NCCL
USE_SYSTEM_NCCL USE_STATIC_NCCL USE_DISTRIBUTED USE_MPI USE_GLOO USE_TENSORPIPE USE_UCC USE_NVSHMEM
USE_FLASH_ATTENTION USE_MEM_EFF_ATTENTION USE_FBGEMM USE_FBGEMM_GENAI USE_KINETO USE_MAGMA
USE_MKLDNN USE_ONEDNN USE_OPENMP USE_NUMA USE_NUMPY USE_XNNPACK USE_NNPACK USE_QNNPACK
USE_PYTORCH_QNNPACK USE_VULKAN USE_ITT USE_SYSTEM_LIBS USE_NATIVE_ARCH USE_PRECOMPILED_HEADERS
USE_CCACHE USE_NINJA USE_ASAN USE_LITE_INTERPRETER_PROFILER BUILD_TEST BUILD_PYTHON BUILD_BINARY
BUILD_SHARED_LIBS BUILD_SPLIT_CUDA BUILD_CUSTOM_PROTOBUF BUILD_FUNCTORCH BUILD_LIBTORCH_WHL
BUILD_PYTHON_ONLY BUILD_LAZY_TS_BACKEND BUILD_CAFFE2 BUILD_JNI
"""

# The effect of each group of variables if they are inherited from the user's shell
_VARIABLE_GROUPS = {
    "would change the compilers or their options": _COMPILER_VARIABLES,
    "would select another CUDA toolkit or change nvcc's options": _CUDA_VARIABLES,
    "would change how CMake configures": _CMAKE_VARIABLES,
    "would select another Python or other packages": _PYTHON_VARIABLES,
    "would change the build of torch or of its extensions": _TORCH_VARIABLES,
}
UNSET_REASONS: Mapping[str, str] = {
    name: why for why, names in _VARIABLE_GROUPS.items() for name in names.split()
}
LEAKING_VARIABLES = frozenset(UNSET_REASONS)


MAX_JOBS_REASON = "for manual builds: what fits into memory (torchyard uses the free memory)"
_LAUNCHER_REASON = "runs the compiler cache or the distributed compilation before the compiler"
_CACHE_REASON = "gives cache hits in other folders and checkouts"
_CACHE_SIZE_REASON = "the maximum size of the compiler cache"
SET_REASONS = {
    "PYTHONNOUSERSITE": "packages of the user site would shadow those of this environment",
    "VIRTUAL_ENV": "the environment that torch and the extensions are installed into",
    "PYTHONPATH": "build tools for the existing interpreter",
    "VSLANG": "selects English messages of the compilers",
    "MSSDK": "older releases of setuptools require it with DISTUTILS_USE_SDK",
    "DISTUTILS_USE_SDK": "makes setuptools use the compiler of this MSVC environment",
    "CC": "the selected C compiler; cpp_extension passes it to nvcc as host compiler",
    "CXX": "the selected C++ compiler",
    "CUDAHOSTCXX": "CMake passes it to nvcc as host compiler",
    "CUDA_HOME": "the toolkit of this profile, for cpp_extension",
    "CUDA_PATH": "the toolkit of this profile, for CMake and nvcc on Windows",
    "CUDACXX": "the nvcc of this profile, for CMake",
    "TORCH_CUDA_ARCH_LIST": "the targets, as torch reads them",
    "CUDAARCHS": "the targets, as CMake reads them",
    "CL": "options of cl.exe that this toolkit and torch need",
    "NVCC_APPEND_FLAGS": "options of nvcc that this toolkit and torch need",
    "USE_CUDA": "whether torch is built with CUDA",
    "USE_CCACHE": "prevents torch's CMake from searching for ccache",
    "CMAKE_C_COMPILER_LAUNCHER": _LAUNCHER_REASON,
    "CMAKE_CXX_COMPILER_LAUNCHER": _LAUNCHER_REASON,
    "CMAKE_CUDA_COMPILER_LAUNCHER": _LAUNCHER_REASON,
    "CMAKE_MSVC_DEBUG_INFORMATION_FORMAT": "/Z7: a cache cannot store a .pdb that all files share",
    "CMAKE_GENERATOR": "Ninja compiles only what changed and gets its jobs from the jobserver",
    "CMAKE_BUILD_TYPE": "set by build.type",
    "CMAKE_LINK_DEPENDS_NO_SHARED": "a changed library does not relink the libraries that use it",
    "CMAKE_BUILD_RPATH_USE_ORIGIN": "the wheel has the same bytes in every build folder",
    "CMAKE_PREFIX_PATH": "MKL is installed as Python packages in this environment",
    "BLAS": "set by build.blas",
    "CCACHE_NAMESPACE": "separates objects by nvcc's flag variables, which ccache ignores",
    "CCACHE_DISABLE": "build.cache is off, and a folder may have been configured with ccache",
    "CCACHE_MAXSIZE": _CACHE_SIZE_REASON,
    "SCCACHE_CACHE_SIZE": _CACHE_SIZE_REASON,
    "CCACHE_SLOPPINESS": "disables checks that cost hits and find nothing here",
    "CCACHE_BASEDIR": _CACHE_REASON,
    "SCCACHE_BASEDIRS": _CACHE_REASON,
    "CCACHE_ABSSTDERR": "compiler messages keep absolute paths",
    "CCACHE_COMPILERCHECK": "identifies a compiler from a wheel by its bytes, not by its time",
    "CCACHE_NOHASHDIR": _CACHE_REASON,
    "SCCACHE_IDLE_TIMEOUT": "the server must outlive the longest compilation",
    "SCCACHE_IGNORE_SERVER_IO_ERROR": "compiles without the cache if the server is gone",
    "CUDA_LAUNCH_BLOCKING": "reports an error at the kernel that caused it",
}
_PREPEND_REASONS = {
    "PATH": "the programs of this profile come before others of the same name",
    "LD_LIBRARY_PATH": "torch is linked with this toolkit, which the loader does not search",
}


def add_build_reasons(job: EnvJob, deps: DepsManifest, environment: Environment) -> Environment:
    """Return the environment of a build, with the reason for each variable."""
    reasons = _explain_msvc_variables(deps)
    if job.strategy == "source":
        reasons |= dict.fromkeys(job.flags, "set by build.flags")
        reasons |= dict.fromkeys(job.variables, "set by build.env")
    return _attach_reasons(environment, reasons)


def add_runtime_reasons(job: EnvJob, deps: DepsManifest, environment: Environment) -> Environment:
    """Return the environment of running programs, with the reason for each variable."""
    reasons = _explain_msvc_variables(deps) | dict.fromkeys(job.runtime, "set by runtime.env")
    if job.runtime.get("CUDA_LAUNCH_BLOCKING") == "1":
        # the reason in SET_REASONS says more than the name of the setting
        del reasons["CUDA_LAUNCH_BLOCKING"]
    return _attach_reasons(environment, reasons)


def _explain_msvc_variables(deps: DepsManifest) -> dict[str, str]:
    """Return the reason for each MSVC variable, by upper-case name as in the environment."""
    return {name.upper(): deps.msvc.by for name in deps.msvc.set} if deps.msvc else {}


def _attach_reasons(environment: Environment, explicit: dict[str, str]) -> Environment:
    reasons = {
        **UNSET_REASONS,
        **SET_REASONS,
        **explicit,
        **{name: _PREPEND_REASONS.get(name, "") for name in environment.prepend},
        # on Windows a variable that is set to "" is unset
        **{name: explicit.get(name, UNSET_REASONS.get(name, "")) for name in environment.unset},
    }
    return replace(environment, why={n: reasons[n] for n in environment.names if reasons.get(n)})
