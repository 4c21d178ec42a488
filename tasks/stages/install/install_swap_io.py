"""Back up, swap and restore the files of an install.

All files that an install replaces or removes are backed up before anything is changed.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.stages.install import target_files_io as target_files
from tasks.stages.install.install_journal_io import (
    PENDING_BACKUP_FOLDER,
    STAGING_FOLDER,
    BackupFile,
    DistributionChange,
    InstallRecord,
)
from tasks.stages.install.target_environment_io import TargetEnvironment
from tasks.stages.install.target_files_io import (
    InstalledDistribution,
    StagedPackages,
    is_present,
    list_parents,
)
from tasks.stages.install.target_interpreter_io import build_unwritable_error
from tasks.system.output import show_progress
from tasks.wheels.installed_wheel_io import is_bytecode

_NOTHING_CHANGED = "nothing was changed"


def find_replaced_files(
    target: TargetEnvironment, staging: StagedPackages
) -> tuple[Mapping[str, InstalledDistribution], dict[str, str]]:
    """Return the distributions to replace, and the new owner of each file to back up."""
    distributions = target_files.find_distributions(target.prefix, target.sites, staging.versions)
    _require_known_files(target, staging, distributions)
    paths = {
        path: name
        for name, distribution in distributions.items()
        for path in target_files.list_distribution_files(target.prefix, distribution)
    }
    for path, placed in staging.placed.items():
        if path not in paths and is_present(target.prefix / path):
            paths[path] = placed.owner
            compiled = target_files.list_bytecode(target.prefix / path)
            paths |= {p.relative_to(target.prefix).as_posix(): placed.owner for p in compiled}
    _require_clear_paths(target.prefix, {*paths, *staging.placed}, staging.placed)
    return distributions, paths


def _require_known_files(
    target: TargetEnvironment,
    staging: StagedPackages,
    old: Mapping[str, InstalledDistribution],
) -> None:
    """Require that the files of all `old` packages are known, and that a package owns torch/."""
    for one in old.values():
        for info in one.unrecorded_infos:
            raise TorchyardError(
                f"{one.name} {one.version} has no RECORD, so its files cannot be backed up; "
                f"{_NOTHING_CHANGED}",
                location=str(info),
                hint=f"uninstall it ({target.python} -m pip uninstall {one.name}, or conda remove, "
                "or delete its files), then run the same command again",
            )
    for site in target.sites:
        folder = target.prefix / site / "torch"
        if "torch" in staging.versions and "torch" not in old and is_present(folder):
            raise TorchyardError(
                f"this folder belongs to no installed package; {_NOTHING_CHANGED}",
                location=str(folder),
                hint="move the folder elsewhere, then run the same command again",
            )


def _require_clear_paths(prefix: Path, paths: Iterable[str], placed: Iterable[str]) -> None:
    """Require that each parent is a writable folder and no link, and no placed path is a folder."""
    for folder in (prefix / name for name in sorted(list_parents(paths))):
        real = os.path.realpath(folder)
        if folder.is_symlink() or Path(real) != folder:
            raise TorchyardError(
                f"this folder is a link to {real}, and torchyard does not install through links; "
                f"{_NOTHING_CHANGED}",
                location=str(folder),
                hint="replace the link with a folder, or uninstall the package that created it",
            )
        if folder.exists() and not folder.is_dir():
            raise TorchyardError(
                f"a file exists where a folder is required; {_NOTHING_CHANGED}",
                location=str(folder),
                hint="move the file elsewhere",
            )
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            raise build_unwritable_error(str(folder))
    for path in (prefix / name for name in placed):
        if path.is_dir() and not path.is_symlink():
            raise TorchyardError(
                f"a folder exists where a file is required; {_NOTHING_CHANGED}",
                location=str(path),
                hint="move the folder elsewhere",
            )


def back_up_files(
    stamp: Path,
    target: TargetEnvironment,
    staging: StagedPackages,
    wheels: Mapping[str, str],
    when: str,
) -> InstallRecord:
    """Back up the files to replace, and return the record. `wheels` maps packages to sha256."""
    old, paths = find_replaced_files(target, staging)
    backups = {}
    for number, (path, owner) in enumerate(sorted(paths.items())):
        if number % 500 == 0:
            show_progress(f"backing up: {number:,} of {len(paths):,} files")
        original, copy = target.prefix / path, stamp / PENDING_BACKUP_FOLDER / path
        target_files.link_or_copy(original, copy)
        backups[path] = (
            BackupFile(owner, "", target_files.read_link(original))
            if original.is_symlink()
            else BackupFile(owner, target_files.compute_sha256(copy))
        )
    folders = sorted(list_parents({*paths, *staging.placed}))
    return InstallRecord(
        python=target.python,
        prefix=str(target.prefix),
        sites=target.sites,
        when=when,
        parts={
            name: DistributionChange(
                before=old[name].version if name in old else "",
                record_before=old[name].record_digest if name in old else "",
                after=version,
                record=target_files.compute_sha256(stamp / STAGING_FOLDER / staging.records[name]),
                path=staging.records[name],
                wheel=wheels.get(name, ""),
            )
            for name, version in staging.versions.items()
        },
        kept=backups,
        placed=staging.placed,
        folders={
            name: (target.prefix / name).stat().st_mode & 0o7777
            for name in folders
            if (target.prefix / name).is_dir()
        },
    )


def swap_files(record: InstallRecord, staged: Path) -> None:
    """Install the files from the folder `staged`, and remove old files without a replacement."""
    prefix = Path(record.prefix)
    for number, path in enumerate(record.placed):
        if number % 500 == 0:
            show_progress(f"installing: {number:,} of {len(record.placed):,} files")
        target_files.replace_file(staged / path, prefix / path)
    removed = [path for path in record.kept if path not in record.placed]
    for path in removed:
        (prefix / path).unlink(missing_ok=True)
    target_files.remove_empty_folders(prefix, list_parents(removed) - list_parents(record.placed))


def restore_files(record: InstallRecord, store: Path, aside: Path) -> list[str]:
    """Remove the installed files and restore the backups in `store`, if all backups are intact.

    Files of the user that are in the way are moved to `aside`; their paths are returned.
    """
    for path, backup in record.kept.items():
        if not target_files.is_original_file(store / path, backup):
            parts = sorted(record.parts.items())
            old = [f"{name}=={part.before}" for name, part in parts if part.before]
            raise TorchyardError(
                f"the backup of this file is missing or damaged; {_NOTHING_CHANGED}",
                location=str(store / path),
                hint=f"reinstall the old packages: {record.python} -m pip install {' '.join(old)}",
            )
    prefix = Path(record.prefix)
    foreign = _find_foreign_files(record, store)
    displaced = [path for path in foreign if _displace_user_file(prefix / path, aside / path)]
    paths = sorted({*record.kept, *record.placed})
    for number, path in enumerate(paths):
        if number % 500 == 0:
            show_progress(f"restoring: {number:,} of {len(paths):,} files")
        if _restore_file(record, path, store, aside):
            displaced.append(path)
    added = list_parents({*paths, *displaced}) - record.folders.keys()
    target_files.remove_empty_folders(prefix, added)
    for name in sorted(record.folders):
        (prefix / name / target_files.TEMPORARY_NAME).unlink(missing_ok=True)
        if not (prefix / name).is_dir():
            (prefix / name).mkdir(parents=True)
            (prefix / name).chmod(record.folders[name])
    return displaced


def _find_foreign_files(record: InstallRecord, store: Path) -> list[str]:
    """Return the files of packages that the user installed over torchyard's."""
    prefix = Path(record.prefix)
    paths: dict[str, None] = {}
    for distribution in target_files.find_distributions(
        prefix, record.sites, record.parts
    ).values():
        records = [(info / "RECORD").relative_to(prefix).as_posix() for info in distribution.infos]
        if not all(_is_known_file(record, path, store) for path in records):
            paths |= dict.fromkeys(target_files.list_distribution_files(prefix, distribution))
    return [path for path in paths if not _is_known_file(record, path, store)]


def _is_known_file(record: InstallRecord, path: str, store: Path) -> bool:
    """Return True if a path has the file that torchyard installed, or the file from before."""
    target, backup = Path(record.prefix) / path, record.kept.get(path)
    if target_files.is_installed_file(target, record.placed.get(path)):
        return True
    return backup is not None and target_files.is_original_file(target, backup, store / path)


def _displace_user_file(path: Path, to: Path) -> bool:
    """Move a user's file to `to` or a free name beside `to`. Return False for removed bytecode."""
    if is_bytecode(path.as_posix()):
        path.unlink(missing_ok=True)
        return False
    while is_present(to):
        to = to.with_name(f"{to.name}.more")
    target_files.link_or_copy(path, to)
    path.unlink()
    return True


def _restore_file(record: InstallRecord, path: str, store: Path, aside: Path) -> bool:
    """Restore the backup of a path or remove its file. Return True if a user's file was moved."""
    target, backup = Path(record.prefix) / path, record.kept.get(path)
    is_unchanged = target_files.is_installed_file(target, record.placed.get(path))
    if backup and not is_unchanged and target_files.is_original_file(target, backup, store / path):
        return False
    is_foreign = not is_unchanged and is_present(target)
    is_displaced = is_foreign and _displace_user_file(target, aside / path)
    if backup:
        target_files.replace_file(store / path, target)
    else:
        target.unlink(missing_ok=True)
    # the bytecode of the installed file; the bytecode of the original is in the backup
    for file in list(target_files.list_bytecode(target)) if path in record.placed else ():
        if file.relative_to(record.prefix).as_posix() not in record.kept:
            file.unlink(missing_ok=True)
    return is_displaced
