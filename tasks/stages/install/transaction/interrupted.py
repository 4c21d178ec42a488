"""What an install or a restore that was cut off had begun is ended, before anything else is."""

from __future__ import annotations

import datetime
from pathlib import Path, PurePath

from tasks.core.errors import BuildError
from tasks.stages.install.transaction import journal, settling
from tasks.stages.install.transaction.exchanging import Back, put_back
from tasks.stages.install.transaction.journal import ASIDE, CHANGE, FILES, HELD, RESTORING
from tasks.system import files
from tasks.system.voice import say, warn


def now() -> str:
    """A name for what happens now, which sorts by time."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")


def mend(replaced: PurePath) -> None:
    """Undo an install that was cut off, unless it only had to be written down; end a restore."""
    for stamp in journal.stamps(replaced):
        undo_change(stamp)
        one = journal.held(stamp)
        if one is None or (journal.is_restoring(stamp) and not journal.is_gone(one)):
            restore(stamp)


def undo_change(stamp: Path) -> None:
    """Put back what was there before the install at work. One that has been found to work is
    brought to its end.
    """
    at_work = journal.change(stamp)
    if at_work and at_work.state == "settling":
        settling.finish(stamp, at_work)
        return
    if at_work and not journal.is_gone(at_work.exchange):
        one = at_work.exchange
        tell(put_back(one, stamp / CHANGE / FILES, stamp / ASIDE / now()), one.prefix)
        say(f"an install into {one.prefix} had been cut off: what was there before it is back")
    settling.drop(stamp)


def restore(stamp: Path) -> Back | None:
    """Put back what was there before the first install; None where nothing lies there. Then
    nothing is left of the stamp but what is aside.
    """
    undo_change(stamp)
    one = journal.held(stamp)
    back = None
    if one and journal.is_gone(one):
        raise BuildError(
            f"the environment is not there any more that this was kept of: {one.prefix}",
            where=str(stamp),
            todo="once you need none of it, remove that folder",
        )
    if one:
        files.write_atomic(stamp / RESTORING, "")
        back = put_back(one, stamp / FILES, stamp / ASIDE / now())
        tell(back, one.prefix)
    (stamp / HELD).unlink(missing_ok=True)
    (stamp / RESTORING).unlink(missing_ok=True)
    # A KILL leaves what had not its name yet
    for left in list(stamp.iterdir()) if stamp.is_dir() else ():
        if left.name != ASIDE:
            files.remove_owned(left)
    settling.drop(stamp)
    return back


def tell(back: Back, prefix: str) -> None:
    """A person's own files are moved, and never without a word."""
    if back.moved:
        one = len(back.moved) == 1
        warn(
            f"{len(back.moved)} file{'' if one else 's'} in {prefix} {'was' if one else 'were'} "
            f"changed since, and {'is' if one else 'are'} now in {back.aside}"
        )
