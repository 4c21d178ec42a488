"""Resolve the environments of builds, extensions and programs, with variables for MSVC and nvcc."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath, PurePosixPath, PureWindowsPath

from tasks.core.deps_model import CompilerCache, CudaHome, DepsManifest, MsvcEnvironment
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
# its older releases require MSSdk as well. CMake looks for cc and gcc before cl, and finds those of
# Git, Strawberry Perl or MSYS2. CC and CXX are only the name, as in PyTorch's setup.py: PATH has
# the selected cl.exe, and cpp_extension before 2.14 fails on a path with a space. VSLANG selects
# English messages, which torchyard parses.
_MSVC_SETTINGS = {"DISTUTILS_USE_SDK": "1", "MSSDK": "1", "CC": "cl", "CXX": "cl", "VSLANG": "1033"}


def build_msvc_variables(captured: MsvcEnvironment | None) -> dict[str, str]:
    """Return the variables that vcvarsall sets, and those that select this environment.

    Windows ignores the case of names: all names are in upper case, to avoid duplicates.
    """
    variables = {name.upper(): value for name, value in captured.set.items()} if captured else {}
    return {**variables, **_MSVC_SETTINGS}


def build_msvc_flags(toolkit: str, torch: str, *, extension: bool) -> dict[str, str]:
    """Return CL (cl.exe) and NVCC_APPEND_FLAGS (nvcc) for a toolkit and a release of torch."""
    pairs = list(_list_flag_pairs(toolkit, torch, extension=extension))
    if not pairs:
        return {}
    cl, nvcc = zip(*pairs, strict=True)
    return {"CL": " ".join(cl), "NVCC_APPEND_FLAGS": " ".join(nvcc)}


def _list_flag_pairs(toolkit: str, torch: str, *, extension: bool) -> Iterator[tuple[str, str]]:
    # CCCL of CUDA 13.2 rejects the traditional preprocessor, and torch does not request the
    # conforming one (pytorch#188761)
    if parse_major_minor(toolkit) >= (13, 2):
        yield "/Zc:preprocessor", "-Xcompiler /Zc:preprocessor"
    # torch's headers of 2.9 and later guard against error C2872 only if this is defined
    # (pytorch#188952); torch's build defines it
    if extension and parse_major_minor(torch) >= (2, 9):
        yield "/DUSE_CUDA", "-DUSE_CUDA"


_NO_CACHE = CompilerCache()
ORIGIN_RPATH_VARIABLE = "CMAKE_BUILD_RPATH_USE_ORIGIN"
_BLAS_NAMES = {
    "mkl": "MKL",
    "openblas": "OpenBLAS",
    "generic": "Generic",
}  # PyTorch's BLAS variable


def resolve_environments(
    job: EnvJob, deps: DepsManifest, cache: CompilerCache = _NO_CACHE, tree: str = ""
) -> tuple[Environment, Environment]:
    """Return the environment of the build and the environment of extensions.

    `cache` is the compiler cache of a source build, `tree` its source. Only the first environment
    has reasons.
    """
    common = {
        **build_python_variables(job, deps),
        **build_compiler_variables(job, deps),
        **build_cuda_variables(job, deps),
    }
    extension = _create_build_environment(
        job, deps, {**common, **_build_extension_variables(job, deps)}
    )
    if job.strategy != "source":
        return add_build_reasons(job, deps, extension), extension
    build_environment = _create_build_environment(
        job, deps, {**common, **_build_source_variables(job, deps, cache)}
    )
    tuning = compute_cache_tuning(job, deps, cache, find_base_dir(job, tree))
    return add_build_reasons(
        job,
        deps,
        replace(
            build_environment,
            defaults=tuning,
            offered=(*list_optional_launchers(job), *_list_new_folder_variables(job)),
        ),
    ), extension


def build_python_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Return the variables of Python.

    User site-packages are disabled. The environment is the venv, or an existing interpreter with
    the overlay of tools.
    """
    home = {"PYTHONPATH": deps.overlay} if deps.overlay else {"VIRTUAL_ENV": str(job.venv)}
    return {"PYTHONNOUSERSITE": "1", **home}


def build_compiler_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Return the compilers, and on Windows the MSVC environment.

    nvcc's host compiler is that of the C++ code: CUDAHOSTCXX for CMake, CC for cpp_extension.
    """
    if job.system == "windows":
        return build_msvc_variables(deps.msvc)
    host = deps.cxx.path if job.cuda else ""
    compilers = {"CC": deps.cc.path, "CXX": deps.cxx.path, "CUDAHOSTCXX": host}
    return {name: path for name, path in compilers.items() if path}


def build_cuda_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Return the variables with the toolkit's location; empty if no toolkit is used."""
    toolkit = _find_used_toolkit(job, deps)
    if not toolkit:
        return {}
    home = _parse_system_path(job, toolkit.home)
    nvcc = home / "bin" / ("nvcc.exe" if job.system == "windows" else "nvcc")
    # CMake writes CUDACXX into generated files, where a backslash would escape the next character
    return {"CUDA_HOME": str(home), "CUDA_PATH": str(home), "CUDACXX": nvcc.as_posix()}


def _build_extension_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Return the arch lists and Windows options of extensions.

    CMake reads CMAKE_CUDA_ARCHITECTURES from CUDAARCHS, and an extension built by CMake honours it.
    PyTorch's tree does not get it: releases to 2.8 overwrite the value and later ones warn and
    ignore it, but only after CMake's compiler check has used it, where an arch that the toolkit
    does not support is fatal.
    """
    if not _find_used_toolkit(job, deps):
        return {}
    arch_variables = {
        "TORCH_CUDA_ARCH_LIST": job.arch_lists.extensions,
        "CUDAARCHS": job.arch_lists.cmake,
    }
    return {**_drop_empty_values(arch_variables), **select_msvc_flags(job, deps, extension=True)}


def _build_source_variables(
    job: EnvJob, deps: DepsManifest, cache: CompilerCache
) -> dict[str, str]:
    """Return PyTorch's options; build.env comes last, because the user set it explicitly."""
    return {
        **select_launchers(cache, job.caching, job),
        "USE_CUDA": "1" if _find_used_toolkit(job, deps) else "0",
        **_build_arch_variables(job, deps),
        **{name: _format_switch(value) for name, value in job.flags.items()},
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_BUILD_TYPE": job.build_type,
        # a changed libc10 does not require relinking every library that uses it: see ADR 13
        "CMAKE_LINK_DEPENDS_NO_SHARED": "ON",
        **_build_rpath_variables(job),
        **_build_blas_variables(job),
        **select_msvc_flags(job, deps, extension=False),
        **job.variables,
        **build_cache_namespace(cache, job.variables),
    }


def _build_rpath_variables(job: EnvJob) -> dict[str, str]:
    """Return the variable that makes the space for RPATH the same length in every folder.

    It is set only in a new folder: in a configured one it would link everything again.
    """
    return {ORIGIN_RPATH_VARIABLE: "ON"} if job.system == "linux" else {}


def _build_arch_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    arch_variables = {"TORCH_CUDA_ARCH_LIST": job.arch_lists.torch}
    return _drop_empty_values(arch_variables) if _find_used_toolkit(job, deps) else {}


def _list_new_folder_variables(job: EnvJob) -> tuple[str, ...]:
    return () if ORIGIN_RPATH_VARIABLE in job.variables else tuple(_build_rpath_variables(job))


def _drop_empty_values(lists: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in lists.items() if value}


def select_msvc_flags(job: EnvJob, deps: DepsManifest, *, extension: bool) -> dict[str, str]:
    """Return options of cl.exe and nvcc on Windows, for torch itself or for an extension."""
    toolkit = _find_used_toolkit(job, deps)
    if job.system != "windows" or not toolkit:
        return {}
    return build_msvc_flags(toolkit.version, job.torch, extension=extension)


def _build_blas_variables(job: EnvJob) -> dict[str, str]:
    if job.blas not in _BLAS_NAMES:
        return {}
    # MKL's Python packages are in the venv's include and lib; CMake searches there only if told to
    prefix = {"CMAKE_PREFIX_PATH": job.venv.as_posix()} if job.blas == "mkl" else {}
    return {"BLAS": _BLAS_NAMES[job.blas], **prefix}


def _format_switch(value: bool | str) -> str:
    return value if isinstance(value, str) else str(int(value))


def _create_build_environment(
    job: EnvJob, deps: DepsManifest, values: Mapping[str, str]
) -> Environment:
    return create_environment(job, values, list_path_folders(job, deps), LEAKING_VARIABLES)


def create_environment(
    job: EnvJob,
    values: Mapping[str, str],
    prepend: Mapping[str, tuple[str, ...]],
    leaks: Iterable[str],
) -> Environment:
    """Return the environment with these values; variables of `leaks` without a value are unset.

    On Windows an empty value counts as unset: cmd and PowerShell remove a variable that is set to
    "".
    """
    separator = ";" if job.system == "windows" else ":"
    for name, first in prepend.items():
        _require_one_element(name, first, separator)
    assigned = {name: value for name, value in values.items() if value or job.system != "windows"}
    unset = tuple(sorted({*leaks, *values} - assigned.keys() - prepend.keys()))
    return Environment(set=assigned, prepend=prepend, unset=unset, separator=separator)


def list_path_folders(job: EnvJob, deps: DepsManifest) -> dict[str, tuple[str, ...]]:
    """Return the folders to prepend to PATH and LD_LIBRARY_PATH.

    The managed programs come first: a system toolkit's folder may contain a python and a ninja,
    too.
    """
    toolkit, compilers = _find_used_toolkit(job, deps), deps.msvc.path if deps.msvc else ()
    if not toolkit:
        return {"PATH": (deps.scripts, *compilers)}
    folders = {"PATH": (deps.scripts, *_list_toolkit_folders(job, toolkit), *compilers)}
    if _needs_library_path(job, toolkit):
        folders["LD_LIBRARY_PATH"] = (str(_parse_system_path(job, toolkit.home) / "lib64"),)
    return folders


def _list_toolkit_folders(job: EnvJob, toolkit: CudaHome) -> tuple[str, ...]:
    """Return the toolkit's folders of programs and DLLs.

    From 13.0 on the DLLs are below bin: in x86_64 in NVIDIA's packages, in x64 in the installer's
    toolkit.
    """
    folder = _parse_system_path(job, toolkit.home) / "bin"
    if job.system != "windows" or parse_major_minor(toolkit.version) < (13, 0):
        return (str(folder),)
    return (str(folder), str(folder / ("x86_64" if toolkit.pins else "x64")))


def _needs_library_path(job: EnvJob, toolkit: CudaHome) -> bool:
    """Return True for a torch that is linked against a toolkit of the system.

    Such a toolkit may be missing from the loader's path. A toolkit of Python packages is a tree of
    links to libraries that torch finds through its RPATH already, and an official wheel contains
    its libraries: a second copy earlier in the path would change which libraries are loaded.
    """
    linked = job.system == "linux" and job.strategy == "source"
    return linked and not toolkit.pins and toolkit.home != "/usr"


def _find_used_toolkit(job: EnvJob, deps: DepsManifest) -> CudaHome | None:
    return deps.toolkit if job.cuda else None


def _parse_system_path(job: EnvJob, text: str) -> PurePath:
    return PureWindowsPath(text) if job.system == "windows" else PurePosixPath(text)


def _require_one_element(name: str, folders: tuple[str, ...], separator: str) -> None:
    for folder in folders:
        if separator in folder:
            raise TorchyardError(
                f'this folder cannot be put on {name}: "{separator}" separates the folders there',
                location=folder,
                hint="move the checkout, or the toolkit, to a folder without this character",
            )


_CMAKE_ONLY_VARIABLES = ("CUDACXX", "CUDAHOSTCXX")
# Variables that would shadow the validated packages; an environment that is active in the user's
# shell is not the one that runs
_SHADOWING_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONPLATLIBDIR", "VIRTUAL_ENV")


def resolve_runtime_environment(job: EnvJob, deps: DepsManifest) -> Environment:
    """Return the environment of programs; the variables of runtime.env override all others."""
    values = {
        **_build_interpreter_variables(job, deps),
        **_build_jit_variables(job, deps),
        **job.runtime,
    }
    return add_runtime_reasons(
        job,
        deps,
        create_environment(job, values, _list_runtime_folders(job, deps), _SHADOWING_VARIABLES),
    )


def _build_interpreter_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Return the variables of Python without PYTHONPATH.

    The tools in the overlay of an existing interpreter are only for builds.
    """
    return {
        name: value
        for name, value in build_python_variables(job, deps).items()
        if name != "PYTHONPATH"
    }


def _build_jit_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Return the variables of compilations at run time: JIT extensions and torch.compile.

    They use the compilers, CUDA_HOME, and the archs as cpp_extension reads them. Variables that
    only CMake reads are left out.
    """
    archs = job.arch_lists.extensions
    variables = {
        **build_compiler_variables(job, deps),
        **build_cuda_variables(job, deps),
        **({"TORCH_CUDA_ARCH_LIST": archs} if job.cuda and archs else {}),
        **select_msvc_flags(job, deps, extension=True),
    }
    return {name: value for name, value in variables.items() if name not in _CMAKE_ONLY_VARIABLES}


def _list_runtime_folders(job: EnvJob, deps: DepsManifest) -> dict[str, tuple[str, ...]]:
    """Return the folders to prepend; `python` is always the interpreter that has torch."""
    folders = list_path_folders(job, deps)
    if not deps.overlay:
        return folders
    kind = PureWindowsPath if job.system == "windows" else PurePosixPath
    return {**folders, "PATH": (str(kind(deps.python).parent), *folders["PATH"])}
