"""Back up, swap and commit the files of an install, undo an interrupted one, and restore files.

All files that an install replaces or removes are backed up before anything is changed.
"""

import datetime
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from filelock import FileLock, Timeout

from tasks.core.canonical_json import compute_text_sha256
from tasks.core.errors import TorchyardError
from tasks.stages.install import install_journal_io as journal
from tasks.stages.install import target_environment_io as target_files
from tasks.stages.install.install_journal_io import (
    ASIDE_FOLDER,
    BACKUP_FOLDER,
    PENDING_BACKUP_FOLDER,
    BackupFile,
    InstallRecord,
)
from tasks.stages.install.target_environment_io import (
    InstalledDistribution,
    StagedPackages,
    TargetEnvironment,
    list_parents,
)
from tasks.stages.install.target_interpreter_io import build_refusal
from tasks.system import files, manifests
from tasks.system.output import print_line, print_warning, show_progress
from tasks.wheels.installed_wheel_io import find_bytecode_source, is_bytecode


def _show_file_count(what: str, paths: Collection[str]) -> Iterator[str]:
    """Yield the paths, and show the progress of the step `what`."""
    for number, path in enumerate(paths):
        if number % 500 == 0:
            show_progress(f"{what}: {number:,} of {len(paths):,} files")
        yield path


def _find_replaced_files(
    target: TargetEnvironment, staging: StagedPackages
) -> tuple[Mapping[str, InstalledDistribution], dict[str, str]]:
    """Return the distributions to replace by name, and the files to back up (path → owner).

    Raises `TorchyardError` if a package has no list of its files, or a path cannot be replaced.
    """
    prefix, paths = target.prefix, dict[str, str]()
    old = target_files.find_distributions(prefix, target.sites, staging.versions)
    for one in old.values():
        for info in one.unrecorded_infos:
            raise build_refusal(
                f"{one.name} {one.version} has no RECORD, so its files cannot be backed up",
                info,
                f"uninstall it ({target.python} -m pip uninstall {one.name}, or conda remove, "
                "or delete its files), then run the same command again",
            )
        paths |= dict.fromkeys(target_files.list_distribution_files(prefix, one), one.name)
    for folder in (prefix / site / "torch" for site in target.sites):
        if "torch" in staging.versions and "torch" not in old and os.path.lexists(folder):
            hint = "move the folder elsewhere, then run the same command again"
            raise build_refusal("this folder belongs to no installed package", folder, hint)
    for path, placed in staging.placed.items():
        if path not in paths and os.path.lexists(prefix / path):
            compiled = target_files.list_bytecode(prefix / path)
            names = [path, *(file.relative_to(prefix).as_posix() for file in compiled)]
            paths |= dict.fromkeys(names, placed.owner)
    _require_clear_paths(prefix, {*paths, *staging.placed}, staging.placed)
    return old, paths


def _require_clear_paths(prefix: Path, paths: Iterable[str], placed: Iterable[str]) -> None:
    """Raise an error if a parent folder is a link or read-only, or if something is in the way."""
    for folder in (prefix / name for name in sorted(list_parents(paths))):
        real = os.path.realpath(folder)
        if folder.is_symlink() or Path(real) != folder:
            message = (
                f"this folder is a link to {real}, and torchyard does not install through links"
            )
            hint = "replace the link with a folder, or uninstall the package that created it"
            raise build_refusal(message, folder, hint)
        if folder.exists() and not folder.is_dir():
            message = "a file exists where a folder is required"
            raise build_refusal(message, folder, "move the file elsewhere")
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            raise build_refusal("you cannot write to this folder", folder)
    for path in (prefix / name for name in placed):
        if path.is_dir() and not path.is_symlink():
            message = "a folder exists where a file is required"
            raise build_refusal(message, path, "move the folder elsewhere")


def back_up_files(
    stamp: Path,
    target: TargetEnvironment,
    staging: StagedPackages,
    wheels: Mapping[str, str],
    when: str,
) -> InstallRecord:
    """Back up all files to replace. `stamp` is the backup folder, `wheels` has digests by name."""
    prefix, backups = target.prefix, {}
    old, paths = _find_replaced_files(target, staging)
    for path in _show_file_count("backing up", sorted(paths)):
        original, copy = prefix / path, stamp / PENDING_BACKUP_FOLDER / path
        target_files.link_or_copy(original, copy)
        is_link = original.is_symlink()
        digest = "" if is_link else files.read_artifact(copy).sha256
        link = target_files.read_link(original) if is_link else ""
        backups[path] = BackupFile(paths[path], digest, link)
    parts = {}
    for name, version in staging.versions.items():
        before = (old[name].version, old[name].record_digest) if name in old else ("", "")
        path = staging.records[name]
        record = files.read_artifact(stamp / journal.STAGING_FOLDER / path).sha256
        change = journal.DistributionChange(*before, version, record, path, wheels.get(name, ""))
        parts[name] = change
    folders = [n for n in sorted(list_parents({*paths, *staging.placed})) if (prefix / n).is_dir()]
    return InstallRecord(
        python=target.python,
        prefix=str(prefix),
        sites=target.sites,
        when=when,
        parts=parts,
        kept=backups,
        placed=staging.placed,
        folders={name: (prefix / name).stat().st_mode & 0o7777 for name in folders},
    )


def swap_files(record: InstallRecord, staged: Path) -> None:
    """Install the files from the folder `staged`, and remove old files without a replacement."""
    prefix = Path(record.prefix)
    for path in _show_file_count("installing", record.placed):
        target_files.replace_file(staged / path, prefix / path)
    removed = [path for path in record.kept if path not in record.placed]
    for path in removed:
        (prefix / path).unlink(missing_ok=True)
    target_files.remove_empty_folders(prefix, list_parents(removed) - list_parents(record.placed))


@dataclass(frozen=True)
class CommitResult:
    """The record for replaced.json, and the paths of three kinds of backups.

    `originals` are new backups that a rollback will restore. `edited` are new backups of files that
    the user changed or added after the last install. `superseded` are old backups that a rollback
    no longer restores.
    """

    result: InstallRecord
    originals: tuple[str, ...]
    edited: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()


def compute_commit(before: InstallRecord | None, new: InstallRecord) -> CommitResult:
    """Merge the record `new` into the record `before`, which is `None` for a first install."""
    if before is None:
        return CommitResult(new, tuple(new.kept))
    parts, user_packages = {**before.parts, **new.parts}, set[str]()
    for name, part in new.parts.items():
        old = before.parts.get(name)
        if old and part.before and part.record_before != old.record:
            user_packages.add(name)
        elif old:
            parts[name] = replace(part, before=old.before, record_before=old.record_before)
    user_paths = {path for path, backup in before.kept.items() if backup.owner in user_packages}
    previous = {path: one for path, one in before.kept.items() if path not in user_paths}
    kept = new.kept.items()
    fates = {path: _classify_backup(before, user_packages, path, one) for path, one in kept}
    originals = {path: backup for path, backup in kept if fates[path] == "original"}
    remaining = {path: one for path, one in before.placed.items() if one.owner not in new.parts}
    # A rollback keeps the folders that existed before the first install, unless they disappeared
    # before this one, and the folders that the user has added
    created = list_parents(before.placed)
    vanished = list_parents(user_paths) - list_parents(previous) - new.folders.keys()
    folders = {name: mode for name, mode in new.folders.items() if name not in created}
    folders |= {name: mode for name, mode in before.folders.items() if name not in vanished}
    result = replace(
        new,
        when=before.when,
        parts=parts,
        kept={**previous, **originals},
        placed={**remaining, **new.placed},
        folders=folders,
    )
    edited = tuple(path for path, fate in fates.items() if fate == "edited")
    return CommitResult(result, tuple(originals), edited, tuple(sorted(user_paths)))


def _classify_backup(
    before: InstallRecord, user_packages: set[str], path: str, backup: BackupFile
) -> str:
    if backup.owner in user_packages:
        return "original"
    if placed := before.placed.get(path):
        return "installed" if placed.sha256 == backup.sha256 else "edited"
    if is_bytecode(path) and find_bytecode_source(path) in before.placed:
        return "installed"
    previous = before.kept.get(path)
    return "edited" if previous and previous.owner not in user_packages else "original"


def commit_install(stamp: Path, new: InstallRecord) -> CommitResult:
    """Commit the pending install `new` in the backup folder `stamp`, and return the result."""
    commit, pending = compute_commit(journal.read_record(stamp), new), PENDING_BACKUP_FOLDER
    aside = f"{ASIDE_FOLDER}/{new.when}"
    moves = (
        *((f"{BACKUP_FOLDER}/{path}", f"{aside}/{path}") for path in commit.superseded),
        *((f"{pending}/{path}", f"{aside}/{path}") for path in commit.edited),
        *((f"{pending}/{path}", f"{BACKUP_FOLDER}/{path}") for path in commit.originals),
    )
    unfinished = journal.PendingInstall("settling", new, commit.result, moves)
    manifests.write_manifest(stamp / journal.JOURNAL_FILE, unfinished)
    _finish_commit(stamp, unfinished)
    return commit


def _finish_commit(stamp: Path, pending: journal.PendingInstall) -> None:
    """Move the backups and write the record. An interrupted call can be repeated."""
    for source, target in ((stamp / source, stamp / target) for source, target in pending.moves):
        if os.path.lexists(source) and not os.path.lexists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            files.replace_path(source, target)
    if pending.result:
        manifests.write_manifest(stamp / journal.RECORD_FILE, pending.result)
    discard_pending(stamp)


def discard_pending(stamp: Path) -> None:
    """Remove the pending install from the backup folder, then the folder if it is empty."""
    # The journal first: without it, the remaining files do not count as a pending install
    (stamp / journal.JOURNAL_FILE).unlink(missing_ok=True)
    files.remove_owned(stamp / journal.PENDING_FOLDER)
    if stamp.is_dir() and not any(stamp.iterdir()):
        stamp.rmdir()


def create_timestamp() -> str:
    """Return the current UTC time as text that sorts by time, such as 20260131T120000123456."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")


def recover_installs(replaced: PurePath) -> None:
    """Undo or finish interrupted installs, and finish interrupted restores."""
    for stamp in journal.list_stamps(replaced):
        _undo_pending(stamp)
        record = journal.read_record(stamp)
        is_restoring = (stamp / journal.RESTORING_MARKER).is_file()
        if record is None or (is_restoring and not journal.is_environment_gone(record)):
            restore_environment(stamp)


def _undo_pending(stamp: Path) -> None:
    """Undo a pending install, or finish its commit if its packages were imported successfully."""
    pending = journal.read_pending(stamp)
    if pending and pending.state == "settling":
        _finish_commit(stamp, pending)
        return
    if pending and not journal.is_environment_gone(pending.exchange):
        restore_backup(stamp, PENDING_BACKUP_FOLDER, pending.exchange)
        prefix = pending.exchange.prefix
        print_line(f"an install into {prefix} was interrupted; the previous files were restored")
    discard_pending(stamp)


def restore_environment(stamp: Path) -> None:
    """Restore the files from before the first install.

    Only files that the user changed after an install remain in the backup folder `stamp`.
    """
    _undo_pending(stamp)
    record = journal.read_record(stamp)
    if record and journal.is_environment_gone(record):
        gone = f"the environment {record.prefix} was removed or has another Python now"
        message = f"{gone}, so its files cannot be restored"
        hint = f"if you do not need the backup of its files, remove {stamp}"
        raise TorchyardError(message, location=str(stamp), hint=hint)
    if record:
        files.write_atomic(stamp / journal.RESTORING_MARKER, "")
        restore_backup(stamp, BACKUP_FOLDER, record)
    (stamp / journal.RECORD_FILE).unlink(missing_ok=True)
    (stamp / journal.RESTORING_MARKER).unlink(missing_ok=True)
    # Temporary files may remain after a SIGKILL
    for leftover in list(stamp.iterdir()) if stamp.is_dir() else ():
        if leftover.name != ASIDE_FOLDER:
            files.remove_owned(leftover)
    discard_pending(stamp)


def restore_backup(stamp: Path, subfolder: str, record: InstallRecord) -> None:
    """Remove the installed files, and restore the backups in the folder `subfolder` of `stamp`.

    Files that the user has changed since are moved to a new folder in `stamp`, with a warning.
    Raises `TorchyardError` if a backup is damaged.
    """
    prefix, store = Path(record.prefix), stamp / subfolder
    aside = stamp / ASIDE_FOLDER / create_timestamp()
    for path, backup in record.kept.items():
        if not target_files.is_original_file(store / path, backup):
            parts = sorted(record.parts.items())
            old = " ".join(f"{name}=={part.before}" for name, part in parts if part.before)
            hint = f"reinstall the old packages: {record.python} -m pip install {old}"
            message = "the backup of this file is missing or damaged"
            raise build_refusal(message, store / path, hint)
    foreign = _find_foreign_files(record, store)
    displaced = [path for path in foreign if _displace_user_file(prefix / path, aside / path)]
    paths = sorted({*record.kept, *record.placed})
    restored = _show_file_count("restoring", paths)
    displaced += [path for path in restored if _restore_file(record, path, store, aside)]
    added = list_parents({*paths, *displaced}) - record.folders.keys()
    target_files.remove_empty_folders(prefix, added)
    for name in sorted(record.folders):
        (prefix / name / target_files.TEMPORARY_NAME).unlink(missing_ok=True)
        if not (prefix / name).is_dir():
            (prefix / name).mkdir(parents=True)
            (prefix / name).chmod(record.folders[name])
    if displaced:
        subject = "1 file was" if len(displaced) == 1 else f"{len(displaced)} files were"
        print_warning(f"{subject} changed in {prefix} after the install: moved to {aside}")


def _find_foreign_files(record: InstallRecord, store: Path) -> list[str]:
    """Return the files of packages that the user installed later in place of torchyard's."""
    prefix = Path(record.prefix)
    paths: dict[str, None] = {}
    for one in target_files.find_distributions(prefix, record.sites, record.parts).values():
        records = [(info / "RECORD").relative_to(prefix).as_posix() for info in one.infos]
        if not all(_is_known_file(record, path, store) for path in records):
            paths |= dict.fromkeys(target_files.list_distribution_files(prefix, one))
    return [path for path in paths if not _is_known_file(record, path, store)]


def _is_known_file(record: InstallRecord, path: str, store: Path) -> bool:
    """Return True if the file at `path` is the installed file or equals its backup in `store`."""
    target, backup = Path(record.prefix) / path, record.kept.get(path)
    if target_files.is_installed_file(target, record.placed.get(path)):
        return True
    return backup is not None and target_files.is_original_file(target, backup, store / path)


def _displace_user_file(path: Path, to: Path) -> bool:
    """Move the file to `to`, or delete it if it is bytecode. Return True if it was moved."""
    if is_bytecode(path.as_posix()):
        path.unlink(missing_ok=True)
        return False
    while os.path.lexists(to):
        to = to.with_name(f"{to.name}.more")
    target_files.link_or_copy(path, to)
    path.unlink()
    return True


def _restore_file(record: InstallRecord, path: str, store: Path, aside: Path) -> bool:
    """Restore or remove the file at `path`. Return True if a user's file was moved to `aside`."""
    target, backup = Path(record.prefix) / path, record.kept.get(path)
    is_unchanged = target_files.is_installed_file(target, record.placed.get(path))
    if backup and not is_unchanged and target_files.is_original_file(target, backup, store / path):
        return False
    is_user_file = not is_unchanged and os.path.lexists(target)
    is_displaced = is_user_file and _displace_user_file(target, aside / path)
    if backup:
        target_files.replace_file(store / path, target)
    else:
        target.unlink(missing_ok=True)
    # the bytecode of the installed file; the bytecode of the original is in the backup
    for file in list(target_files.list_bytecode(target)) if path in record.placed else ():
        if file.relative_to(record.prefix).as_posix() not in record.kept:
            file.unlink(missing_ok=True)
    return is_displaced


@contextmanager
def lock_environment(builds: PurePath, prefix: PurePath) -> Iterator[None]:
    """Lock the environment `prefix`, so that no other profile of this checkout installs into it."""
    path = Path(builds, ".installing", f"{compute_text_sha256(str(prefix))[:16]}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        locked = lock.acquire(timeout=0)
    except Timeout:
        print_line(f"waiting for another profile that installs into {prefix}")
        locked = lock.acquire()
    with locked:
        yield
