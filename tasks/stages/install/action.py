"""Look, resolve, unpack, keep, exchange, import: only what imports stays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.stages.install import alone, fit, putting, wheels
from tasks.stages.install.coming import coming
from tasks.stages.install.job import Distribution, Installed, InstallJob
from tasks.stages.install.putting import Order
from tasks.stages.install.target import environment, interpreter
from tasks.stages.install.target.environment import Target
from tasks.stages.install.target.resolving import Installer
from tasks.stages.install.transaction import interrupted, journal
from tasks.stages.install.transaction.journal import Exchange
from tasks.stages.install.transaction.turn import turn
from tasks.stages.install.wheels import Chosen
from tasks.system import manifests
from tasks.system.python import environments
from tasks.system.voice import say, tick, warn


def run(job: InstallJob) -> tuple[Installed]:
    """Leave what was built in a person's environment, or that environment as it was."""
    interrupted.mend(job.replaced)
    chosen = wheels.choose(job)
    python = interpreter.find(job.into, job.root)
    if interpreter.is_name(job.into):
        say(f"{job.into} on PATH is {python}")
    tick(f"asking {python} what it has")
    target = environment.ask(python)
    fit.require(target, chosen)
    with turn(job.builds, target.prefix):
        return (_put(job, target, chosen),)


def _put(job: InstallJob, target: Target, chosen: Sequence[Chosen]) -> Installed:
    alone.require(job, target)
    stamp = journal.stamp_of(job.replaced, target.prefix, target.sites)
    held = journal.held(stamp) if stamp else None
    by = _installer(job, target)
    what = coming(by, target, chosen, held)
    if what:
        for told in fit.warnings(target, what):
            warn(told)
        new_or_old = stamp or Path(job.replaced) / interrupted.now()
        held = putting.put(Order(job, target, by, chosen, what, new_or_old))
    elif held:
        say(f"all of it lies in {target.prefix} already")
    return _manifest(target, held)


def _installer(job: InstallJob, target: Target) -> Installer:
    deps = manifests.read(job.deps, Deps)
    return Installer(
        python=target.python,
        prefix=target.prefix,
        uv=environments.find_uv(),
        pip=deps.python,
        folder=Path(job.replaced),
        log=job.log,
        index=job.index,
        constraints=deps.toolkit.pins if deps.toolkit else (),
    )


def _manifest(target: Target, held: Exchange | None) -> Installed:
    parts = held.parts if held else {}
    return Installed(
        python=target.python,
        prefix=os.fspath(target.prefix),
        distributions=tuple(
            Distribution(name, part.after, str(target.prefix / part.path), part.record, part.wheel)
            for name, part in sorted(parts.items())
        ),
    )
