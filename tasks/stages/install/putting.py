"""What is to be installed, in the place of what is there: unpacked elsewhere and kept first, then
exchanged, then imported. What does not import gives way to what was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.core.errors import BadArtifactError
from tasks.core.formatting.few import format_short_list
from tasks.stages.install import fit, imported, unpacking
from tasks.stages.install.coming import Versions
from tasks.stages.install.job import InstallJob
from tasks.stages.install.target import environment, resolving, unpacked
from tasks.stages.install.target.environment import TargetEnvironment
from tasks.stages.install.target.resolving import Installer
from tasks.stages.install.target.unpacked import StagedPackages
from tasks.stages.install.transaction import exchanging, interrupted, journal, keeping, settling
from tasks.stages.install.transaction.journal import (
    ASIDE_FOLDER,
    BACKUP_FOLDER,
    PENDING_FOLDER,
    InstallRecord,
    PendingInstall,
)
from tasks.stages.install.transaction.settling import CommitResult
from tasks.stages.install.wheels import SelectedWheel
from tasks.stages.wheel.job import Wheel
from tasks.system import manifests, space
from tasks.system.typed import format_profile_argument
from tasks.system.voice import print_line, print_warning, show_progress

_MIB = 2**20


@dataclass(frozen=True)
class InstallOrder:
    """Everything that is known by now. `stamp` is the folder for what gives way."""

    job: InstallJob
    target: TargetEnvironment
    installer: Installer
    chosen: Sequence[SelectedWheel]
    versions: Versions
    stamp: Path


def apply_install(order: InstallOrder) -> InstallRecord:
    """What lies there then. Whatever goes wrong, the environment is what it was before."""
    stamp = order.stamp
    try:
        made = _unpack_packages(order)
        digests = {one.name: one.sha256 for one in order.chosen}
        new = keeping.back_up_files(
            stamp, order.target, made, digests, interrupted.create_timestamp()
        )
        _require_disk_space(order, made)
        journal.write_pending(stamp, PendingInstall("installing", new))
    except BaseException:
        settling.discard_pending(stamp)  # nothing of theirs was touched
        raise
    try:
        exchanging.swap_files(new, stamp / PENDING_FOLDER / "staged")
        _require_expected_packages(order)
        # the wheel's name may lack the local version that torch itself says: PyPI's 2.15.0+cu132
        torch = manifests.read_manifest(order.job.wheel, Wheel)
        imported.require_imports(order.job, order.target, torch.version)
    except BaseException:
        _undo_install(stamp, new)
        raise
    _report_install(order, new, settling.commit_install(stamp, new))
    return journal.read_record(stamp) or new


def _unpack_packages(order: InstallOrder) -> StagedPackages:
    own = {one.name: one for one in order.chosen if one.name in order.versions}
    others = [name for name in order.versions if name not in own]
    build = Path(order.job.replaced).parent
    what = f"unpacking what is to be installed in {order.target.prefix}"
    space.require_disk_space(
        build, unpacking.estimate_unpacked_mib(order), what, _describe_location(order, build)
    )
    show_progress(
        f"unpacking {', '.join(one.path.name for one in own.values()) or 'what is needed'}"
    )
    staged = order.stamp / PENDING_FOLDER / "staged"
    unpacked.prepare_staging(staged, order.target.list_links())
    pins = [f"{name}=={order.versions[name]}" for name in others]
    resolving.unpack_wheels(
        order.installer, staged, [*(str(one.path) for one in own.values()), *pins]
    )
    made = unpacked.read_staging(staged, order.target.sites)
    resolving.require_versions(made.versions, order.versions, order.installer.log)
    return made


def _require_disk_space(order: InstallOrder, made: StagedPackages) -> None:
    """On one disk a file has two names, on two it is there twice."""
    prefix = order.target.prefix
    if not unpacking.is_same_disk(prefix, order.stamp):
        need = sum(placed.size for placed in made.placed.values()) // _MIB + 1
        space.require_disk_space(
            prefix, need, "what is to be installed", _describe_location(order, prefix)
        )


def _describe_location(order: InstallOrder, folder: Path) -> str:
    """The environment as the person named it, and the folder where it is on another disk."""
    named = f"install.into: {order.job.into}"
    one = folder == order.target.prefix or unpacking.is_same_disk(folder, order.target.prefix)
    return named if one else f"{folder}, for {named}"


def _require_expected_packages(order: InstallOrder) -> None:
    now = environment.query_environment(Path(order.target.python))
    if wrong := fit.compare_installed(order.target, now, order.versions):
        raise BadArtifactError(
            f"after the install this lies there: {'; '.join(wrong)}; what was there is put back",
            location=order.target.python,
            hint="see that nobody else installs there, then run the same command again",
        )


def _undo_install(stamp: Path, new: InstallRecord) -> None:
    """A person's environment is never left as it is in between."""
    show_progress("putting back what was there")
    aside = stamp / ASIDE_FOLDER / interrupted.create_timestamp()
    interrupted.report_displaced_files(
        exchanging.restore_files(new, stamp / PENDING_FOLDER / BACKUP_FOLDER, aside), new.prefix
    )
    settling.discard_pending(stamp)


def _report_install(order: InstallOrder, new: InstallRecord, settled: CommitResult) -> None:
    for text in _describe_versions(new):
        print_line(text)
    back = f"doit restore --yes{format_profile_argument(order.job.profile)}"
    print_line(f"what was there before is kept; the way back: {back}")
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
