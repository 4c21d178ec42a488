"""What deps made → the environment to train and to serve in. Pure.

Given: the same as resolve, and the settings runtime.env and runtime.launch_blocking. There are no
flags of a build in it; of the toolkit it has what an extension takes that is compiled when it is
first used.
"""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

from tasks.core.deps_model import Deps
from tasks.stages.env.job import Environment, EnvJob
from tasks.stages.env.reasons import explained_at_run_time
from tasks.stages.env.resolve import compilers, cuda, folders, made, msvc_flags, python

_OF_CMAKE = ("CUDACXX", "CUDAHOSTCXX")
# What would lead python past the packages that were validated; an environment that is active in a
# person's shell is not the one that runs
_SHADOWS = ("PYTHONPATH", "PYTHONHOME", "PYTHONPLATLIBDIR", "VIRTUAL_ENV")


def resolve_runtime(job: EnvJob, deps: Deps) -> Environment:
    """What runtime.env says comes last."""
    values = {**_home(job, deps), **_to_compile(job, deps), **job.runtime}
    return explained_at_run_time(job, deps, made(job, values, _folders(job, deps), _SHADOWS))


def _home(job: EnvJob, deps: Deps) -> dict[str, str]:
    """The tools beside an existing interpreter are for building alone."""
    return {name: value for name, value in python(job, deps).items() if name != "PYTHONPATH"}


def _to_compile(job: EnvJob, deps: Deps) -> dict[str, str]:
    """Extensions that are compiled when they are first used, and torch.compile, take the compilers,
    CUDA_HOME, and archs as cpp_extension reads them. What CMake alone reads is left out.
    """
    archs = job.arch_lists.extensions
    given = {
        **compilers(job, deps),
        **cuda(job, deps),
        **({"TORCH_CUDA_ARCH_LIST": archs} if job.cuda and archs else {}),
        **msvc_flags(job, deps, extension=True),
    }
    return {name: value for name, value in given.items() if name not in _OF_CMAKE}


def _folders(job: EnvJob, deps: Deps) -> dict[str, tuple[str, ...]]:
    """`python` is the interpreter that has the torch, also where tools lie beside it."""
    found = folders(job, deps)
    if not deps.overlay:
        return found
    kind = PureWindowsPath if job.system == "windows" else PurePosixPath
    return {**found, "PATH": (str(kind(deps.python).parent), *found["PATH"])}
