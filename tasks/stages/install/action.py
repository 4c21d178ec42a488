"""Look, resolve, unpack, keep, exchange, import: only what imports stays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.stages.install import alone, fit, putting, wheels
from tasks.stages.install.coming import resolve_install
from tasks.stages.install.job import DistributionRecord, Installation, InstallJob
from tasks.stages.install.putting import InstallOrder
from tasks.stages.install.target import environment, interpreter
from tasks.stages.install.target.environment import TargetEnvironment
from tasks.stages.install.target.resolving import Installer
from tasks.stages.install.transaction import interrupted, journal
from tasks.stages.install.transaction.journal import InstallRecord
from tasks.stages.install.transaction.turn import lock_environment
from tasks.stages.install.wheels import SelectedWheel
from tasks.system import manifests
from tasks.system.python import environments
from tasks.system.voice import print_line, print_warning, show_progress


def run(job: InstallJob) -> tuple[Installation]:
    """Leave what was built in a person's environment, or that environment as it was."""
    interrupted.recover_installs(job.replaced)
    chosen = wheels.select_wheels(job)
    python = interpreter.find_interpreter(job.into, job.root)
    if interpreter.is_program_name(job.into):
        print_line(f"{job.into} on PATH is {python}")
    show_progress(f"asking {python} what it has")
    target = environment.query_environment(python)
    fit.require_compatible_target(target, chosen)
    with lock_environment(job.builds, target.prefix):
        return (_install_wheels(job, target, chosen),)


def _install_wheels(
    job: InstallJob, target: TargetEnvironment, chosen: Sequence[SelectedWheel]
) -> Installation:
    alone.require_sole_profile(job, target)
    stamp = journal.find_stamp(job.replaced, target.prefix, target.sites)
    held = journal.read_record(stamp) if stamp else None
    by = _build_installer(job, target)
    what = resolve_install(by, target, chosen, held)
    if what:
        for told in fit.list_install_warnings(target, what):
            print_warning(told)
        new_or_old = stamp or Path(job.replaced) / interrupted.create_timestamp()
        held = putting.apply_install(InstallOrder(job, target, by, chosen, what, new_or_old))
    elif held:
        print_line(f"all of it lies in {target.prefix} already")
    return _build_manifest(target, held)


def _build_installer(job: InstallJob, target: TargetEnvironment) -> Installer:
    deps = manifests.read_manifest(job.deps, DepsManifest)
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


def _build_manifest(target: TargetEnvironment, held: InstallRecord | None) -> Installation:
    parts = held.parts if held else {}
    return Installation(
        python=target.python,
        prefix=os.fspath(target.prefix),
        distributions=tuple(
            DistributionRecord(
                name, part.after, str(target.prefix / part.path), part.record, part.wheel
            )
            for name, part in sorted(parts.items())
        ),
    )
