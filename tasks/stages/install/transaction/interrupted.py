"""What an install or a restore that was cut off had begun is ended, before anything else is."""

from __future__ import annotations

import datetime
from pathlib import Path, PurePath

from tasks.core.errors import TorchyardError
from tasks.stages.install.transaction import journal, settling
from tasks.stages.install.transaction.exchanging import Rollback, restore_files
from tasks.stages.install.transaction.journal import (
    ASIDE_FOLDER,
    BACKUP_FOLDER,
    PENDING_FOLDER,
    RECORD_FILE,
    RESTORING_MARKER,
)
from tasks.system import files
from tasks.system.voice import print_line, print_warning


def create_timestamp() -> str:
    """A name for what happens now, which sorts by time."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")


def recover_installs(replaced: PurePath) -> None:
    """Undo an install that was cut off, unless it only had to be written down; end a restore."""
    for stamp in journal.list_stamps(replaced):
        undo_pending(stamp)
        one = journal.read_record(stamp)
        if one is None or (journal.is_restoring(stamp) and not journal.is_environment_gone(one)):
            restore_environment(stamp)


def undo_pending(stamp: Path) -> None:
    """Put back what was there before the install at work. One that has been found to work is
    brought to its end.
    """
    at_work = journal.read_pending(stamp)
    if at_work and at_work.state == "settling":
        settling.finish_commit(stamp, at_work)
        return
    if at_work and not journal.is_environment_gone(at_work.exchange):
        one = at_work.exchange
        report_displaced_files(
            restore_files(
                one,
                stamp / PENDING_FOLDER / BACKUP_FOLDER,
                stamp / ASIDE_FOLDER / create_timestamp(),
            ),
            one.prefix,
        )
        print_line(
            f"an install into {one.prefix} had been cut off: what was there before it is back"
        )
    settling.discard_pending(stamp)


def restore_environment(stamp: Path) -> Rollback | None:
    """Put back what was there before the first install; None where nothing lies there. Then
    nothing is left of the stamp but what is aside.
    """
    undo_pending(stamp)
    one = journal.read_record(stamp)
    back = None
    if one and journal.is_environment_gone(one):
        raise TorchyardError(
            f"the environment is not there any more that this was kept of: {one.prefix}",
            location=str(stamp),
            hint="once you need none of it, remove that folder",
        )
    if one:
        files.write_atomic(stamp / RESTORING_MARKER, "")
        back = restore_files(one, stamp / BACKUP_FOLDER, stamp / ASIDE_FOLDER / create_timestamp())
        report_displaced_files(back, one.prefix)
    (stamp / RECORD_FILE).unlink(missing_ok=True)
    (stamp / RESTORING_MARKER).unlink(missing_ok=True)
    # A KILL leaves what had not its name yet
    for left in list(stamp.iterdir()) if stamp.is_dir() else ():
        if left.name != ASIDE_FOLDER:
            files.remove_owned(left)
    settling.discard_pending(stamp)
    return back


def report_displaced_files(back: Rollback, prefix: str) -> None:
    """A person's own files are moved, and never without a word."""
    if back.displaced:
        one = len(back.displaced) == 1
        print_warning(
            f"{len(back.displaced)} file{'' if one else 's'} in {prefix} {'was' if one else 'were'} "
            f"changed since, and {'is' if one else 'are'} now in {back.aside}"
        )
