"""What was last installed, and imported, of what was built here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tasks.core.canonical_json import format_canonical_json
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError, TorchyardError
from tasks.core.model import Artifact, Command, InstalledTorch
from tasks.stages.env.model import Environment
from tasks.stages.wheel.model import BuiltJob
from tasks.stages.wheel.wheel_packing_io import build_invocation
from tasks.system import environments, files, interpreters, manifests, shell
from tasks.system.output import print_line, print_warning, show_progress
from tasks.system.package_installer import InstallOptions, PackageInstaller
from tasks.wheels import incremental_install_io, installed_wheel_io, wheelhouse_io
from tasks.wheels.build_inputs import BuildInputs
from tasks.wheels.incremental_install_io import WheelUpdate
from tasks.wheels.provenance_documents import build_statement


@dataclass(frozen=True)
class LastWheel:
    """The digest of the wheel's content without its version, and the wheel that has it. `asked` is
    its version without the commit, `record` the sha256 of RECORD as it was left installed.
    """

    digest: str
    artifact: Artifact
    identity: str
    asked: str = ""
    record: str = ""


def read_last_wheel(job: BuiltJob) -> LastWheel | None:
    """What was installed before, where its wheel is still what it was."""
    try:
        last = manifests.read_manifest(job.content, LastWheel)
    except TorchyardError:
        return None
    place = locate_last_wheel(job, last)
    return last if place.is_file() and files.read_artifact(place) == last.artifact else None


def locate_last_wheel(job: BuiltJob, content: LastWheel) -> Path:
    """Where it is kept."""
    return Path(job.wheelhouse) / content.artifact.name


def format_base_version(job: BuiltJob) -> str:
    """Release and local version, without the commit."""
    return f"{job.release}+{job.local}"


def find_installed_torch(python: str) -> InstalledTorch:
    """The torch that an interpreter would import."""
    found = interpreters.find_interpreter(python).torch
    if found is None:
        raise BadArtifactError(
            "torch is not there after it was installed",
            location=python,
            hint="doit clean wheel, then doit build",
        )
    return found


def require_release(found: InstalledTorch, release: str, cuda: str | None) -> None:
    """`BadArtifactError` where another release, or another CUDA, was installed than the plan stands
    on.
    """
    if found.version.partition("+")[0] != release:
        raise BadArtifactError(
            f"torch {found.version} was installed, and {release} was meant", location=found.folder
        )
    if found.cuda != cuda:
        raise BadArtifactError(
            f"this torch {found.version} has {_format_cuda(found.cuda)}, and "
            f"{_format_cuda(cuda)} was meant",
            location=found.folder,
            hint=f'set toolkit.version: "{found.cuda}"'
            if found.cuda
            else "choose another torch.index",
        )


def _format_cuda(cuda: str | None) -> str:
    return f"CUDA {cuda}" if cuda else "no CUDA"


_IMPORT_CODE = "import torch; print(torch.__version__)"


def require_torch_import(job: BuiltJob, python: str, version: str) -> None:
    """`BadArtifactError` where the installed torch does not import, or is not `version`.

    A torch that is linked with the driver cannot be imported where none is: that is a warning.
    """
    show_progress("importing torch")
    env = manifests.read_manifest(job.env, Environment).build_child_environment(
        shell.build_host_env()
    )
    # not in a source tree with a torch in it
    command = Command((), env, "import torch", cwd=job.landing, log=job.log)
    found = environments.try_import(python, _IMPORT_CODE, command)
    if found.needs_driver:
        print_warning(f"torch {version} was installed and NOT imported: {found.problem}")
        return
    if found.error:
        raise BadArtifactError(
            f"torch {version} was installed and does not import: {found.problem}",
            location=found.error.location,
            hint="that log has the whole traceback; once its cause is gone, run the same command "
            "again: torch is then installed and imported anew",
        ) from found.error
    if version not in found.lines:  # warnings may stand around it
        raise BadArtifactError(
            f"torch {version} was installed, and what is imported says "
            f"{' '.join(found.lines[-1:])!r}",
            location=str(job.log),
            hint="remove the other torch from this environment, then run the same command again",
        )


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
            _install_full_wheel(job, deps, locate_last_wheel(job, before))
            record = installed_wheel_io.hash_installed_record(site, "torch")
            manifests.write_manifest(job.content, replace(before, record=record))
            print_line(f"installed again instead: {before.artifact.name}")
        raise
    kept, artifact = wheelhouse_io.store_wheel(
        fresh.wheel, job.wheelhouse, f"torch {job.release} as built", str(job.compiled)
    )
    told = build_statement(fresh.build_inputs, artifact, build_invocation(job, deps, fresh.began))
    files.write_atomic(wheelhouse_io.resolve_statement_path(kept), format_canonical_json(told))
    record = installed_wheel_io.hash_installed_record(site, "torch")
    good = LastWheel(fresh.content, artifact, deps.identity, format_base_version(job), record)
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
    here = installed_wheel_io.find_unmodified_wheel(site, "torch", before.record)
    if here is None:
        return False
    kept = locate_last_wheel(job, before)
    places = (Path(job.landing) / kept.name, kept)
    scratch = Path(job.landing) / "install"
    written = incremental_install_io.update_installed_wheel(
        WheelUpdate(here, kept, places, wheel, scratch, deps.python, job.log)
    )
    if written is not None:
        print_line(f"installed what changed: {written:,} file{'s' if written != 1 else ''}")
    return written is not None


def _install_full_wheel(job: BuiltJob, deps: DepsManifest, wheel: Path) -> None:
    into = PackageInstaller(deps.python, environments.find_uv(), job.log)
    into.install_wheel(wheel, InstallOptions(deps.toolkit.pins if deps.toolkit else ()))


def _require_import(job: BuiltJob, deps: DepsManifest) -> None:
    require_torch_import(job, deps.python, find_installed_torch(deps.python).version)
