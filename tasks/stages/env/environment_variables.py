"""Variables and flags that MSVC and nvcc need on Windows and that nobody else gives them."""

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

# setuptools then takes the cl.exe of PATH and looks for no Visual Studio of its own; MSSdk is what
# its older releases ask for beside it. CMake looks for cc and gcc before it looks for cl, and finds
# those of Git, Strawberry Perl or MSYS2; as PyTorch's setup.py does it, the name alone is given:
# the one of PATH is ours, and cpp_extension before 2.14 breaks on a space in it. VSLANG has its
# programs speak English, as all that is read here does.
_MSVC_SETTINGS = {"DISTUTILS_USE_SDK": "1", "MSSDK": "1", "CC": "cl", "CXX": "cl", "VSLANG": "1033"}


def build_msvc_variables(captured: MsvcEnvironment | None) -> dict[str, str]:
    """What vcvarsall sets, and what has it used. Windows knows a name in any case: all are in
    capitals, so that none comes twice.
    """
    given = {name.upper(): value for name, value in captured.set.items()} if captured else {}
    return {**given, **_MSVC_SETTINGS}


def build_msvc_flags(toolkit: str, torch: str, *, extension: bool) -> dict[str, str]:
    """CL (cl.exe) and NVCC_APPEND_FLAGS (nvcc) for a toolkit's version and a release of torch."""
    pairs = list(_list_flag_pairs(toolkit, torch, extension=extension))
    if not pairs:
        return {}
    cl, nvcc = zip(*pairs, strict=True)
    return {"CL": " ".join(cl), "NVCC_APPEND_FLAGS": " ".join(nvcc)}


def _list_flag_pairs(toolkit: str, torch: str, *, extension: bool) -> Iterator[tuple[str, str]]:
    # CCCL of CUDA 13.2 refuses the traditional preprocessor, and torch does not ask for the other
    # one (pytorch#188761)
    if parse_major_minor(toolkit) >= (13, 2):
        yield "/Zc:preprocessor", "-Xcompiler /Zc:preprocessor"
    # torch's headers of 2.9 and later guard against error C2872 only where this is defined
    # (pytorch#188952); torch's own build defines it
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
    """The full environment and that of the extensions.

    `cache` is the compiler cache of a source build, `tree` its source. Only the first says why.
    """
    shared = {
        **build_python_variables(job, deps),
        **build_compiler_variables(job, deps),
        **build_cuda_variables(job, deps),
    }
    extension = _create_build_environment(
        job, deps, {**shared, **_build_extension_variables(job, deps)}
    )
    if job.strategy != "source":
        return add_build_reasons(job, deps, extension), extension
    full = _create_build_environment(
        job, deps, {**shared, **_build_source_variables(job, deps, cache)}
    )
    tuned = compute_cache_tuning(job, deps, cache, find_base_dir(job, tree))
    return add_build_reasons(
        job,
        deps,
        replace(
            full,
            defaults=tuned,
            offered=(*list_optional_launchers(job), *_list_new_folder_variables(job)),
        ),
    ), extension


def build_python_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """No user site-packages; the built environment, or the tools beside an existing one."""
    home = {"PYTHONPATH": deps.overlay} if deps.overlay else {"VIRTUAL_ENV": str(job.venv)}
    return {"PYTHONNOUSERSITE": "1", **home}


def build_compiler_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """The compilers, and on Windows the environment that they work in.

    nvcc's host compiler is that of the C++ code: CUDAHOSTCXX for CMake, CC for cpp_extension.
    """
    if job.system == "windows":
        return build_msvc_variables(deps.msvc)
    host = deps.cxx.path if job.cuda else ""
    found = {"CC": deps.cc.path, "CXX": deps.cxx.path, "CUDAHOSTCXX": host}
    return {name: path for name, path in found.items() if path}


def build_cuda_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Where the toolkit is, for all who look for one; nothing where none is used."""
    toolkit = _find_used_toolkit(job, deps)
    if not toolkit:
        return {}
    home = _parse_system_path(job, toolkit.home)
    nvcc = home / "bin" / ("nvcc.exe" if job.system == "windows" else "nvcc")
    # CMake writes CUDACXX into files of its own, where a backslash would escape what follows it
    return {"CUDA_HOME": str(home), "CUDA_PATH": str(home), "CUDACXX": nvcc.as_posix()}


def _build_extension_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """CUDAARCHS is how CMake takes CMAKE_CUDA_ARCHITECTURES from the environment.

    An extension built by CMake honours it. PyTorch's own tree does not get it: releases to 2.8
    overwrite the value and later ones warn and ignore it, but only after CMake's compiler check has
    used it, where one that the toolkit cannot make is fatal.
    """
    if not _find_used_toolkit(job, deps):
        return {}
    lists = {"TORCH_CUDA_ARCH_LIST": job.arch_lists.extensions, "CUDAARCHS": job.arch_lists.cmake}
    return {**_drop_empty_values(lists), **select_msvc_flags(job, deps, extension=True)}


def _build_source_variables(
    job: EnvJob, deps: DepsManifest, cache: CompilerCache
) -> dict[str, str]:
    """PyTorch's switches; build.env comes last, since it is what a person wrote out."""
    return {
        **select_launchers(cache, job.caching, job),
        "USE_CUDA": "1" if _find_used_toolkit(job, deps) else "0",
        **_build_arch_variables(job, deps),
        **{name: _format_switch(value) for name, value in job.flags.items()},
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_BUILD_TYPE": job.build_type,
        # a changed libc10 is no reason to link all that uses it once more: see ADR 13
        "CMAKE_LINK_DEPENDS_NO_SHARED": "ON",
        **_build_rpath_variables(job),
        **_build_blas_variables(job),
        **select_msvc_flags(job, deps, extension=False),
        **job.variables,
        **build_cache_namespace(cache, job.variables),
    }


def _build_rpath_variables(job: EnvJob) -> dict[str, str]:
    """The room that CMake leaves for RPATH is then the same in every folder. Only in a new one: a
    configured one would be linked again, all of it.
    """
    return {ORIGIN_RPATH_VARIABLE: "ON"} if job.system == "linux" else {}


def _build_arch_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    lists = {"TORCH_CUDA_ARCH_LIST": job.arch_lists.torch}
    return _drop_empty_values(lists) if _find_used_toolkit(job, deps) else {}


def _list_new_folder_variables(job: EnvJob) -> tuple[str, ...]:
    return () if ORIGIN_RPATH_VARIABLE in job.variables else tuple(_build_rpath_variables(job))


def _drop_empty_values(lists: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in lists.items() if value}


def select_msvc_flags(job: EnvJob, deps: DepsManifest, *, extension: bool) -> dict[str, str]:
    """Options of cl.exe and nvcc on Windows, for torch itself or for an extension."""
    toolkit = _find_used_toolkit(job, deps)
    if job.system != "windows" or not toolkit:
        return {}
    return build_msvc_flags(toolkit.version, job.torch, extension=extension)


def _build_blas_variables(job: EnvJob) -> dict[str, str]:
    if job.blas not in _BLAS_NAMES:
        return {}
    # MKL's Python packages fill the venv's include and lib, where CMake looks only when told to
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
    """The environment with these values; what leaks and has none is unset.

    On Windows an empty value is none: cmd and PowerShell remove a variable that is set to nothing.
    """
    separator = ";" if job.system == "windows" else ":"
    for name, first in prepend.items():
        _require_one_element(name, first, separator)
    held = {name: value for name, value in values.items() if value or job.system != "windows"}
    unset = tuple(sorted({*leaks, *values} - held.keys() - prepend.keys()))
    return Environment(set=held, prepend=prepend, unset=unset, separator=separator)


def list_path_folders(job: EnvJob, deps: DepsManifest) -> dict[str, tuple[str, ...]]:
    """Our programs come first: a system toolkit's folder may hold a python and a ninja, too."""
    toolkit, compilers = _find_used_toolkit(job, deps), deps.msvc.path if deps.msvc else ()
    if not toolkit:
        return {"PATH": (deps.scripts, *compilers)}
    found = {"PATH": (deps.scripts, *_list_toolkit_folders(job, toolkit), *compilers)}
    if _needs_library_path(job, toolkit):
        found["LD_LIBRARY_PATH"] = (str(_parse_system_path(job, toolkit.home) / "lib64"),)
    return found


def _list_toolkit_folders(job: EnvJob, toolkit: CudaHome) -> tuple[str, ...]:
    """From 13.0 on the DLLs lie below bin: x86_64 in NVIDIA's packages, x64 in its installer."""
    folder = _parse_system_path(job, toolkit.home) / "bin"
    if job.system != "windows" or parse_major_minor(toolkit.version) < (13, 0):
        return (str(folder),)
    return (str(folder), str(folder / ("x86_64" if toolkit.pins else "x64")))


def _needs_library_path(job: EnvJob, toolkit: CudaHome) -> bool:
    """Only for a torch that is linked against a toolkit of the system.

    That one need not be on the loader's path. A toolkit of Python packages is a tree of links to
    what torch finds through its RPATH already, and an official wheel brings its own libraries: a
    second copy in front of them would change what is loaded.
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
# What would lead python past the packages that were validated; an environment that is active in a
# person's shell is not the one that runs
_SHADOWING_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONPLATLIBDIR", "VIRTUAL_ENV")


def resolve_runtime_environment(job: EnvJob, deps: DepsManifest) -> Environment:
    """What runtime.env says comes last."""
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
    """The tools beside an existing interpreter are for building alone."""
    return {
        name: value
        for name, value in build_python_variables(job, deps).items()
        if name != "PYTHONPATH"
    }


def _build_jit_variables(job: EnvJob, deps: DepsManifest) -> dict[str, str]:
    """Extensions that are compiled when they are first used, and torch.compile, take the compilers,
    CUDA_HOME, and archs as cpp_extension reads them. What CMake alone reads is left out.
    """
    archs = job.arch_lists.extensions
    given = {
        **build_compiler_variables(job, deps),
        **build_cuda_variables(job, deps),
        **({"TORCH_CUDA_ARCH_LIST": archs} if job.cuda and archs else {}),
        **select_msvc_flags(job, deps, extension=True),
    }
    return {name: value for name, value in given.items() if name not in _CMAKE_ONLY_VARIABLES}


def _list_runtime_folders(job: EnvJob, deps: DepsManifest) -> dict[str, tuple[str, ...]]:
    """`python` is the interpreter that has the torch, also where tools lie beside it."""
    found = list_path_folders(job, deps)
    if not deps.overlay:
        return found
    kind = PureWindowsPath if job.system == "windows" else PurePosixPath
    return {**found, "PATH": (str(kind(deps.python).parent), *found["PATH"])}
