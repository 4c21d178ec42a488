"""Back up, swap and restore the files of an install.

Before anything is changed, every file of the replaced distributions is backed up, and any other
file at the path of a new file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.stages.install import target_files_io
from tasks.stages.install.install_journal_io import (
    BACKUP_FOLDER,
    PENDING_FOLDER,
    BackupFile,
    DistributionChange,
    InstallRecord,
)
from tasks.stages.install.target_environment_io import TargetEnvironment
from tasks.stages.install.target_files_io import (
    InstalledDistribution,
    StagedPackages,
    find_distributions,
    list_distribution_files,
)
from tasks.stages.install.target_interpreter_io import build_unwritable_error
from tasks.system.output import show_progress
from tasks.wheels.installed_wheel_io import is_bytecode

_NOTHING_CHANGED = "nothing was changed"


def find_replaced_files(
    target: TargetEnvironment, made: StagedPackages
) -> tuple[Mapping[str, InstalledDistribution], dict[str, str]]:
    """Return the replaced distributions, and each path to back up with its new owner.

    Raises `TorchyardError` for files that could not be restored.
    """
    distributions = find_distributions(target.prefix, target.sites, made.versions)
    require_record_files(target.python, distributions.values())
    _require_no_stray_torch(target, made, distributions)
    paths = {
        path: name
        for name, distribution in distributions.items()
        for path in list_distribution_files(target.prefix, distribution)
    }
    for path, placed in made.placed.items():
        if path not in paths and target_files_io.is_present(target.prefix / path):
            paths[path] = placed.owner
            compiled = target_files_io.list_bytecode(target.prefix / path)
            paths |= {p.relative_to(target.prefix).as_posix(): placed.owner for p in compiled}
    _require_clear_paths(target.prefix, {*paths, *made.placed}, made.placed)
    return distributions, paths


def require_record_files(python: str, old: Iterable[InstalledDistribution]) -> None:
    """Raise `TorchyardError` for a distribution whose installer left no list of its files."""
    for one in old:
        for info in one.unrecorded_infos:
            raise TorchyardError(
                f"{one.name} {one.version} has no RECORD, so that nobody knows which files are "
                f"its own, to keep them; {_NOTHING_CHANGED}",
                location=str(info),
                hint=f"take it out yourself ({python} -m pip uninstall {one.name}, or "
                "conda remove, or by hand), then run the same command again",
            )


def _require_no_stray_torch(
    target: TargetEnvironment, made: StagedPackages, old: Mapping[str, InstalledDistribution]
) -> None:
    """Raise `TorchyardError` for a torch folder without a distribution: both would be mixed."""
    for site in target.sites:
        folder = target.prefix / site / "torch"
        if "torch" in made.versions and "torch" not in old and target_files_io.is_present(folder):
            raise TorchyardError(
                f"this is of no package that is installed there; {_NOTHING_CHANGED}",
                location=str(folder),
                hint="move it away, then run the same command again",
            )


def _require_clear_paths(prefix: Path, paths: Iterable[str], placed: Iterable[str]) -> None:
    """Raise `TorchyardError` if a path cannot be written.

    Parent folders must be writable folders of this environment and no links. Files must not be
    folders.
    """
    for name in sorted(target_files_io.list_parents(paths)):
        folder = prefix / name
        if folder.is_symlink() or Path(os.path.realpath(folder)) != folder:
            raise TorchyardError(
                f"this is a link to {os.path.realpath(folder)}, which is not written to; "
                f"{_NOTHING_CHANGED}",
                location=str(folder),
                hint="put a folder in its place, or uninstall what made it",
            )
        if folder.exists() and not folder.is_dir():
            raise TorchyardError(
                f"a folder is to be here, and a file is in its way; {_NOTHING_CHANGED}",
                location=str(folder),
                hint="move the file away",
            )
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            raise build_unwritable_error(str(folder))
    for name in placed:
        if (prefix / name).is_dir() and not (prefix / name).is_symlink():
            raise TorchyardError(
                f"a file is to be here, and a folder is in its way; {_NOTHING_CHANGED}",
                location=str(prefix / name),
                hint="move the folder away",
            )


def back_up_files(
    stamp: Path,
    target: TargetEnvironment,
    made: StagedPackages,
    wheels: Mapping[str, str],
    when: str,
) -> InstallRecord:
    """Back up the files that will be replaced, and return the record of the install.

    `wheels` are the sha256 of wheels by the distribution's name.
    """
    distributions, paths = find_replaced_files(target, made)
    backups = {}
    for number, (path, owner) in enumerate(sorted(paths.items())):
        if number % 500 == 0:
            show_progress(f"keeping what is there: {number:,} of {len(paths):,} files")
        backups[path] = _back_up_file(
            target.prefix / path, stamp / PENDING_FOLDER / BACKUP_FOLDER / path, owner
        )
    folders = target_files_io.list_parents({*paths, *made.placed})
    return InstallRecord(
        python=target.python,
        prefix=str(target.prefix),
        sites=target.sites,
        when=when,
        parts=_build_distribution_changes(
            stamp / PENDING_FOLDER / "staged", made, distributions, wheels
        ),
        kept=backups,
        placed=made.placed,
        folders={
            name: (target.prefix / name).stat().st_mode & 0o7777
            for name in sorted(folders)
            if (target.prefix / name).is_dir()
        },
    )


def _back_up_file(path: Path, store: Path, owner: str) -> BackupFile:
    target_files_io.link_or_copy(path, store)
    if path.is_symlink():
        return BackupFile(owner, "", target_files_io.read_link(path))
    return BackupFile(owner, target_files_io.compute_sha256(store))


def _build_distribution_changes(
    staged: Path,
    made: StagedPackages,
    old: Mapping[str, InstalledDistribution],
    wheels: Mapping[str, str],
) -> dict[str, DistributionChange]:
    return {
        name: DistributionChange(
            before=old[name].version if name in old else "",
            record_before=old[name].record_digest if name in old else "",
            after=version,
            record=target_files_io.compute_sha256(staged / made.records[name]),
            path=made.records[name],
            wheel=wheels.get(name, ""),
        )
        for name, version in made.versions.items()
    }


@dataclass(frozen=True)
class Rollback:
    """The result of a rollback: the user's files that were moved below `aside`."""

    aside: Path
    displaced: tuple[str, ...]


def swap_files(one: InstallRecord, staged: Path) -> None:
    """Move the files of `staged` into the environment, and remove the replaced ones."""
    prefix = Path(one.prefix)
    for number, path in enumerate(one.placed):
        if number % 500 == 0:
            show_progress(f"installing: {number:,} of {len(one.placed):,} files")
        target_files_io.replace_file(staged / path, prefix / path)
    gone = [path for path in one.kept if path not in one.placed]
    for path in gone:
        (prefix / path).unlink(missing_ok=True)
    target_files_io.remove_empty_folders(
        prefix, target_files_io.list_parents(gone) - target_files_io.list_parents(one.placed)
    )


def restore_files(one: InstallRecord, store: Path, aside: Path) -> Rollback:
    """Remove the installed files and restore the backups from `store`.

    Files that are neither and are in the way are moved to `aside`. Raises `TorchyardError` before
    anything is changed if a backup is damaged.
    """
    _require_intact_backup(one, store)
    prefix = Path(one.prefix)
    displaced = [
        p for p in _find_foreign_files(one, store) if _displace_user_file(prefix / p, aside / p)
    ]
    paths = sorted({*one.kept, *one.placed})
    for number, path in enumerate(paths):
        if number % 500 == 0:
            show_progress(f"putting back: {number:,} of {len(paths):,} files")
        if _restore_file(one, path, store, aside):
            displaced.append(path)
    _restore_folders(one, displaced)
    return Rollback(aside, tuple(displaced))


def _require_intact_backup(one: InstallRecord, store: Path) -> None:
    """Raise `TorchyardError` for a missing or changed backup.

    A disk may lose a file, and the user may change files in the build directory.
    """
    for path, backup in one.kept.items():
        if not _is_backup_intact(store / path, backup):
            raise TorchyardError(
                "this is not what was kept here, so that it cannot be put back; nothing was "
                "changed",
                location=str(store / path),
                hint=f"install what was there yourself: {_format_reinstall_command(one)}",
            )


def _is_backup_intact(store: Path, kept: BackupFile) -> bool:
    if kept.link or store.is_symlink():
        return store.is_symlink() and target_files_io.read_link(store) == kept.link
    return store.is_file() and target_files_io.compute_sha256(store) == kept.sha256


def _format_reinstall_command(one: InstallRecord) -> str:
    requirements = [
        f"{name}=={part.before}" for name, part in sorted(one.parts.items()) if part.before
    ]
    return f"{one.python} -m pip install {' '.join(requirements)}"


def _find_foreign_files(one: InstallRecord, store: Path) -> list[str]:
    """Return the files of distributions that replaced the installed ones since."""
    prefix = Path(one.prefix)
    paths: dict[str, None] = {}
    for distribution in find_distributions(prefix, one.sites, one.parts).values():
        records = [(info / "RECORD").relative_to(prefix).as_posix() for info in distribution.infos]
        if not all(_is_known_file(one, record, store) for record in records):
            paths |= dict.fromkeys(list_distribution_files(prefix, distribution))
    return [path for path in paths if not _is_known_file(one, path, store)]


def _is_known_file(one: InstallRecord, path: str, store: Path) -> bool:
    """Return True if the file is the installed one or the one from before."""
    target, backup = Path(one.prefix) / path, one.kept.get(path)
    if target_files_io.is_installed_file(target, one.placed.get(path)):
        return True
    return backup is not None and target_files_io.is_original_file(target, backup, store / path)


def _displace_user_file(whole: Path, to: Path) -> bool:
    """Move a user's file aside and return True. Bytecode is removed: Python creates it again."""
    if is_bytecode(whole.as_posix()):
        whole.unlink(missing_ok=True)
        return False
    target_files_io.move_aside(whole, to)
    return True


def _restore_file(one: InstallRecord, path: str, store: Path, aside: Path) -> bool:
    """Restore or remove one file. Return True if a user's file was moved aside for it."""
    target, backup = Path(one.prefix) / path, one.kept.get(path)
    is_unchanged = target_files_io.is_installed_file(target, one.placed.get(path))
    if (
        backup
        and not is_unchanged
        and target_files_io.is_original_file(target, backup, store / path)
    ):
        return False
    is_displaced = (
        not is_unchanged
        and target_files_io.is_present(target)
        and _displace_user_file(target, aside / path)
    )
    if backup:
        target_files_io.replace_file(store / path, target)
    else:
        target.unlink(missing_ok=True)
    if path in one.placed:
        _remove_bytecode(one, target)
    return is_displaced


def _remove_bytecode(one: InstallRecord, source: Path) -> None:
    """Remove the bytecode of an installed file. The bytecode of the old source is in the backup."""
    for file in list(target_files_io.list_bytecode(source)):
        if file.relative_to(one.prefix).as_posix() not in one.kept:
            file.unlink(missing_ok=True)


def _restore_folders(one: InstallRecord, moved: list[str]) -> None:
    """Remove the empty folders that were added, and create the previous ones again."""
    prefix = Path(one.prefix)
    added = target_files_io.list_parents({*one.kept, *one.placed, *moved}) - one.folders.keys()
    target_files_io.remove_empty_folders(prefix, added)
    for name in sorted(one.folders):
        (prefix / name / target_files_io.TEMPORARY_NAME).unlink(missing_ok=True)
        if not (prefix / name).is_dir():
            (prefix / name).mkdir(parents=True)
            (prefix / name).chmod(one.folders[name])
