"""Run the install: resolve, unpack, back up, swap, import. A failed import is rolled back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError, CommandFailedError, TorchyardError
from tasks.core.model import Command
from tasks.core.text_formatting import format_short_list
from tasks.knowledge.resource_estimates import estimate_unpacked_size
from tasks.stages.env.model import Environment
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.install import (
    install_commit_io,
    install_journal_io,
    install_swap_io,
    package_resolution_io,
    target_environment_io,
    target_files_io,
    target_interpreter_io,
)
from tasks.stages.install.install_commit_io import CommitResult
from tasks.stages.install.install_journal_io import (
    ASIDE_FOLDER,
    JOURNAL_FILE,
    PENDING_BACKUP_FOLDER,
    STAGING_FOLDER,
    InstallRecord,
    PendingInstall,
)
from tasks.stages.install.model import DistributionRecord, Installation, InstallJob
from tasks.stages.install.package_resolution_io import Installer, SelectedWheel
from tasks.stages.install.target_environment_io import TargetEnvironment
from tasks.stages.install.target_files_io import StagedPackages
from tasks.stages.wheel.model import Wheel
from tasks.system import environments, files, manifests, shell
from tasks.system.environments import ImportResult
from tasks.system.files import find_existing_ancestor
from tasks.system.output import print_line, print_warning, show_progress
from tasks.system.profile_hint import format_profile_argument

_BYTES_PER_MIB = 2**20


def estimate_unpacked_mib(order: InstallOrder) -> int:
    """Estimate the unpacked MiB of the packages to install, from their wheels or costs.yaml.

    A package that the build environment has as hard links to uv's cache takes no extra space.
    """
    sizes = {one.name: one.size // _BYTES_PER_MIB for one in order.chosen}
    site = Path(manifests.read_manifest(order.job.wheel, Wheel).folder).parent
    can_link = bool(order.installer.uv) and is_same_disk(site, order.stamp)
    total = 0
    for name, version in order.versions.items():
        metadata = site / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        if not (can_link and metadata.is_file() and metadata.stat().st_nlink > 1):
            total += sizes.get(name, estimate_unpacked_size(name, order.job.sizes))
    return total


def is_same_disk(one: Path, other: Path) -> bool:
    """Return True if both paths are on one disk. A missing path counts as its nearest parent."""
    return find_existing_ancestor(one).stat().st_dev == find_existing_ancestor(other).stat().st_dev


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
    """Import torch and the extensions. Raises `BadArtifactError` on failure or for another torch.

    An import that fails only because there is no GPU driver is a warning.
    """
    show_progress(f"importing torch with {target.python}")
    manifest = manifests.read_manifest(job.environment, Environment)
    names = ["torch"]
    for path in job.extensions.values():
        if Path(path).is_file() or not job.partial:
            built = manifests.read_manifest(path, BuiltExtension)
            names += built.imports if built.artifact else ()
    env = manifest.build_child_environment(shell.build_host_env())
    env = {name: value for name, value in env.items() if name != "VIRTUAL_ENV"}  # of the build
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
            print_line(f"the import needs {name}={paths}: set it in this environment, too")


def _check_import_failures(
    target: TargetEnvironment, lines: Sequence[str], error: CommandFailedError
) -> None:
    """Raise `BadArtifactError` for the first failed import. A missing GPU driver is a warning."""
    begins = [number for number, line in enumerate(lines) if line.startswith("importing ")]
    ends = [*begins[1:], len(lines)]
    outputs = [lines[begin:end] for begin, end in zip(begins, ends, strict=False)]
    tried = [(output[0].partition(" ")[2], output) for output in outputs]
    failed = [(name, output) for name, output in tried if f"imported {name}" not in output]
    # If no import failed, Python crashed at exit: report the last import, or torch if none began
    for name, output in failed or tried[-1:] or [("torch", lines)]:
        problem = environments.find_raised_exception(output) or error.message
        if not ImportResult(tuple(output), problem, error).needs_driver:
            raise BadArtifactError(
                f"{name} does not import in {target.python}: {problem}; the previous packages were "
                "restored",
                location=error.location,
                hint="read the whole traceback in this log",
            ) from error
        print_warning(f"{name} was installed, but its import needs a GPU driver: {problem}")


@dataclass(frozen=True)
class InstallOrder:
    """The arguments of an install: `chosen` wheels, `versions` by name, `stamp` for backups."""

    job: InstallJob
    target: TargetEnvironment
    installer: Installer
    chosen: Sequence[SelectedWheel]
    versions: Mapping[str, str]
    stamp: Path


def apply_install(order: InstallOrder) -> InstallRecord:
    """Install and return the record. Any failure restores the previous packages."""
    stamp = order.stamp
    try:
        staging = _unpack_packages(order)
        digests = {one.name: one.sha256 for one in order.chosen}
        now = install_commit_io.create_timestamp()
        exchange = install_swap_io.back_up_files(stamp, order.target, staging, digests, now)
        pending = PendingInstall("installing", exchange)
        manifests.write_manifest(stamp / JOURNAL_FILE, pending)
    except BaseException:
        install_commit_io.discard_pending(stamp)  # the environment is unchanged
        raise
    try:
        install_swap_io.swap_files(exchange, stamp / STAGING_FOLDER)
        _require_expected_packages(order)
        # The wheel's file name may lack the local part of torch.__version__ (PyPI: 2.15.0+cu132)
        torch = manifests.read_manifest(order.job.wheel, Wheel)
        require_imports(order.job, order.target, torch.version)
    except BaseException:
        show_progress("restoring the previous packages")
        install_commit_io.restore_backup(stamp, PENDING_BACKUP_FOLDER, exchange)
        install_commit_io.discard_pending(stamp)
        raise
    _report_install(order, exchange, install_commit_io.commit_install(stamp, exchange))
    return install_journal_io.read_record(stamp) or exchange


def _unpack_packages(order: InstallOrder) -> StagedPackages:
    chosen = {one.name: one for one in order.chosen if one.name in order.versions}
    build = Path(order.job.replaced).parent
    need, prefix = estimate_unpacked_mib(order), order.target.prefix
    location = _describe_location(order, build)
    files.require_disk_space(build, need, f"unpacking the packages for {prefix}", location)
    wheels = ", ".join(one.path.name for one in chosen.values())
    show_progress(f"unpacking {wheels or 'the required packages'}")
    staged = order.stamp / STAGING_FOLDER
    target_files_io.prepare_staging(staged, order.target.list_links())
    pins = [f"{name}=={order.versions[name]}" for name in order.versions if name not in chosen]
    paths = [str(one.path) for one in chosen.values()]
    package_resolution_io.unpack_wheels(order.installer, staged, [*paths, *pins])
    staging = target_files_io.read_staging(staged, order.target.sites)
    package_resolution_io.require_versions(staging.versions, order.versions, order.installer.log)
    # On the same disk, files are hard links and take no extra space
    if not is_same_disk(prefix, order.stamp):
        need = sum(placed.size for placed in staging.placed.values()) // _BYTES_PER_MIB + 1
        location = _describe_location(order, prefix)
        files.require_disk_space(prefix, need, "the install", location)
    return staging


def _require_expected_packages(order: InstallOrder) -> None:
    current = target_environment_io.query_environment(Path(order.target.python))
    if diffs := package_resolution_io.compare_installed(order.target, current, order.versions):
        raise BadArtifactError(
            f"the installed packages are not the expected ones: {'; '.join(diffs)}; the previous "
            "packages were restored",
            location=order.target.python,
            hint="stop other installs into this environment, then run the same command again",
        )


def _describe_location(order: InstallOrder, folder: Path) -> str:
    """Return `install.into: VALUE`, after `folder` if that is on another disk."""
    location = f"install.into: {order.job.into}"
    is_same = folder == order.target.prefix or is_same_disk(folder, order.target.prefix)
    return location if is_same else f"{folder}, for {location}"


def _report_install(order: InstallOrder, new: InstallRecord, commit: CommitResult) -> None:
    for name, part in new.parts.items():
        if part.wheel:
            print_line(f"{name} {f'{part.before} → ' if part.before else ''}{part.after}")
    others = sorted(f"{name} {part.after}" for name, part in new.parts.items() if not part.wheel)
    if others:
        print_line(f"and the required packages: {', '.join(others)}")
    profile = format_profile_argument(order.job.profile)
    print_line(f"the replaced files are backed up; to restore them: doit restore --yes{profile}")
    aside = order.stamp / ASIDE_FOLDER / new.when
    if commit.edited:
        names = format_short_list(commit.edited, 3)
        print_warning(f"files that you changed after the install were moved to {aside}: {names}")
    if commit.superseded:
        print_warning(
            "another installer replaced packages after the last install; doit restore will restore "
            f"its packages. The files from before the first install were moved to {aside}"
        )


def run(job: InstallJob) -> tuple[Installation]:
    """Install the built wheels into the user's environment, or leave it unchanged."""
    install_commit_io.recover_installs(job.replaced)
    wheels = package_resolution_io.select_wheels(job)
    python = target_interpreter_io.find_interpreter(job.into, job.root)
    if target_interpreter_io.is_program_name(job.into):
        print_line(f"{job.into} on PATH is {python}")
    show_progress(f"listing the packages of {python}")
    target = target_environment_io.query_environment(python)
    package_resolution_io.require_compatible_target(target, wheels)
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

    Another profile's install is an error: only one profile can restore an environment.
    """
    for other in sorted(Path(job.builds).glob("*/replaced")):
        if other != Path(job.replaced) and (
            conflicting := install_journal_io.find_stamp(other, target.prefix, target.sites)
        ):
            name = other.parent.name
            raise TorchyardError(
                f"profile {name} already installed its torch into {target.prefix}; "
                "nothing was changed",
                location=str(conflicting),
                hint=f"run: doit restore --yes profile={name}, then run the same command again",
            )
    stamp = install_journal_io.find_stamp(job.replaced, target.prefix, target.sites)
    record = install_journal_io.read_record(stamp) if stamp else None
    deps = manifests.read_manifest(job.deps, DepsManifest)
    installer = Installer(
        python=target.python,
        prefix=target.prefix,
        uv=environments.find_uv(),
        pip=deps.python,
        folder=Path(job.replaced),
        log=job.log,
        index=job.index,
        constraints=deps.toolkit.pins if deps.toolkit else (),
    )
    versions = package_resolution_io.resolve_install(installer, target, wheels, record)
    if versions:
        for warning in package_resolution_io.list_install_warnings(target, versions):
            print_warning(warning)
        stamp = stamp or Path(job.replaced) / install_commit_io.create_timestamp()
        record = apply_install(InstallOrder(job, target, installer, wheels, versions, stamp))
    elif record:
        print_line(f"all packages are already installed in {target.prefix}")
    return record
