"""Commit a successful install, undo an interrupted one, and restore the user's files."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from filelock import FileLock, Timeout

from tasks.core.canonical_json import compute_text_sha256
from tasks.core.errors import TorchyardError
from tasks.stages.install import install_journal_io, target_files_io
from tasks.stages.install.install_swap_io import Rollback, restore_files
from tasks.system import files
from tasks.system.output import print_line, print_warning
from tasks.wheels.installed_wheel_io import find_bytecode_source, is_bytecode


@dataclass(frozen=True)
class CommitResult:
    """The new replaced.json and what happens to the backups of the last install.

    `originals` are files from before the first install. `edited` are files that the user changed or
    added after an install. `superseded` are files from before the first install whose distribution
    the user has replaced with another one since.
    """

    result: install_journal_io.InstallRecord
    originals: tuple[str, ...]
    edited: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()


def compute_commit(
    before: install_journal_io.InstallRecord | None, new: install_journal_io.InstallRecord
) -> CommitResult:
    """Return the result of the install `new` after `before`. A rollback undoes both.

    If the user replaced an installed distribution in between, the rollback restores the user's one.
    """
    if before is None:
        return CommitResult(new, tuple(new.kept))
    user_packages = {name for name in new.parts if _is_user_installed(before, new, name)}
    user_paths = {path for path, backup in before.kept.items() if backup.owner in user_packages}
    previous_backups = {
        path: backup for path, backup in before.kept.items() if path not in user_paths
    }
    fates = {
        path: _classify_backup(before, previous_backups, user_packages, path, backup)
        for path, backup in new.kept.items()
    }
    originals = {path: backup for path, backup in new.kept.items() if fates[path] == "original"}
    result = replace(
        new,
        when=before.when,
        parts={**before.parts, **dict(_merge_changes(before, new, user_packages))},
        kept={**previous_backups, **originals},
        placed={
            **{path: put for path, put in before.placed.items() if put.owner not in new.parts},
            **new.placed,
        },
        folders=_merge_folders(before, new, user_paths, previous_backups),
    )
    edited = tuple(path for path, fate in fates.items() if fate == "edited")
    return CommitResult(result, tuple(originals), edited, tuple(sorted(user_paths)))


def _is_user_installed(
    before: install_journal_io.InstallRecord, new: install_journal_io.InstallRecord, name: str
) -> bool:
    """Return True if the user installed the replaced distribution since the last install."""
    part, last = new.parts[name], before.parts.get(name)
    return last is not None and bool(part.before) and part.record_before != last.record


def _classify_backup(
    before: install_journal_io.InstallRecord,
    standing: Mapping[str, install_journal_io.BackupFile],
    theirs: set[str],
    path: str,
    kept: install_journal_io.BackupFile,
) -> str:
    if kept.owner in theirs:
        return "original"
    placed = before.placed.get(path)
    if placed:
        return "ours" if placed.sha256 == kept.sha256 else "edited"
    if is_bytecode(path) and find_bytecode_source(path) in before.placed:
        return "ours"
    return "edited" if path in standing else "original"


def _merge_changes(
    before: install_journal_io.InstallRecord,
    new: install_journal_io.InstallRecord,
    theirs: set[str],
) -> Iterator[tuple[str, install_journal_io.DistributionChange]]:
    for name, part in new.parts.items():
        last = before.parts.get(name)
        if last is None or name in theirs:
            yield name, part
        else:
            yield name, replace(part, before=last.before, record_before=last.record_before)


def _merge_folders(
    before: install_journal_io.InstallRecord,
    new: install_journal_io.InstallRecord,
    left: Iterable[str],
    standing: Iterable[str],
) -> dict[str, int]:
    """Return the folders to keep on a rollback, with their modes.

    These are the folders that existed before the first install and at the second one, and folders
    that were added since and are not managed.
    """
    created, vanished = (
        target_files_io.list_parents(before.placed),
        target_files_io.list_parents(left) - target_files_io.list_parents(standing),
    )
    added = {name: mode for name, mode in new.folders.items() if name not in created}
    existing = {
        name: mode
        for name, mode in before.folders.items()
        if name in new.folders or name not in vanished
    }
    return {**added, **existing}


def commit_install(stamp: Path, new: install_journal_io.InstallRecord) -> CommitResult:
    """Commit the pending install and return the result."""
    commit = compute_commit(install_journal_io.read_record(stamp), new)
    aside = f"{install_journal_io.ASIDE_FOLDER}/{new.when}"
    moves = (
        *(
            (f"{install_journal_io.BACKUP_FOLDER}/{path}", f"{aside}/{path}")
            for path in commit.superseded
        ),
        *(
            (
                f"{install_journal_io.PENDING_FOLDER}/{install_journal_io.BACKUP_FOLDER}/{path}",
                f"{aside}/{path}",
            )
            for path in commit.edited
        ),
        *(
            (
                f"{install_journal_io.PENDING_FOLDER}/{install_journal_io.BACKUP_FOLDER}/{path}",
                f"{install_journal_io.BACKUP_FOLDER}/{path}",
            )
            for path in commit.originals
        ),
    )
    pending = install_journal_io.PendingInstall("settling", new, commit.result, moves)
    install_journal_io.write_pending(stamp, pending)
    finish_commit(stamp, pending)
    return commit


def finish_commit(stamp: Path, at_work: install_journal_io.PendingInstall) -> None:
    """Finish a commit. After a SIGKILL in the middle, files that were moved are not moved again."""
    for source, target in at_work.moves:
        if target_files_io.is_present(stamp / source) and not target_files_io.is_present(
            stamp / target
        ):
            (stamp / target).parent.mkdir(parents=True, exist_ok=True)
            files.replace_path(stamp / source, stamp / target)
    if at_work.result:
        install_journal_io.write_record(stamp, at_work.result)
    discard_pending(stamp)


def discard_pending(stamp: Path) -> None:
    """Remove the pending install, and its folder if nothing else is in it.

    The journal is removed first, so that the remaining files are never taken for a complete
    install.
    """
    (stamp / install_journal_io.PENDING_FOLDER / "change.json").unlink(missing_ok=True)
    files.remove_owned(stamp / install_journal_io.PENDING_FOLDER)
    if stamp.is_dir() and not any(stamp.iterdir()):
        stamp.rmdir()


def create_timestamp() -> str:
    """Return a name for the current time that sorts by time."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")


def recover_installs(replaced: PurePath) -> None:
    """Undo interrupted installs, finish those that only had to be recorded, and finish restores."""
    for stamp in install_journal_io.list_stamps(replaced):
        undo_pending(stamp)
        exchange = install_journal_io.read_record(stamp)
        if exchange is None or (
            install_journal_io.is_restoring(stamp)
            and not install_journal_io.is_environment_gone(exchange)
        ):
            restore_environment(stamp)


def undo_pending(stamp: Path) -> None:
    """Restore the files from before the pending install.

    An install that was successfully imported is committed instead.
    """
    pending = install_journal_io.read_pending(stamp)
    if pending and pending.state == "settling":
        finish_commit(stamp, pending)
        return
    if pending and not install_journal_io.is_environment_gone(pending.exchange):
        exchange = pending.exchange
        report_displaced_files(
            restore_files(
                exchange,
                stamp / install_journal_io.PENDING_FOLDER / install_journal_io.BACKUP_FOLDER,
                stamp / install_journal_io.ASIDE_FOLDER / create_timestamp(),
            ),
            exchange.prefix,
        )
        print_line(
            f"an install into {exchange.prefix} had been cut off: what was there before it is back"
        )
    discard_pending(stamp)


def restore_environment(stamp: Path) -> Rollback | None:
    """Restore the files from before the first install. Return None if nothing is installed.

    Afterwards only the files set aside are left in the stamp's folder.
    """
    undo_pending(stamp)
    record = install_journal_io.read_record(stamp)
    rollback = None
    if record and install_journal_io.is_environment_gone(record):
        raise TorchyardError(
            f"the environment is not there any more that this was kept of: {record.prefix}",
            location=str(stamp),
            hint="once you need none of it, remove that folder",
        )
    if record:
        files.write_atomic(stamp / install_journal_io.RESTORING_MARKER, "")
        rollback = restore_files(
            record,
            stamp / install_journal_io.BACKUP_FOLDER,
            stamp / install_journal_io.ASIDE_FOLDER / create_timestamp(),
        )
        report_displaced_files(rollback, record.prefix)
    (stamp / install_journal_io.RECORD_FILE).unlink(missing_ok=True)
    (stamp / install_journal_io.RESTORING_MARKER).unlink(missing_ok=True)
    # A SIGKILL leaves temporary files
    for leftover in list(stamp.iterdir()) if stamp.is_dir() else ():
        if leftover.name != install_journal_io.ASIDE_FOLDER:
            files.remove_owned(leftover)
    discard_pending(stamp)
    return rollback


def report_displaced_files(back: Rollback, prefix: str) -> None:
    """Warn about the user's files that were moved. They are never moved silently."""
    if back.displaced:
        is_single = len(back.displaced) == 1
        print_warning(
            f"{len(back.displaced)} file{'' if is_single else 's'} in {prefix} "
            f"{'was' if is_single else 'were'} "
            f"changed since, and {'is' if is_single else 'are'} now in {back.aside}"
        )


_LOCK_FOLDER = ".installing"  # in the folder of all profiles


@contextmanager
def lock_environment(builds: PurePath, prefix: PurePath) -> Iterator[None]:
    """Lock the environment `prefix` against other profiles of this checkout."""
    path = Path(builds) / _LOCK_FOLDER / f"{compute_text_sha256(str(prefix))[:16]}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print_line(f"another profile is at work in {prefix}: waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
