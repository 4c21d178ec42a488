"""Run the install: resolve, unpack, back up, swap, import. A failed import is rolled back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError, CommandFailedError, TorchyardError
from tasks.core.model import Command
from tasks.core.text_formatting import format_short_list
from tasks.knowledge.resource_estimates import estimate_unpacked_size
from tasks.stages.env.model import Environment
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.install import install_commit_io, target_environment_io, target_interpreter_io
from tasks.stages.install import install_journal_io as journal
from tasks.stages.install import package_resolution_io as resolution
from tasks.stages.install.install_commit_io import CommitResult
from tasks.stages.install.install_journal_io import STAGING_FOLDER, InstallRecord
from tasks.stages.install.model import DistributionRecord, Installation, InstallJob
from tasks.stages.install.package_resolution_io import Installer, SelectedWheel
from tasks.stages.install.target_environment_io import StagedPackages, TargetEnvironment
from tasks.stages.wheel.model import Wheel
from tasks.system import environments, files, manifests, shell
from tasks.system.environments import ImportResult
from tasks.system.invocation import format_profile_argument
from tasks.system.output import print_line, print_warning, show_progress

_BYTES_PER_MIB = 2**20


@dataclass(frozen=True)
class InstallOrder:
    """An install of the packages in `versions` (name → version).

    `chosen` are the wheels that the profile built. `stamp` is the folder for backups.
    """

    installer: Installer
    chosen: Sequence[SelectedWheel]
    versions: Mapping[str, str]
    stamp: Path


def estimate_unpacked_mib(order: InstallOrder) -> int:
    """Estimate the MiB that the unpacked packages of an install need on the disk.

    The size of a built wheel is known, other sizes are in costs.yaml. Packages that uv can
    hard-link from its cache count as 0.
    """
    sizes = {one.name: one.size // _BYTES_PER_MIB for one in order.chosen}
    site = Path(manifests.read_manifest(order.installer.job.wheel, Wheel).folder).parent
    can_link = bool(order.installer.uv) and is_same_disk(site, order.stamp)
    total = 0
    for name, version in order.versions.items():
        metadata = site / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        if not (can_link and metadata.is_file() and metadata.stat().st_nlink > 1):
            total += sizes.get(name, estimate_unpacked_size(name, order.installer.job.sizes))
    return total


def is_same_disk(one: Path, other: Path) -> bool:
    """Return True if both paths are on one disk. A missing path counts as its nearest parent."""
    return len({files.find_existing_ancestor(path).stat().st_dev for path in (one, other)}) == 1


_IMPORT_CODE = """
import importlib, sys, traceback
failed = 0
for name in {names!r}:
    print("importing", name, flush=True)
    try:
        found = importlib.import_module(name)
    except BaseException:
        traceback.print_exc()
        failed = 1
        if name == "torch":
            break
        continue
    if name == "torch":
        print("torch is", found.__version__, "in", found.__file__, flush=True)
    print("imported", name, flush=True)
sys.exit(failed)
"""


def require_imports(job: InstallJob, target: TargetEnvironment, version: str) -> None:
    """Import torch and the extensions. Raises `BadArtifactError` on failure or a wrong version.

    An import that fails only because there is no GPU driver causes a warning instead.
    """
    show_progress(f"importing torch with {target.python}")
    manifest = manifests.read_manifest(job.environment, Environment)
    names = ["torch"]
    for path in job.extensions.values():
        if Path(path).is_file() or not job.partial:
            built = manifests.read_manifest(path, BuiltExtension)
            names += built.imports if built.artifact else ()
    env = manifest.build_child_environment(shell.build_host_env())
    # VIRTUAL_ENV is the build environment, not the one to test
    env = {name: value for name, value in env.items() if name != "VIRTUAL_ENV"}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    # Run in a folder without modules: a source tree contains a torch package
    command = Command((), env, "import torch", cwd=job.replaced, log=job.log)
    result = environments.try_import(target.python, _IMPORT_CODE.format(names=names), command)
    torch_line = next((line for line in result.lines if line.startswith("torch is ")), "")
    actual, _, place = torch_line.removeprefix("torch is ").partition(" in ")
    is_expected = actual == version and Path(place).resolve().is_relative_to(target.prefix)
    if not is_expected and (torch_line or not result.error):
        raise BadArtifactError(
            f"torch {version} was installed, but {target.python} imports torch {actual or '?'} "
            f"from {place or 'an unknown folder'}; the previous packages were restored",
            location=str(job.log),
            hint="remove the other torch, or the setting that adds its folder to sys.path",
        )
    if result.error:
        _check_import_failures(target, result.lines, result.error)
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        if name in manifest.prepend:
            paths = ":".join(manifest.prepend[name])
            print_line(f"torch needs {name}={paths}: set it in the shell that starts your programs")


def _check_import_failures(
    target: TargetEnvironment, lines: Sequence[str], error: CommandFailedError
) -> None:
    """Raise `BadArtifactError` for a failed import; if only the GPU driver is missing, warn."""
    begins = [number for number, line in enumerate(lines) if line.startswith("importing ")]
    outputs = [lines[begin:end] for begin, end in pairwise([*begins, len(lines)])]
    tried = [(output[0].removeprefix("importing "), output) for output in outputs]
    failed = [(name, output) for name, output in tried if f"imported {name}" not in output]
    # If no import failed, Python crashed at exit: report the last import, or torch if none began
    for name, output in failed or tried[-1:] or [("torch", lines)]:
        problem = environments.find_raised_exception(output) or error.message
        if not ImportResult(tuple(output), problem, error).needs_driver:
            failure = f"{name} does not import in {target.python}: {problem}"
            message = f"{failure}; the previous packages were restored"
            hint = "read the whole traceback in this log"
            raise BadArtifactError(message, location=error.location, hint=hint) from error
        print_warning(f"{name} was installed, but its import needs a GPU driver: {problem}")


def apply_install(order: InstallOrder) -> InstallRecord:
    """Install the packages and return the record. After a failure, restore the old packages."""
    stamp, job, target = order.stamp, order.installer.job, order.installer.target
    try:
        staging = _unpack_packages(order)
        digests = {one.name: one.sha256 for one in order.chosen}
        now = install_commit_io.create_timestamp()
        exchange = install_commit_io.back_up_files(stamp, target, staging, digests, now)
        pending = journal.PendingInstall("installing", exchange)
        manifests.write_manifest(stamp / journal.JOURNAL_FILE, pending)
    except BaseException:
        install_commit_io.discard_pending(stamp)  # the environment is unchanged
        raise
    try:
        install_commit_io.swap_files(exchange, stamp / STAGING_FOLDER)
        current = target_environment_io.query_environment(Path(target.python))
        resolution.require_expected_packages(target, current, order.versions)
        # The wheel's file name may lack the local part of torch.__version__ (PyPI: 2.15.0+cu132)
        require_imports(job, target, manifests.read_manifest(job.wheel, Wheel).version)
    except BaseException:
        show_progress("restoring the previous packages")
        install_commit_io.restore_backup(stamp, journal.PENDING_BACKUP_FOLDER, exchange)
        install_commit_io.discard_pending(stamp)
        raise
    _report_install(order, exchange, install_commit_io.commit_install(stamp, exchange))
    return journal.read_record(stamp) or exchange


def _unpack_packages(order: InstallOrder) -> StagedPackages:
    chosen = {one.name: one for one in order.chosen if one.name in order.versions}
    job, target = order.installer.job, order.installer.target
    build, prefix = Path(job.replaced).parent, target.prefix
    step, location = f"unpacking the packages for {prefix}", _describe_location(order, build)
    files.require_disk_space(build, estimate_unpacked_mib(order), step, location)
    wheels = ", ".join(one.path.name for one in chosen.values())
    show_progress(f"unpacking {wheels or 'the required packages'}")
    staged = order.stamp / STAGING_FOLDER
    target_environment_io.prepare_staging(staged, target.list_links())
    pins = [f"{name}=={order.versions[name]}" for name in order.versions if name not in chosen]
    paths = [str(one.path) for one in chosen.values()]
    order.installer.unpack_wheels(staged, [*paths, *pins])
    staging = target_environment_io.read_staging(staged, target.sites)
    if staging.versions != dict(order.versions):
        resolved, unpacked = (
            ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) or "none"
            for versions in (order.versions, staging.versions)
        )
        message = f"the installer resolved {resolved}, but unpacked {unpacked}; nothing was changed"
        raise TorchyardError(message, location=str(job.log))
    # On the same disk, files are hard links and take no extra space
    if not is_same_disk(prefix, order.stamp):
        need = sum(placed.size for placed in staging.placed.values()) // _BYTES_PER_MIB + 1
        files.require_disk_space(prefix, need, "the install", _describe_location(order, prefix))
    return staging


def _describe_location(order: InstallOrder, folder: Path) -> str:
    """Return `install.into: VALUE`, after the name of `folder` if that is on another disk."""
    location, prefix = f"install.into: {order.installer.job.into}", order.installer.target.prefix
    is_same = folder == prefix or is_same_disk(folder, prefix)
    return location if is_same else f"{folder}, for {location}"


def _report_install(order: InstallOrder, new: InstallRecord, commit: CommitResult) -> None:
    for name, part in new.parts.items():
        if part.wheel:
            print_line(f"{name} {f'{part.before} → ' if part.before else ''}{part.after}")
    others = sorted(f"{name} {part.after}" for name, part in new.parts.items() if not part.wheel)
    if others:
        print_line(f"and the required packages: {', '.join(others)}")
    profile = format_profile_argument(order.installer.job.profile)
    print_line(f"the replaced files are backed up; to restore them: doit restore --yes{profile}")
    aside = order.stamp / journal.ASIDE_FOLDER / new.when
    if commit.edited:
        names = format_short_list(commit.edited, 3)
        print_warning(f"files that you changed after the install were moved to {aside}: {names}")
    if commit.superseded:
        print_warning(
            f"another installer replaced packages in {new.prefix} after the last install; doit "
            "restore will bring back the packages of that installer. The files from before the "
            f"first install were moved to {aside}"
        )


def run(job: InstallJob) -> tuple[Installation]:
    """Install the built wheels into the user's environment, or leave it unchanged."""
    install_commit_io.recover_installs(job.replaced)
    wheels = resolution.select_wheels(job)
    python = target_interpreter_io.find_interpreter(job.into, job.root)
    if target_interpreter_io.is_program_name(job.into):
        print_line(f"{job.into} on PATH is {python}")
    show_progress(f"listing the packages of {python}")
    target = target_environment_io.query_environment(python)
    resolution.require_compatible_target(target, wheels)
    with install_commit_io.lock_environment(job.builds, target.prefix):
        record = _install_wheels(job, target, wheels)
    prefix = target.prefix
    distributions = tuple(
        DistributionRecord(name, part.after, str(prefix / part.path), part.record, part.wheel)
        for name, part in sorted(record.parts.items() if record else ())
    )
    return (Installation(target.python, str(prefix), distributions),)


def _install_wheels(
    job: InstallJob, target: TargetEnvironment, wheels: Sequence[SelectedWheel]
) -> InstallRecord | None:
    """Install the wheels that are not installed yet, and return the record of all installs.

    Raises `TorchyardError` if another profile has installed torch into this environment.
    """
    for other in sorted(Path(job.builds).glob("*/replaced")):
        if other != Path(job.replaced) and (
            conflicting := journal.find_stamp(other, target.prefix, target.sites)
        ):
            name = other.parent.name
            message = f"profile {name} already installed its torch into {target.prefix}"
            hint = f"run: doit restore --yes profile={name}, then run the same command again"
            raise target_interpreter_io.build_refusal(message, conflicting, hint)
    stamp = journal.find_stamp(job.replaced, target.prefix, target.sites)
    record = journal.read_record(stamp) if stamp else None
    deps = manifests.read_manifest(job.deps, DepsManifest)
    pins = deps.toolkit.pins if deps.toolkit else ()
    installer = Installer(job, target, environments.find_uv(), deps.python, pins)
    versions = resolution.resolve_install(installer, wheels, record)
    if versions:
        for warning in resolution.list_install_warnings(target, versions):
            print_warning(warning)
        stamp = stamp or Path(job.replaced) / install_commit_io.create_timestamp()
        record = apply_install(InstallOrder(installer, wheels, versions, stamp))
    elif record:
        print_line(f"all packages are already installed in {target.prefix}")
    return record
