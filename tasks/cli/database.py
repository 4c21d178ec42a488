"""doit's database: what it knows to be up to date. Without it doit asks everything once more, so
that a damaged one is put aside. One that only cannot be opened is left to who uses it
(`tasks.cli.running.uptodate`).
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

_LOCK_TIMEOUT = 0.2  # seconds: another doit that writes at that moment has a sound one
_DAMAGE_MESSAGES = ("malformed", "not a database")


def set_aside_damaged_database(path: Path) -> None:
    """Rename a database that is damaged to NAME.damaged, and say so; a place that cannot be written
    is no reason to end.
    """
    try:
        if not path.is_file() or not _is_damaged(path):
            return
        path.replace(path.with_name(f"{path.name}.damaged"))
    except OSError:
        return
    print(  # noqa: T201 - nobody listens yet
        f"warning: {path} was damaged and is put aside; what is up to date is found out again",
        file=sys.stderr,
    )


def _is_damaged(path: Path) -> bool:
    """A full disk, a lock or a file of somebody else's say nothing about what is in it."""
    try:
        with closing(sqlite3.connect(path, timeout=_LOCK_TIMEOUT)) as opened:
            return bool(opened.execute("pragma quick_check(1)").fetchone() != ("ok",))
    except sqlite3.OperationalError as error:
        return any(words in str(error) for words in _DAMAGE_MESSAGES)
    except sqlite3.DatabaseError:
        return True
