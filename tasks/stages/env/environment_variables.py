"""Resolve the environments of builds, extensions and programs, with a reason for each variable.

The scripts unset the variables of the user's shell that would change a build. Child processes of
torchyard inherit only the variables in `shell.PASSED`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePath, PurePosixPath, PureWindowsPath

from tasks.core.deps_model import CompilerCache, CudaHome, DepsManifest
from tasks.core.errors import TorchyardError
from tasks.knowledge.versions import parse_major_minor
from tasks.stages.env.cache_launchers import (
    compute_cache_tuning,
    find_base_dir,
    list_optional_launchers,
    select_launchers,
)
from tasks.stages.env.model import Environment, EnvJob, build_cache_namespace

# DISTUTILS_USE_SDK makes setuptools use the cl.exe of PATH instead of searching for Visual Studio;
# older setuptools also requires MSSdk. CMake searches for cc and gcc before cl and would find the
# gcc of Git, Strawberry Perl or MSYS2. CC and CXX are only the name, as in PyTorch's setup.py: PATH
# has the selected cl.exe, and cpp_extension before 2.14 fails on a path with a space. VSLANG
# selects English messages, which torchyard parses.
_MSVC_SETTINGS = {"DISTUTILS_USE_SDK": "1", "MSSDK": "1", "CC": "cl", "CXX": "cl", "VSLANG": "1033"}

_BLAS_NAMES = {"mkl": "MKL", "openblas": "OpenBLAS", "generic": "Generic"}  # for CMake's BLAS
_NO_CACHE = CompilerCache()
_BLOCKING_LAUNCH = ("CUDA_LAUNCH_BLOCKING", "1")
_ORIGIN_RPATH_VARIABLE = "CMAKE_BUILD_RPATH_USE_ORIGIN"
_CMAKE_ONLY_VARIABLES = ("CUDACXX", "CUDAHOSTCXX")
# Variables that would shadow the validated packages. VIRTUAL_ENV would be the environment of the
# user's shell, not the one that runs
_SHADOWING_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONPLATLIBDIR", "VIRTUAL_ENV")


# The effect of each group of variables if a build inherits them from the user's shell
_UNSET_VARIABLES = {
    "would change the compilers or their options": """
CC CXX CPP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDSHARED CUDAFLAGS ASMFLAGS AR CL _CL_ LINK _LINK_
DISTUTILS_USE_SDK CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH GCC_EXEC_PREFIX
SOURCE_DATE_EPOCH
""",
    "would select another CUDA toolkit or change nvcc's options": """
CUDA_HOME CUDA_PATH CUDA_ROOT CUDA_BIN_PATH CUDA_TOOLKIT_ROOT_DIR CUDACXX CUDAHOSTCXX CUDAARCHS
CUDA_NVCC_EXECUTABLE CUDA_NVCC_FLAGS NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS NVCC_CCBIN CUDNN_HOME
CUDNN_ROOT CUDNN_LIB_DIR CUDNN_INCLUDE_DIR CUDNN_LIBRARY NCCL_ROOT NCCL_ROOT_DIR NCCL_LIB_DIR
NCCL_INCLUDE_DIR CUSPARSELT_ROOT MAGMA_HOME
""",
    "would change how CMake configures": """
CMAKE_ARGS CMAKE_PREFIX_PATH CMAKE_GENERATOR CMAKE_GENERATOR_PLATFORM CMAKE_GENERATOR_TOOLSET
CMAKE_GENERATOR_INSTANCE CMAKE_BUILD_TYPE CMAKE_CONFIG_TYPE CMAKE_TOOLCHAIN_FILE
CMAKE_INSTALL_PREFIX CMAKE_BUILD_PARALLEL_LEVEL CMAKE_CUDA_ARCHITECTURES CMAKE_CUDA_COMPILER
CMAKE_CUDA_HOST_COMPILER CMAKE_CUDA_FLAGS CMAKE_C_COMPILER CMAKE_CXX_COMPILER CMAKE_C_FLAGS
CMAKE_CXX_FLAGS CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_CUDA_COMPILER_LAUNCHER
CMAKE_INCLUDE_PATH CMAKE_LIBRARY_PATH CMAKE_PROGRAM_PATH CMAKE_FRESH CMAKE_ONLY SKBUILD_CMAKE_ARGS
SKBUILD_CMAKE_DEFINE SKBUILD_CMAKE_BUILD_TYPE SKBUILD_BUILD_DIR SKBUILD_EDITABLE_MODE MAKEFLAGS
""",
    "would select another Python or other packages": """
PYTHONPATH PYTHONHOME PYTHONPLATLIBDIR PYTHONOPTIMIZE VIRTUAL_ENV CONDA_PREFIX CONDA_BUILD_SYSROOT
SETUPTOOLS_USE_DISTUTILS SETUPTOOLS_SCM_PRETEND_VERSION
""",
    "would change the build of torch or of its extensions": """
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
""",
}
_UNSET_REASONS = {name: why for why, names in _UNSET_VARIABLES.items() for name in names.split()}
MAX_JOBS_REASON = "for builds that you start: the jobs that fit into the memory of this machine"
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
    "TORCH_CUDA_ARCH_LIST": "the GPU targets, in torch's notation",
    "CUDAARCHS": "the GPU targets, in CMake's notation",
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
    "CCACHE_NAMESPACE": "separates cached objects by nvcc's flag variables, which ccache ignores",
    "CCACHE_DISABLE": "disables ccache in build folders that were configured with it",
    "CCACHE_MAXSIZE": _CACHE_SIZE_REASON,
    "SCCACHE_CACHE_SIZE": _CACHE_SIZE_REASON,
    "CCACHE_SLOPPINESS": "disables checks that cost cache hits and find nothing in builds",
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


def resolve_environments(
    job: EnvJob, deps: DepsManifest, cache: CompilerCache = _NO_CACHE, tree: str = ""
) -> tuple[Environment, Environment]:
    """Return the environment of the build and the environment of extensions.

    `cache` is the compiler cache and `tree` the PyTorch tree of a source build. Only the build
    environment has reasons.
    """
    common, folders = _build_common_variables(job, deps), _list_path_folders(job, deps)
    # Torch's build does not get CUDAARCHS, the default of CMAKE_CUDA_ARCHITECTURES: PyTorch ignores
    # it, but CMake's earlier compiler check fails for an arch that the toolkit does not know
    lists = {"TORCH_CUDA_ARCH_LIST": job.arch_lists.extensions, "CUDAARCHS": job.arch_lists.cmake}
    has_lists = _find_used_toolkit(job, deps) is not None
    archs = {name: value for name, value in lists.items() if value and has_lists}
    values = {**common, **archs, **_select_msvc_flags(job, deps, extension=True)}
    extension = create_environment(job, values, folders, _UNSET_REASONS)
    if job.strategy != "source":
        return _add_reasons(deps, extension, {}), extension
    values = {**common, **_build_source_variables(job, deps, cache)}
    offered = list_optional_launchers(job)
    if job.system == "linux" and _ORIGIN_RPATH_VARIABLE not in job.variables:
        offered = (*offered, _ORIGIN_RPATH_VARIABLE)
    build_environment = replace(
        create_environment(job, values, folders, _UNSET_REASONS),
        defaults=compute_cache_tuning(job, deps, cache, find_base_dir(job, tree)),
        offered=offered,
    )
    reasons = dict.fromkeys(job.flags, "set by build.flags")
    reasons |= dict.fromkeys(job.variables, "set by build.env")
    return _add_reasons(deps, build_environment, reasons), extension


def resolve_runtime_environment(job: EnvJob, deps: DepsManifest) -> Environment:
    """Return the environment of the user's programs. The variables in runtime.env take precedence.

    The environment includes variables for compilations at run time (JIT extensions, torch.compile).
    The command `python` always runs the interpreter that has torch.
    """
    variables = _build_common_variables(job, deps) | _select_msvc_flags(job, deps, extension=True)
    if job.cuda and job.arch_lists.extensions:
        variables["TORCH_CUDA_ARCH_LIST"] = job.arch_lists.extensions
    # PYTHONPATH has the overlay of an existing interpreter, whose tools only builds need
    for name in ("PYTHONPATH", *_CMAKE_ONLY_VARIABLES):
        variables.pop(name, None)
    folders = _list_path_folders(job, deps)
    if deps.overlay:
        scripts = str(_parse_system_path(job, deps.python).parent)
        folders["PATH"] = (scripts, *folders["PATH"])
    values = {**variables, **job.runtime}
    environment = create_environment(job, values, folders, _SHADOWING_VARIABLES)
    # The reason in SET_REASONS says more about CUDA_LAUNCH_BLOCKING=1 than the name of the setting
    named = [name for name, value in job.runtime.items() if (name, value) != _BLOCKING_LAUNCH]
    return _add_reasons(deps, environment, dict.fromkeys(named, "set by runtime.env"))


def _add_reasons(
    deps: DepsManifest, environment: Environment, explicit: Mapping[str, str]
) -> Environment:
    """Return the environment with a reason for each variable: from `explicit`, else a default."""
    captured = {name.upper(): deps.msvc.by for name in deps.msvc.set} if deps.msvc else {}
    explicit = {**captured, **explicit}
    reasons = {
        **_UNSET_REASONS,
        **SET_REASONS,
        **explicit,
        **{name: _PREPEND_REASONS.get(name, "") for name in environment.prepend},
        # on Windows a variable that is set to "" is unset
        **{name: explicit.get(name, _UNSET_REASONS.get(name, "")) for name in environment.unset},
    }
    return replace(environment, why={n: reasons[n] for n in environment.names if reasons.get(n)})


def _build_common_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Return the variables that configure Python, the compilers and the CUDA toolkit.

    VIRTUAL_ENV is the managed venv. With an existing interpreter, PYTHONPATH is the folder of the
    build tools instead.
    """
    variables = {"PYTHONNOUSERSITE": "1"}
    variables |= {"PYTHONPATH": deps.overlay} if deps.overlay else {"VIRTUAL_ENV": str(job.venv)}
    if job.system == "windows":
        # Windows ignores the case of names: upper case avoids duplicates
        captured = deps.msvc.set if deps.msvc else {}
        variables |= {**{name.upper(): value for name, value in captured.items()}, **_MSVC_SETTINGS}
    else:
        host = deps.cxx.path if job.cuda else ""
        compilers = {"CC": deps.cc.path, "CXX": deps.cxx.path, "CUDAHOSTCXX": host}
        variables |= {name: path for name, path in compilers.items() if path}
    if toolkit := _find_used_toolkit(job, deps):
        home = _parse_system_path(job, toolkit.home)
        nvcc = home / "bin" / ("nvcc.exe" if job.system == "windows" else "nvcc")
        # CMake writes CUDACXX into generated files, in which a backslash is an escape character
        variables |= {"CUDA_HOME": str(home), "CUDA_PATH": str(home), "CUDACXX": nvcc.as_posix()}
    return variables


def _build_source_variables(
    job: EnvJob, deps: DepsManifest, cache: CompilerCache
) -> dict[str, str]:
    """Return the variables that configure torch's build. Those in build.env take precedence."""
    toolkit, archs, flags = _find_used_toolkit(job, deps), job.arch_lists.torch, job.flags.items()
    blas = {"BLAS": _BLAS_NAMES[job.blas]} if job.blas in _BLAS_NAMES else {}
    if job.blas == "mkl":  # MKL's packages are in the venv, where CMake does not search
        blas["CMAKE_PREFIX_PATH"] = job.venv.as_posix()
    return {
        **select_launchers(cache, job),
        "USE_CUDA": "1" if toolkit else "0",
        **({"TORCH_CUDA_ARCH_LIST": archs} if toolkit and archs else {}),
        **{name: value if isinstance(value, str) else str(int(value)) for name, value in flags},
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_BUILD_TYPE": job.build_type,
        # a changed libc10 does not require relinking every library that uses it: see ADR 13
        "CMAKE_LINK_DEPENDS_NO_SHARED": "ON",
        # reserves the same space for RPATH in every folder. A configured folder keeps its value,
        # because a change would link everything again
        **({_ORIGIN_RPATH_VARIABLE: "ON"} if job.system == "linux" else {}),
        **blas,
        **_select_msvc_flags(job, deps, extension=False),
        **job.variables,
        **build_cache_namespace(cache, job.variables),
    }


def _select_msvc_flags(job: EnvJob, deps: DepsManifest, *, extension: bool) -> dict[str, str]:
    """Return CL and NVCC_APPEND_FLAGS with options for cl.exe and nvcc (only on Windows)."""
    toolkit = _find_used_toolkit(job, deps)
    if job.system != "windows" or not toolkit:
        return {}
    flags = {}  # the option of cl.exe, and the options of nvcc that pass it on
    # CCCL of CUDA 13.2 rejects the traditional preprocessor, and torch does not request the
    # conforming one (pytorch#188761)
    if parse_major_minor(toolkit.version) >= (13, 2):
        flags["/Zc:preprocessor"] = "-Xcompiler /Zc:preprocessor"
    # headers of torch 2.9 and later avoid error C2872 only if USE_CUDA is defined
    # (pytorch#188952); torch's own build defines it
    if extension and parse_major_minor(job.torch) >= (2, 9):
        flags["/DUSE_CUDA"] = "-DUSE_CUDA"
    return {"CL": " ".join(flags), "NVCC_APPEND_FLAGS": " ".join(flags.values())} if flags else {}


def create_environment(
    job: EnvJob,
    values: Mapping[str, str],
    prepend: Mapping[str, tuple[str, ...]],
    leaks: Iterable[str],
) -> Environment:
    """Return an environment that sets `values` and unsets the variables `leaks`."""
    separator = ";" if job.system == "windows" else ":"
    for name, folder in ((name, folder) for name, row in prepend.items() for folder in row):
        if separator in folder:
            raise TorchyardError(
                f'{name} cannot contain this folder, because "{separator}" separates its folders',
                location=folder,
                hint="move the project or the toolkit to a path without this character",
            )
    assigned = {name: value for name, value in values.items() if value or job.system != "windows"}
    unset = tuple(sorted({*leaks, *values} - assigned.keys() - prepend.keys()))
    return Environment(set=assigned, prepend=prepend, unset=unset, separator=separator)


def _list_path_folders(job: EnvJob, deps: DepsManifest) -> dict[str, tuple[str, ...]]:
    """Return the folders to prepend to PATH and LD_LIBRARY_PATH.

    The environment's programs come first, because a system toolkit's folder may also contain python
    and ninja.
    """
    toolkit, compilers = _find_used_toolkit(job, deps), deps.msvc.path if deps.msvc else ()
    if not toolkit:
        return {"PATH": (deps.scripts, *compilers)}
    home = _parse_system_path(job, toolkit.home)
    programs = [str(home / "bin")]
    if job.system == "windows" and parse_major_minor(toolkit.version) >= (13, 0):
        # the folder of the DLLs differs between NVIDIA's packages and the installer
        programs.append(str(home / "bin" / ("x86_64" if toolkit.pins else "x64")))
    folders = {"PATH": (deps.scripts, *programs, *compilers)}
    # The loader may not search a system toolkit. Other CUDA libraries are found by RPATH: a
    # second copy earlier in the path would change which ones are loaded
    is_linked = job.system == "linux" and job.strategy == "source" and not toolkit.pins
    if is_linked and toolkit.home != "/usr":
        folders["LD_LIBRARY_PATH"] = (str(home / "lib64"),)
    return folders


def _find_used_toolkit(job: EnvJob, deps: DepsManifest) -> CudaHome | None:
    return deps.toolkit if job.cuda else None


def _parse_system_path(job: EnvJob, text: str) -> PurePath:
    return PureWindowsPath(text) if job.system == "windows" else PurePosixPath(text)
