"""A built wheel into the environment, and imported there; or else the one before it again.

Over the last install of ours only what changed is written. Wherever that install may not be as it
was left, or a file is not all that an installer would change, uv or pip does its whole work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.core.digest import canonical
from tasks.core.errors import BadArtifactError
from tasks.core.model import Artifact
from tasks.stages.wheel import imported, installed, lastgood
from tasks.stages.wheel.job import BuiltJob
from tasks.stages.wheel.lastgood import Content
from tasks.stages.wheel.made import invocation
from tasks.system import files, manifests
from tasks.system.python import environments
from tasks.system.python.packages import Extra, Packages
from tasks.system.voice import say, tick
from tasks.wheels.files import distribution, renewal, wheelhouse
from tasks.wheels.files.renewal import Renewal
from tasks.wheels.provenance.made import Made
from tasks.wheels.provenance.statement import statement


@dataclass(frozen=True)
class Fresh:
    """A wheel that was just made: `content` is the digest of what would be installed."""

    wheel: Path
    content: str
    made: Made
    began: str


def install(job: BuiltJob, deps: Deps, fresh: Fresh, before: Content | None) -> Artifact:
    """Only a wheel that imports goes where other profiles, and other people, take wheels from. One
    that does not gives way to the one before it.
    """
    manifests.withdraw(job.content, job.libraries)
    site = environments.site_packages(deps.python)
    try:
        _install(job, deps, fresh.wheel, site, before)
    except BadArtifactError:
        if before:
            _whole(job, deps, lastgood.wheel_of(job, before))
            record = distribution.record_digest(site, "torch")
            manifests.publish(job.content, replace(before, record=record))
            say(f"installed again instead: {before.artifact.name}")
        raise
    kept, artifact = wheelhouse.keep(
        fresh.wheel, job.wheelhouse, f"torch {job.release} as built", str(job.compiled)
    )
    told = statement(fresh.made, artifact, invocation(job, deps, fresh.began))
    files.write_atomic(wheelhouse.statement_of(kept), canonical(told))
    record = distribution.record_digest(site, "torch")
    good = Content(fresh.content, artifact, deps.identity, lastgood.asked(job), record)
    manifests.publish(job.content, good)
    return artifact


def _install(job: BuiltJob, deps: Deps, wheel: Path, site: Path, before: Content | None) -> None:
    tick(f"installing {wheel.name}")
    if before and before.identity == deps.identity and _renewed(job, deps, wheel, site, before):
        try:
            return _require(job, deps)
        except BadArtifactError:
            say("it does not import: installed in full, to be sure")
    _whole(job, deps, wheel)
    return _require(job, deps)


def _renewed(job: BuiltJob, deps: Deps, wheel: Path, site: Path, before: Content) -> bool:
    here = distribution.as_installed(site, "torch", before.record)
    if here is None:
        return False
    kept = lastgood.wheel_of(job, before)
    places = (Path(job.landing) / kept.name, kept)
    scratch = Path(job.landing) / "install"
    written = renewal.renew(Renewal(here, kept, places, wheel, scratch, deps.python, job.log))
    if written is not None:
        say(f"installed what changed: {written:,} file{'s' if written != 1 else ''}")
    return written is not None


def _whole(job: BuiltJob, deps: Deps, wheel: Path) -> None:
    into = Packages(deps.python, environments.find_uv(), job.log)
    into.install_wheel(wheel, Extra(deps.toolkit.pins if deps.toolkit else ()))


def _require(job: BuiltJob, deps: Deps) -> None:
    imported.require(job, deps.python, installed.torch_of(deps.python).version)
