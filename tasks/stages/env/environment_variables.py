"""Resolve the environments of builds, extensions and programs, with variables for MSVC and nvcc."""

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
from tasks.stages.env.variable_reasons import (
    LEAKING_VARIABLES,
    add_build_reasons,
    add_runtime_reasons,
)

# DISTUTILS_USE_SDK makes setuptools use the cl.exe of PATH instead of searching for Visual Studio;
# older setuptools also requires MSSdk. CMake searches for cc and gcc before cl and would find the
# gcc of Git, Strawberry Perl or MSYS2. CC and CXX are only the name, as in PyTorch's setup.py: PATH
# has the selected cl.exe, and cpp_extension before 2.14 fails on a path with a space. VSLANG
# selects English messages, which torchyard parses.
_MSVC_SETTINGS = {"DISTUTILS_USE_SDK": "1", "MSSDK": "1", "CC": "cl", "CXX": "cl", "VSLANG": "1033"}


_BLAS_NAMES = {"mkl": "MKL", "openblas": "OpenBLAS", "generic": "Generic"}  # PyTorch's values
_NO_CACHE = CompilerCache()
_ORIGIN_RPATH_VARIABLE = "CMAKE_BUILD_RPATH_USE_ORIGIN"
_CMAKE_ONLY_VARIABLES = ("CUDACXX", "CUDAHOSTCXX")
# Variables that would shadow the validated packages. VIRTUAL_ENV would be the environment of the
# user's shell, not the one that runs
_SHADOWING_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONPLATLIBDIR", "VIRTUAL_ENV")


def resolve_environments(
    job: EnvJob, deps: DepsManifest, cache: CompilerCache = _NO_CACHE, tree: str = ""
) -> tuple[Environment, Environment]:
    """Return the environment of the build and the environment of extensions.

    `cache` is the compiler cache and `tree` the PyTorch tree of a source build. Only the build
    environment has reasons.
    """
    common = {
        **_build_python_variables(job, deps),
        **_build_compiler_variables(job, deps),
        **_build_cuda_variables(job, deps),
    }
    folders = _list_path_folders(job, deps)
    values = {**common, **_build_extension_variables(job, deps)}
    extension = create_environment(job, values, folders, LEAKING_VARIABLES)
    if job.strategy != "source":
        return add_build_reasons(job, deps, extension), extension
    values = {**common, **_build_source_variables(job, deps, cache)}
    offered = list_optional_launchers(job)
    if job.system == "linux" and _ORIGIN_RPATH_VARIABLE not in job.variables:
        offered = (*offered, _ORIGIN_RPATH_VARIABLE)
    build_environment = replace(
        create_environment(job, values, folders, LEAKING_VARIABLES),
        defaults=compute_cache_tuning(job, deps, cache, find_base_dir(job, tree)),
        offered=offered,
    )
    return add_build_reasons(job, deps, build_environment), extension


def resolve_runtime_environment(job: EnvJob, deps: DepsManifest) -> Environment:
    """Return the environment of programs; the variables of runtime.env override all others.

    The environment includes variables for compilations at run time (JIT extensions, torch.compile).
    The command `python` always runs the interpreter that has torch.
    """
    variables = {
        **_build_python_variables(job, deps),
        **_build_compiler_variables(job, deps),
        **_build_cuda_variables(job, deps),
        **_select_msvc_flags(job, deps, extension=True),
    }
    if job.cuda and job.arch_lists.extensions:
        variables["TORCH_CUDA_ARCH_LIST"] = job.arch_lists.extensions
    # PYTHONPATH has the tools in the overlay of an existing interpreter, only for builds
    for name in ("PYTHONPATH", *_CMAKE_ONLY_VARIABLES):
        variables.pop(name, None)
    folders = _list_path_folders(job, deps)
    if deps.overlay:
        scripts = str(_parse_system_path(job, deps.python).parent)
        folders["PATH"] = (scripts, *folders["PATH"])
    values = {**variables, **job.runtime}
    environment = create_environment(job, values, folders, _SHADOWING_VARIABLES)
    return add_runtime_reasons(job, deps, environment)


def _build_python_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Return the variables that configure Python.

    User site-packages are disabled. VIRTUAL_ENV is the venv. An existing interpreter instead gets
    a PYTHONPATH with the overlay of build tools.
    """
    home = {"PYTHONPATH": deps.overlay} if deps.overlay else {"VIRTUAL_ENV": str(job.venv)}
    return {"PYTHONNOUSERSITE": "1", **home}


def _build_compiler_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Return the variables that select the compilers, and on Windows the MSVC environment.

    The selected compiler is also nvcc's host compiler: CUDAHOSTCXX for CMake, CC for extensions.
    """
    if job.system == "windows":
        # Windows ignores the case of names: upper case avoids duplicates
        captured = deps.msvc.set if deps.msvc else {}
        return {**{name.upper(): value for name, value in captured.items()}, **_MSVC_SETTINGS}
    host = deps.cxx.path if job.cuda else ""
    compilers = {"CC": deps.cc.path, "CXX": deps.cxx.path, "CUDAHOSTCXX": host}
    return {name: path for name, path in compilers.items() if path}


def _build_cuda_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Return the variables with the toolkit's location; empty if no toolkit is used."""
    toolkit = _find_used_toolkit(job, deps)
    if not toolkit:
        return {}
    home = _parse_system_path(job, toolkit.home)
    nvcc = home / "bin" / ("nvcc.exe" if job.system == "windows" else "nvcc")
    # CMake writes CUDACXX into generated files, where a backslash would escape the next character
    return {"CUDA_HOME": str(home), "CUDA_PATH": str(home), "CUDACXX": nvcc.as_posix()}


def _build_extension_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Return the variables with arch lists, and on Windows compiler options, for extensions.

    Torch's build does not get CUDAARCHS, the default of CMAKE_CUDA_ARCHITECTURES. PyTorch ignores
    the value, but CMake's earlier compiler check fails for an arch that the toolkit does not know.
    """
    if not _find_used_toolkit(job, deps):
        return {}
    archs = job.arch_lists
    variables = {"TORCH_CUDA_ARCH_LIST": archs.extensions, "CUDAARCHS": archs.cmake}
    arch_variables = {name: value for name, value in variables.items() if value}
    return {**arch_variables, **_select_msvc_flags(job, deps, extension=True)}


def _build_source_variables(
    job: EnvJob, deps: DepsManifest, cache: CompilerCache
) -> dict[str, str]:
    """Return the variables that configure torch's build; build.env overrides the others."""
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
    """Return CL and NVCC_APPEND_FLAGS with options for cl.exe and nvcc; empty except on Windows."""
    toolkit = _find_used_toolkit(job, deps)
    if job.system != "windows" or not toolkit:
        return {}
    flags = {}
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
    """Return the environment with these values; variables of `leaks` without a value are unset.

    On Windows an empty value counts as unset, as in cmd and PowerShell.
    """
    separator = ";" if job.system == "windows" else ":"
    for name, folders in prepend.items():
        for folder in folders:
            if separator in folder:
                raise TorchyardError(
                    f'{name} cannot contain this folder: "{separator}" separates its folders',
                    location=folder,
                    hint="move the checkout, or the toolkit, to a folder without this character",
                )
    assigned = {name: value for name, value in values.items() if value or job.system != "windows"}
    unset = tuple(sorted({*leaks, *values} - assigned.keys() - prepend.keys()))
    return Environment(set=assigned, prepend=prepend, unset=unset, separator=separator)


def _list_path_folders(job: EnvJob, deps: DepsManifest) -> dict[str, tuple[str, ...]]:
    """Return the folders to prepend to PATH and LD_LIBRARY_PATH.

    The folder of managed programs comes first: a system toolkit's folder may also contain python
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
