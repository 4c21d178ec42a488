"""A built wheel into the environment, and imported there; or else the one before it again.

Over the last install of ours only what changed is written. Wherever that install may not be as it
was left, or a file is not all that an installer would change, uv or pip does its whole work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.core.digest import format_canonical_json
from tasks.core.errors import BadArtifactError
from tasks.core.model import Artifact
from tasks.stages.wheel import imported, installed, lastgood
from tasks.stages.wheel.job import BuiltJob
from tasks.stages.wheel.lastgood import LastWheel
from tasks.stages.wheel.made import build_invocation
from tasks.system import files, manifests
from tasks.system.python import environments
from tasks.system.python.packages import InstallOptions, PackageInstaller
from tasks.system.voice import print_line, show_progress
from tasks.wheels.files import distribution, renewal, wheelhouse
from tasks.wheels.files.renewal import WheelUpdate
from tasks.wheels.provenance.made import BuildInputs
from tasks.wheels.provenance.statement import build_statement


@dataclass(frozen=True)
class NewWheel:
    """A wheel that was just made: `content` is the digest of what would be installed."""

    wheel: Path
    content: str
    build_inputs: BuildInputs
    began: str


def install_new_wheel(
    job: BuiltJob, deps: DepsManifest, fresh: NewWheel, before: LastWheel | None
) -> Artifact:
    """Only a wheel that imports goes where other profiles, and other people, take wheels from. One
    that does not gives way to the one before it.
    """
    manifests.remove_manifests(job.content, job.libraries)
    site = environments.find_site_packages(deps.python)
    try:
        _install_and_import(job, deps, fresh.wheel, site, before)
    except BadArtifactError:
        if before:
            _install_full_wheel(job, deps, lastgood.locate_last_wheel(job, before))
            record = distribution.hash_installed_record(site, "torch")
            manifests.write_manifest(job.content, replace(before, record=record))
            print_line(f"installed again instead: {before.artifact.name}")
        raise
    kept, artifact = wheelhouse.store_wheel(
        fresh.wheel, job.wheelhouse, f"torch {job.release} as built", str(job.compiled)
    )
    told = build_statement(fresh.build_inputs, artifact, build_invocation(job, deps, fresh.began))
    files.write_atomic(wheelhouse.resolve_statement_path(kept), format_canonical_json(told))
    record = distribution.hash_installed_record(site, "torch")
    good = LastWheel(
        fresh.content, artifact, deps.identity, lastgood.format_base_version(job), record
    )
    manifests.write_manifest(job.content, good)
    return artifact


def _install_and_import(
    job: BuiltJob, deps: DepsManifest, wheel: Path, site: Path, before: LastWheel | None
) -> None:
    show_progress(f"installing {wheel.name}")
    if (
        before
        and before.identity == deps.identity
        and _install_changed_files(job, deps, wheel, site, before)
    ):
        try:
            return _require_import(job, deps)
        except BadArtifactError:
            print_line("it does not import: installed in full, to be sure")
    _install_full_wheel(job, deps, wheel)
    return _require_import(job, deps)


def _install_changed_files(
    job: BuiltJob, deps: DepsManifest, wheel: Path, site: Path, before: LastWheel
) -> bool:
    here = distribution.find_unmodified_wheel(site, "torch", before.record)
    if here is None:
        return False
    kept = lastgood.locate_last_wheel(job, before)
    places = (Path(job.landing) / kept.name, kept)
    scratch = Path(job.landing) / "install"
    written = renewal.update_installed_wheel(
        WheelUpdate(here, kept, places, wheel, scratch, deps.python, job.log)
    )
    if written is not None:
        print_line(f"installed what changed: {written:,} file{'s' if written != 1 else ''}")
    return written is not None


def _install_full_wheel(job: BuiltJob, deps: DepsManifest, wheel: Path) -> None:
    into = PackageInstaller(deps.python, environments.find_uv(), job.log)
    into.install_wheel(wheel, InstallOptions(deps.toolkit.pins if deps.toolkit else ()))


def _require_import(job: BuiltJob, deps: DepsManifest) -> None:
    imported.require_torch_import(
        job, deps.python, installed.find_installed_torch(deps.python).version
    )
