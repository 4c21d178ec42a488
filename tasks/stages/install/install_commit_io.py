"""Commit a successful install, undo an interrupted one, and restore the user's files."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from filelock import FileLock, Timeout

from tasks.core.canonical_json import compute_text_sha256
from tasks.core.errors import TorchyardError
from tasks.stages.install import install_journal_io as journal
from tasks.stages.install.install_journal_io import BackupFile, InstallRecord
from tasks.stages.install.install_swap_io import restore_files
from tasks.stages.install.target_files_io import is_present, list_parents
from tasks.system import files, manifests
from tasks.system.output import print_line, print_warning
from tasks.wheels.installed_wheel_io import find_bytecode_source, is_bytecode


@dataclass(frozen=True)
class CommitResult:
    """The result of an install: the new content of replaced.json, and the paths of backups.

    `result` is the new content. `originals` are backups that are kept for a rollback. Two kinds are
    moved away: `superseded` are older backups of packages that the user has replaced, `edited` are
    files that the user changed or added after the previous install.
    """

    result: InstallRecord
    originals: tuple[str, ...]
    edited: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()


def compute_commit(before: InstallRecord | None, new: InstallRecord) -> CommitResult:
    """Merge the record `before` (None for a first install) with the record `new`."""
    if before is None:
        return CommitResult(new, tuple(new.kept))
    last = before.parts
    user_packages = {
        name
        for name, part in new.parts.items()
        if name in last and part.before and part.record_before != last[name].record
    }
    user_paths = {path for path, backup in before.kept.items() if backup.owner in user_packages}
    previous = {path: one for path, one in before.kept.items() if path not in user_paths}
    kept = new.kept.items()
    fates = {path: _classify_backup(before, user_packages, path, one) for path, one in kept}
    originals = {path: backup for path, backup in kept if fates[path] == "original"}
    merged = {
        name: replace(part, before=last[name].before, record_before=last[name].record_before)
        for name, part in new.parts.items()
        if name in last and name not in user_packages
    }
    remaining = {path: one for path, one in before.placed.items() if one.owner not in new.parts}
    # A rollback keeps the folders that existed before the first install, unless they disappeared
    # before this one, and the folders that the user has added
    created = list_parents(before.placed)
    vanished = list_parents(user_paths) - list_parents(previous) - new.folders.keys()
    folders = {
        **{name: mode for name, mode in new.folders.items() if name not in created},
        **{name: mode for name, mode in before.folders.items() if name not in vanished},
    }
    result = replace(
        new,
        when=before.when,
        parts={**last, **new.parts, **merged},
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
    """Commit the pending install `new`, and return what was written and moved."""
    commit = compute_commit(journal.read_record(stamp), new)
    aside = f"{journal.ASIDE_FOLDER}/{new.when}"
    moves = (
        *((f"{journal.BACKUP_FOLDER}/{path}", f"{aside}/{path}") for path in commit.superseded),
        *((f"{journal.PENDING_BACKUP_FOLDER}/{path}", f"{aside}/{path}") for path in commit.edited),
        *(
            (f"{journal.PENDING_BACKUP_FOLDER}/{path}", f"{journal.BACKUP_FOLDER}/{path}")
            for path in commit.originals
        ),
    )
    pending = journal.PendingInstall("settling", new, commit.result, moves)
    manifests.write_manifest(stamp / journal.JOURNAL_FILE, pending)
    finish_commit(stamp, pending)
    return commit


def finish_commit(stamp: Path, pending: journal.PendingInstall) -> None:
    """Finish a commit: move the backups and write the record. Can be repeated after a SIGKILL."""
    for source, target in ((stamp / source, stamp / target) for source, target in pending.moves):
        if is_present(source) and not is_present(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            files.replace_path(source, target)
    if pending.result:
        manifests.write_manifest(stamp / journal.RECORD_FILE, pending.result)
    discard_pending(stamp)


def discard_pending(stamp: Path) -> None:
    """Remove the files of the pending install, and the folder `stamp` if it is empty then."""
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
        undo_pending(stamp)
        record = journal.read_record(stamp)
        is_restoring = (stamp / journal.RESTORING_MARKER).is_file()
        if record is None or (is_restoring and not journal.is_environment_gone(record)):
            restore_environment(stamp)


def undo_pending(stamp: Path) -> None:
    """Undo a pending install, or finish its commit if its packages were imported successfully."""
    pending = journal.read_pending(stamp)
    if pending and pending.state == "settling":
        finish_commit(stamp, pending)
        return
    if pending and not journal.is_environment_gone(pending.exchange):
        restore_backup(stamp, journal.PENDING_BACKUP_FOLDER, pending.exchange)
        prefix = pending.exchange.prefix
        print_line(f"an install into {prefix} was interrupted; the previous files were restored")
    discard_pending(stamp)


def restore_environment(stamp: Path) -> None:
    """Restore the files from before the first install. `stamp` keeps only files set aside."""
    undo_pending(stamp)
    record = journal.read_record(stamp)
    if record and journal.is_environment_gone(record):
        raise TorchyardError(
            f"the environment {record.prefix} was removed or has another Python now, so its files "
            "cannot be restored",
            location=str(stamp),
            hint="if you do not need the backup of its files, remove this folder",
        )
    if record:
        files.write_atomic(stamp / journal.RESTORING_MARKER, "")
        restore_backup(stamp, journal.BACKUP_FOLDER, record)
    (stamp / journal.RECORD_FILE).unlink(missing_ok=True)
    (stamp / journal.RESTORING_MARKER).unlink(missing_ok=True)
    # Temporary files may remain after a SIGKILL
    for leftover in list(stamp.iterdir()) if stamp.is_dir() else ():
        if leftover.name != journal.ASIDE_FOLDER:
            files.remove_owned(leftover)
    discard_pending(stamp)


def restore_backup(stamp: Path, store: str, record: InstallRecord) -> None:
    """Restore the backup in the subfolder `store`, and warn about moved files of the user."""
    aside = stamp / journal.ASIDE_FOLDER / create_timestamp()
    if count := len(restore_files(record, stamp / store, aside)):
        subject = "1 file was" if count == 1 else f"{count} files were"
        where = f"in {record.prefix} after the install"
        print_warning(f"{subject} changed {where} and moved to {aside}")


@contextmanager
def lock_environment(builds: PurePath, prefix: PurePath) -> Iterator[None]:
    """Lock the environment `prefix` against installs from other profiles of this checkout."""
    path = Path(builds, ".installing", f"{compute_text_sha256(str(prefix))[:16]}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print_line(f"waiting for another profile that installs into {prefix}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
