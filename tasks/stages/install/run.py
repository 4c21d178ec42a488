"""Run the install: resolve, unpack, back up, swap, import. A failed import is rolled back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
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
from tasks.stages.install.install_commit_io import CommitResult, lock_environment
from tasks.stages.install.install_journal_io import (
    ASIDE_FOLDER,
    BACKUP_FOLDER,
    PENDING_FOLDER,
    InstallRecord,
    PendingInstall,
)
from tasks.stages.install.model import DistributionRecord, Installation, InstallJob
from tasks.stages.install.package_resolution_io import (
    Installer,
    SelectedWheel,
    Versions,
    resolve_install,
)
from tasks.stages.install.target_environment_io import TargetEnvironment
from tasks.stages.install.target_files_io import StagedPackages
from tasks.stages.wheel.model import Wheel
from tasks.system import environments, files, manifests, shell
from tasks.system.environments import ImportResult
from tasks.system.files import find_existing_ancestor
from tasks.system.output import print_line, print_warning, show_progress
from tasks.system.profile_hint import format_profile_argument

_BYTES_PER_MIB = 2**20


def require_sole_profile(job: InstallJob, target: TargetEnvironment) -> None:
    """Raise `TorchyardError` if another profile has installed, or started to, into the environment.

    Only that profile can restore what it replaced.
    """
    for other in sorted(Path(job.builds).glob("*/replaced")):
        conflicting = other != Path(job.replaced) and install_journal_io.find_stamp(
            other, target.prefix, target.sites
        )
        if conflicting:
            name = other.parent.name
            raise TorchyardError(
                f"profile {name} has put its torch into {target.prefix}; nothing was changed",
                location=str(conflicting),
                hint=f"doit restore --yes profile={name}, then run the same command again",
            )


def estimate_unpacked_mib(order: InstallOrder) -> int:
    """Return the MiB of all packages to install.

    The sizes are those of the wheels, and those in costs.yaml for packages of an index.
    """
    sizes = {one.name: one.size // _BYTES_PER_MIB for one in order.chosen}
    linked = set(_list_linked_packages(order)) if order.installer.uv else set()
    unpacked = [name for name in order.versions if name not in linked]
    return sum(sizes.get(name, estimate_unpacked_size(name, order.job.sizes)) for name in unpacked)


def is_same_disk(one: Path, other: Path) -> bool:
    """Return True if both paths are on one disk. For a missing path, its parents decide."""
    return find_existing_ancestor(one).stat().st_dev == find_existing_ancestor(other).stat().st_dev


def _list_linked_packages(order: InstallOrder) -> Iterator[str]:
    """Yield packages of the build's environment in the same version, hard-linked to uv's cache."""
    site = Path(manifests.read_manifest(order.job.wheel, Wheel).folder).parent
    if not is_same_disk(site, order.stamp):
        return
    for name, version in order.versions.items():
        metadata = site / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        if metadata.is_file() and metadata.stat().st_nlink > 1:
            yield name


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
    """Raise `BadArtifactError` if torch or an extension does not import, or another torch does.

    A module that needs the driver cannot be tested on a machine without one: that is a warning.
    """
    show_progress("importing torch there")
    manifest = manifests.read_manifest(job.environment, Environment)
    # the working directory has no modules: a source tree contains a torch package
    env = _build_import_environment(manifest.build_child_environment(shell.build_host_env()))
    command = Command((), env, "import torch", cwd=job.replaced, log=job.log)
    result = environments.try_import(
        target.python, _IMPORT_CODE.format(names=_list_modules(job)), command
    )
    if not result.error or any(line.startswith("torch is ") for line in result.lines):
        _require_installed_torch(job, target, version, result.lines)
    if result.error:
        _check_import_failures(target, result.lines, result.error)
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        if name in manifest.prepend:
            print_line(
                f"it was imported with {name}={':'.join(manifest.prepend[name])}: set it there, too"
            )


def _check_import_failures(
    target: TargetEnvironment, lines: Sequence[str], error: CommandFailedError
) -> None:
    """Report each failed import separately: a later one may be worse."""
    for name, output in _find_failed_imports(lines):
        result = ImportResult(
            tuple(output), environments.find_raised_exception(output) or error.message, error
        )
        if not result.needs_driver:
            raise BadArtifactError(
                f"{name} does not import in {target.python}: {result.problem}",
                location=error.location,
                hint="that log has the whole traceback; what was there before is back",
            ) from error
        print_warning(
            f"{name} was installed, and imports only where there is a card: {result.problem}"
        )


def _find_failed_imports(lines: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each failed import with its lines.

    If all imports succeeded, Python crashed at exit, and the last import is returned. If none was
    started, it is torch, the first one.
    """
    begins = [number for number, line in enumerate(lines) if line.startswith("importing ")]
    tried = [
        (lines[begin].partition(" ")[2], lines[begin:end])
        for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True)
    ]
    failed = [(name, output) for name, output in tried if f"imported {name}" not in output]
    yield from failed or tried[-1:] or [("torch", lines)]


def _require_installed_torch(
    job: InstallJob, target: TargetEnvironment, version: str, lines: Sequence[str]
) -> None:
    torch_line = next((line for line in lines if line.startswith("torch is ")), "")
    actual, _, place = torch_line.removeprefix("torch is ").partition(" in ")
    if actual != version or not Path(place).resolve().is_relative_to(target.prefix):
        raise BadArtifactError(
            f"torch {version} was installed, and what {target.python} imports is {actual or 'none'}"
            f"{f' in {place}' if place else ''}",
            location=str(job.log),
            hint="remove the other torch, or what leads to it; what was there before is back",
        )


def _list_modules(job: InstallJob) -> list[str]:
    return ["torch", *(name for built in _read_built_extensions(job) for name in built.imports)]


def _read_built_extensions(job: InstallJob) -> Iterator[BuiltExtension]:
    for manifest in job.extensions.values():
        if job.partial and not Path(manifest).is_file():
            continue
        built = manifests.read_manifest(manifest, BuiltExtension)
        if built.artifact:
            yield built


def _build_import_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without VIRTUAL_ENV, which names another one, and without bytecode."""
    child_env = {name: value for name, value in env.items() if name != "VIRTUAL_ENV"}
    return {**child_env, "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class InstallOrder:
    """Everything that an install needs. `stamp` is the folder of its backups."""

    job: InstallJob
    target: TargetEnvironment
    installer: Installer
    chosen: Sequence[SelectedWheel]
    versions: Versions
    stamp: Path


def apply_install(order: InstallOrder) -> InstallRecord:
    """Install and return the record. After any failure, the environment is as before."""
    stamp = order.stamp
    try:
        staging = _unpack_packages(order)
        digests = {one.name: one.sha256 for one in order.chosen}
        exchange = install_swap_io.back_up_files(
            stamp, order.target, staging, digests, install_commit_io.create_timestamp()
        )
        _require_disk_space(order, staging)
        install_journal_io.write_pending(stamp, PendingInstall("installing", exchange))
    except BaseException:
        install_commit_io.discard_pending(stamp)  # the environment is unchanged
        raise
    try:
        install_swap_io.swap_files(exchange, stamp / PENDING_FOLDER / "staged")
        _require_expected_packages(order)
        # the wheel's name may lack the local version of torch.__version__: PyPI's 2.15.0+cu132
        torch = manifests.read_manifest(order.job.wheel, Wheel)
        require_imports(order.job, order.target, torch.version)
    except BaseException:
        _undo_install(stamp, exchange)
        raise
    _report_install(order, exchange, install_commit_io.commit_install(stamp, exchange))
    return install_journal_io.read_record(stamp) or exchange


def _unpack_packages(order: InstallOrder) -> StagedPackages:
    chosen = {one.name: one for one in order.chosen if one.name in order.versions}
    others = [name for name in order.versions if name not in chosen]
    build = Path(order.job.replaced).parent
    activity = f"unpacking what is to be installed in {order.target.prefix}"
    files.require_disk_space(
        build, estimate_unpacked_mib(order), activity, _describe_location(order, build)
    )
    show_progress(
        f"unpacking {', '.join(one.path.name for one in chosen.values()) or 'what is needed'}"
    )
    staged = order.stamp / PENDING_FOLDER / "staged"
    target_files_io.prepare_staging(staged, order.target.list_links())
    pins = [f"{name}=={order.versions[name]}" for name in others]
    package_resolution_io.unpack_wheels(
        order.installer, staged, [*(str(one.path) for one in chosen.values()), *pins]
    )
    staging = target_files_io.read_staging(staged, order.target.sites)
    package_resolution_io.require_versions(staging.versions, order.versions, order.installer.log)
    return staging


def _require_disk_space(order: InstallOrder, made: StagedPackages) -> None:
    """Raise an error if the environment is on another disk that is too full.

    On the same disk, files are hard links and take no extra space.
    """
    prefix = order.target.prefix
    if not is_same_disk(prefix, order.stamp):
        need = sum(placed.size for placed in made.placed.values()) // _BYTES_PER_MIB + 1
        files.require_disk_space(
            prefix, need, "what is to be installed", _describe_location(order, prefix)
        )


def _describe_location(order: InstallOrder, folder: Path) -> str:
    """Return the environment as named in the settings, with the folder if on another disk."""
    location = f"install.into: {order.job.into}"
    is_same = folder == order.target.prefix or is_same_disk(folder, order.target.prefix)
    return location if is_same else f"{folder}, for {location}"


def _require_expected_packages(order: InstallOrder) -> None:
    current = target_environment_io.query_environment(Path(order.target.python))
    if diffs := package_resolution_io.compare_installed(order.target, current, order.versions):
        raise BadArtifactError(
            f"after the install this lies there: {'; '.join(diffs)}; what was there is put back",
            location=order.target.python,
            hint="see that nobody else installs there, then run the same command again",
        )


def _undo_install(stamp: Path, new: InstallRecord) -> None:
    """Restore the environment. It is never left half changed."""
    show_progress("putting back what was there")
    aside = stamp / ASIDE_FOLDER / install_commit_io.create_timestamp()
    install_commit_io.report_displaced_files(
        install_swap_io.restore_files(new, stamp / PENDING_FOLDER / BACKUP_FOLDER, aside),
        new.prefix,
    )
    install_commit_io.discard_pending(stamp)


def _report_install(order: InstallOrder, new: InstallRecord, settled: CommitResult) -> None:
    for text in _describe_versions(new):
        print_line(text)
    restore_command = f"doit restore --yes{format_profile_argument(order.job.profile)}"
    print_line(f"what was there before is kept; the way back: {restore_command}")
    aside = order.stamp / ASIDE_FOLDER / new.when
    if settled.edited:
        print_warning(
            "files were changed since they were put there, and are now in "
            f"{aside}: {format_short_list(settled.edited, 3)}"
        )
    if settled.superseded:
        print_warning(
            f"what was there at first was replaced by somebody else since; it is now in {aside}, "
            "and doit restore puts back what took its place"
        )


def _describe_versions(new: InstallRecord) -> Iterator[str]:
    for name, part in new.parts.items():
        if part.wheel:
            yield f"{name} {part.before} → {part.after}" if part.before else f"{name} {part.after}"
    others = [f"{name} {part.after}" for name, part in new.parts.items() if not part.wheel]
    if others:
        yield f"and what they need: {', '.join(sorted(others))}"


def run(job: InstallJob) -> tuple[Installation]:
    """Install the built wheels into the user's environment, or leave it unchanged."""
    install_commit_io.recover_installs(job.replaced)
    wheels = package_resolution_io.select_wheels(job)
    python = target_interpreter_io.find_interpreter(job.into, job.root)
    if target_interpreter_io.is_program_name(job.into):
        print_line(f"{job.into} on PATH is {python}")
    show_progress(f"asking {python} what it has")
    target = target_environment_io.query_environment(python)
    package_resolution_io.require_compatible_target(target, wheels)
    with lock_environment(job.builds, target.prefix):
        return (_install_wheels(job, target, wheels),)


def _install_wheels(
    job: InstallJob, target: TargetEnvironment, chosen: Sequence[SelectedWheel]
) -> Installation:
    require_sole_profile(job, target)
    stamp = install_journal_io.find_stamp(job.replaced, target.prefix, target.sites)
    record = install_journal_io.read_record(stamp) if stamp else None
    installer = _build_installer(job, target)
    versions = resolve_install(installer, target, chosen, record)
    if versions:
        for warning in package_resolution_io.list_install_warnings(target, versions):
            print_warning(warning)
        new_or_old = stamp or Path(job.replaced) / install_commit_io.create_timestamp()
        record = apply_install(InstallOrder(job, target, installer, chosen, versions, new_or_old))
    elif record:
        print_line(f"all of it lies in {target.prefix} already")
    return _build_manifest(target, record)


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
