"""What deps made → the environment to train and to serve in. Pure.

Given: the same as resolve, and the settings runtime.env and runtime.launch_blocking. There are no
flags of a build in it; of the toolkit it has what an extension takes that is compiled when it is
first used.
"""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

from tasks.core.deps_model import DepsManifest
from tasks.stages.env.job import Environment, EnvJob
from tasks.stages.env.reasons import add_runtime_reasons
from tasks.stages.env.resolve import (
    build_compiler_variables,
    build_cuda_variables,
    build_python_variables,
    create_environment,
    list_path_folders,
    select_msvc_flags,
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
