"""Make the environment, take stock of it, and write it down."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

from tasks.compiler_cache import find as cache
from tasks.core.deps_model import Cache, Deps, DepsJob, Program, Stamps
from tasks.core.digest import canonical, sha256_text
from tasks.core.errors import BuildError, MissingToolError
from tasks.stages.deps import hostcompilers, toolkit
from tasks.system import files, space
from tasks.system.hardware import compilers, toolchain, vcvars
from tasks.system.hardware.packagemanager import installing
from tasks.system.python import environments, pythons
from tasks.system.python.packages import Packages
from tasks.system.voice import warn
from tasks.wheels.files import requirements


def run(job: DepsJob) -> tuple[Deps, Cache, Stamps]:
    """Compilers first: what is missing there is known in a second, before anything is
    downloaded.
    """
    cc, cxx, msvc = hostcompilers.find(job)
    git = _git(job)
    hostcompilers.require_blas(job, cxx)
    found = cache.find(job)
    space.require_some(job.venv, "the build environment")
    python = _environment(job)
    if job.compiles:
        hostcompilers.require_headers(python)
    cuda = toolkit.make(job, python)
    scripts = _scripts(job)
    deps = Deps(
        python=python,
        python_version=pythons.interpreter(python).version,
        identity=_identity(job),
        overlay=str(job.overlay) if job.existing else None,
        scripts=str(scripts),
        toolkit=cuda,
        cuobjdump=toolkit.find_cuobjdump(job, python, cuda) if job.with_cuda else None,
        cc=_known(cc),
        cxx=_known(cxx),
        cmake=_tool(scripts, "cmake"),
        ninja=_tool(scripts, "ninja"),
        git=git,
        msvc=msvc,
    )
    used = found or cache.install(job, python, scripts)
    return deps, used, _stamps(deps, used)


def _known(compiler: Program) -> Program:
    return replace(compiler, digest=toolchain.digest(compiler.path))


def _stamps(deps: Deps, used: Cache) -> Stamps:
    nvcc = [toolchain.nvcc(deps.toolkit.home)] if deps.toolkit else []
    sdk = vcvars.sdk_header(deps.msvc)
    paths = [path for path in (deps.cc.path, deps.cxx.path, used.path, sdk, *nvcc) if path]
    return Stamps({path: toolchain.stamp(path) for path in paths})


def _git(job: DepsJob) -> Program | None:
    found = compilers.program("git")
    if not found and job.git_needed:
        raise MissingToolError(f"git is needed {job.git_needed}", todo=installing("git"))
    return found


def _environment(job: DepsJob) -> str:
    """The interpreter to install into, with the tools beside it."""
    uv = environments.find_uv()
    if uv is None:
        warn("uv cannot run here; pip does its work, more slowly")
    if job.existing:
        files.own(job.overlay)
        Packages(job.base, uv, job.log, job.overlay).install_locked(job.locked)
        missing = _missing(job)
        if missing:
            Packages(job.base, uv, job.log, job.overlay).install(
                missing, what="install the build tools"
            )
        return job.base
    _make_venv(job, uv)
    python = str(environments.python_of(job.venv))
    into = Packages(python, uv, job.log)
    into.install_locked(job.locked)
    into.install([*job.tools, *job.toolkit_packages], what="install the build tools")
    return python


def _make_venv(job: DepsJob, uv: str | None) -> None:
    """A venv of another Python or toolkit is made anew; one of the same is filled up.

    What another toolkit left behind (its libraries, the torch that was linked with them) would be
    found beside the new one.
    """
    wanted = pythons.interpreter(job.base).version
    made_for = sha256_text(canonical(job.toolkit_packages))
    python = environments.python_of(job.venv)
    try:
        usable = python.exists() and pythons.interpreter(str(python)).version == wanted
    except BuildError:
        usable = False
    if usable and _identity_lines(job)[1:] == [made_for]:
        return
    files.remove_owned(job.venv)
    environments.create_venv(job.venv, job.base, uv, job.log)
    files.write_atomic(_identity_file(job), f"{secrets.token_hex(8)}\n{made_for}\n")


def _identity_file(job: DepsJob) -> Path:
    return Path(job.overlay if job.existing else job.venv) / "torchyard-identity"


def _identity(job: DepsJob) -> str:
    """Written once into a new environment; an existing interpreter is known by its path."""
    return job.base if job.existing else _identity_lines(job)[0]


def _identity_lines(job: DepsJob) -> list[str]:
    file = _identity_file(job)
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []


def _missing(job: DepsJob) -> list[str]:
    """The tools that neither the existing interpreter nor the overlay has in the wanted version."""
    have = requirements.installed(job.base, job.overlay)
    return list(requirements.lacking(job.tools, have))


def _scripts(job: DepsJob) -> Path:
    """Beside an existing interpreter it is `bin`, on Windows too: pip takes the scheme posix_home
    for --target, and uv joins that name.
    """
    folder = environments.scripts_folder(job.venv)
    return Path(job.overlay) / "bin" if job.existing else folder


def _tool(scripts: Path, name: str) -> Program:
    own = environments.program_in(scripts, name)
    found = compilers.program(str(own)) or compilers.program(name)
    if not found:
        raise MissingToolError(f"{name} is not there after it was installed", where=str(scripts))
    return found
