"""Fetch, build against the torch that was just installed, read the machine code, then install."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tasks.effects import environments, files, git, manifests, wheelfile, wheelhouse
from tasks.effects.packages import Extra, Packages
from tasks.effects.voice import say, tick, warn
from tasks.errors import redact
from tasks.stages.deps.job import Deps
from tasks.stages.extensions import sources
from tasks.stages.extensions.build import build
from tasks.stages.extensions.job import Built, ExtensionJob
from tasks.stages.extensions.proof import archs
from tasks.stages.wheel.job import Surface

_ROOM_MIB = 1_000


def run(job: ExtensionJob) -> tuple[Built]:
    """Raises the compiler's first error, or `BadArtifactError` where a target has no code."""
    if job.optional and not git.reachable(job.location):
        return (_unreachable(job),)
    deps = manifests.read(job.deps, Deps)
    files.require_space(job.work, _ROOM_MIB, f"building {job.name}")
    tick("fetching its source")
    tree, source = sources.fetch(job, deps)
    wheel = build(job, deps, tree)
    recorded = wheelfile.verify(wheel, deps.python_version)
    held = archs(job, deps, wheel, recorded)
    kept, artifact = wheelhouse.keep(wheel, _shelf(job), job.name, job.location)
    into = Packages(deps.python, environments.find_uv(), job.log)
    into.install_wheel(kept, Extra(options=("--no-deps",)))
    for name, found in held.items():
        say(f"{Path(name).name} holds {', '.join(found)}")
    installed = _installed(deps, recorded)
    return (Built(job.name, "built", source, artifact, installed, job.imports, held),)


def _unreachable(job: ExtensionJob) -> Built:
    """Said aloud each time, and tried again next time."""
    warn(f"{job.name} was NOT built: the host of {job.location} does not answer")
    say("it is optional, so the build goes on; the next doit build tries it again")
    return Built(job.name, "unreachable", {job.kind: redact(job.location)})


def _shelf(job: ExtensionJob) -> Path:
    """One for each torch surface: a rebuilt torch does not overwrite what another one needs."""
    surface = manifests.read(job.surface, Surface)
    return Path(job.wheelhouse) / f"{job.shelf}-{surface.headers[:8]}"


def _installed(deps: Deps, recorded: Mapping[str, str]) -> tuple[str, ...]:
    site = environments.site_packages(deps.python)
    return tuple(str(site / name) for name in wheelfile.libraries(recorded))
