"""doit's database where it cannot be written, or opened: what is up to date is then not saved,
which is told once, and the run goes on. doit by itself ends there with a traceback, before it tells
the failure of a stage.

doit has chosen its class for it before it reads dodo.py, so the methods of that class are replaced.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

from doit.dependency import DatabaseException, SqliteDB

from tasks.effects import voice
from tasks.effects.database import see_that_it_can_be_read

_OPEN, _REMOVE, _DUMP = SqliteDB._sqlite3, SqliteDB.remove, SqliteDB.dump


def go_on_without_saving() -> None:
    """From now on no run of this process ends for its database."""
    SqliteDB._sqlite3, SqliteDB.remove, SqliteDB.dump = _opened, _remove, _dump


def _opened(self: Any, name: str) -> Any:
    see_that_it_can_be_read(Path(name))
    try:
        return _OPEN(self, name)
    except (DatabaseException, sqlite3.Error) as error:
        why = error.__context__ or error  # doit calls all of them a bad format
        print(  # noqa: T201 - nobody listens yet
            f"warning: {name} cannot be opened: {why}; what is up to date is found out again, "
            "and is not saved",
            file=sys.stderr,
        )
        return _OPEN(self, ":memory:")


def _remove(self: Any, task_id: str) -> None:
    try:
        _REMOVE(self, task_id)
    except sqlite3.Error as error:
        _tell(self, error)


def _dump(self: Any) -> None:
    try:
        _DUMP(self)
    except sqlite3.Error as error:
        self._conn.close()
        _tell(self, error)


def _tell(database: Any, error: sqlite3.Error) -> None:
    if not getattr(database, "told", False):
        database.told = True
        voice.warn(f"what is up to date could not be saved: {database.name}: {error}")
