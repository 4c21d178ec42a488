"""What an extension asks for beside torch: to be built, or to be imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.effects import environments, requirements
from tasks.effects.packages import Extra, Packages
from tasks.effects.voice import tick, warn
from tasks.errors import BuildError
from tasks.stages.deps.job import Deps
from tasks.stages.extensions.job import ExtensionJob

_OURS = {"torch", "triton"}  # these come from this build, and are never fetched for an extension


def provide_for_build(job: ExtensionJob, deps: Deps) -> None:
    """What its build imports (`requires`), beside an existing interpreter where it is one. Raises
    `FetchError` and the like: without it nothing can be built.
    """
    if missing := _missing(job.requires, deps, _overlay(deps)):
        tick(f"installing {', '.join(missing)}")
        into = Packages(deps.python, environments.find_uv(), job.log, _overlay(deps))
        into.install(missing, _kept(deps), f"install what the build of {job.name} imports")


def provide_for_use(job: ExtensionJob, deps: Deps, asked: Iterable[str]) -> None:
    """What its metadata asks for: nothing into a person's own environment, which is told."""
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
        into.install(missing, _kept(deps), f"install what {job.name} asks for")
    except BuildError as error:  # an old pin perhaps, without which it works
        warn(f"{job.name} asks for {named}, which was not to be had: {error.what}")


def _missing(asked: Iterable[str], deps: Deps, beside: PurePath | None) -> tuple[str, ...]:
    others = tuple(_of_others(asked))
    have = requirements.installed(deps.python, beside) if others else {}
    return requirements.lacking(others, have)


def _of_others(asked: Iterable[str]) -> Iterator[str]:
    return (one for one in asked if canonicalize_name(Requirement(one).name) not in _OURS)


def _kept(deps: Deps) -> Extra:
    """No resolver moves torch or the toolkit."""
    have = requirements.installed(deps.python)
    torch = (f"torch=={have['torch']}",) if "torch" in have else ()
    return Extra((*torch, *(deps.toolkit.pins if deps.toolkit else ())))


def _overlay(deps: Deps) -> PurePath | None:
    return PurePath(deps.overlay) if deps.overlay else None
