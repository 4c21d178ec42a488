"""What an extension asks for beside torch: to be built, or to be imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.deps_model import Deps
from tasks.core.errors import BuildError
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.variables import forced, forced_text, required
from tasks.system import files
from tasks.system.python import environments
from tasks.system.python.packages import Extra, Packages
from tasks.system.voice import tick, warn
from tasks.wheels.files import requirements

_OURS = {"torch", "triton"}  # these come from this build, and are never fetched for an extension


def provide_for_build(job: ExtensionJob, deps: Deps) -> None:
    """What its build imports (`requires`), in a folder of its own that goes before all else: others
    are built at the same time, and may want another version. Raises `FetchError` and the like:
    without it nothing can be built.
    """
    files.own(job.work)
    if job.includes:
        files.write_atomic(forced(job), forced_text(job.includes))
    folder = required(job)
    files.remove_owned(folder)
    overlay = PurePath(deps.overlay) if deps.overlay else None
    missing = _missing(job.requires, deps, overlay)
    if not missing:
        return
    tick(f"installing {', '.join(missing)}")
    into = Packages(deps.python, environments.find_uv(), job.log, folder)
    into.install_locked(job.locked_requires)
    pins = deps.toolkit.pins if deps.toolkit else ()
    options = () if job.isolated else ("--no-build-isolation",)
    into.install(
        missing, Extra(pins, options=options), f"install what the build of {job.name} imports"
    )
    if (folder / "torch").exists():
        files.remove_owned(folder)
        raise BuildError(
            f"{', '.join(missing)} brings a torch, which {job.name} would be built against",
            where=f"extensions ({job.name}).requires",
            todo="take it out of requires; what is built against this torch goes into extensions "
            "or companions, and into after",
        )


def provide_for_use(job: ExtensionJob, deps: Deps, asked: Iterable[str]) -> None:
    """What its metadata asks for: nothing into a person's own environment, which is told."""
    if deps.overlay is None:
        Packages(deps.python, environments.find_uv(), job.log).install_locked(job.locked)
    missing = _missing(asked, deps, None)
    if not missing:
        return
    named = ", ".join(missing)
    if deps.overlay is not None:
        warn(f"{job.name} asks for {named}, which {deps.python} lacks")
        return
    tick(f"installing {named}")
    into = Packages(deps.python, environments.find_uv(), job.log)
    try:
        into.install(missing, _as_it_is(deps), f"install what {job.name} asks for")
    except BuildError as error:  # an old pin perhaps, without which it works
        warn(f"{job.name} asks for {named}, which was not to be had: {error.what}")


def _missing(asked: Iterable[str], deps: Deps, beside: PurePath | None) -> tuple[str, ...]:
    others = tuple(_of_others(asked))
    have = requirements.installed(deps.python, beside) if others else {}
    return requirements.lacking(others, have)


def _of_others(asked: Iterable[str]) -> Iterator[str]:
    return (one for one in asked if canonicalize_name(Requirement(one).name) not in _OURS)


def _as_it_is(deps: Deps) -> Extra:
    """Nothing that is there moves: torch, the toolkit, and what another is just built with."""
    have = requirements.installed(deps.python)
    return Extra(tuple(f"{name}=={version}" for name, version in sorted(have.items())))
