"""doit's database where it cannot be read, written or opened: what is up to date is then found out
again, or not saved, which is told once, and the run goes on. doit by itself ends there with a
traceback, before it tells the failure of a stage.

doit has chosen its class for it before it reads dodo.py, so the methods of that class are replaced.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

from doit.dependency import DatabaseException, SqliteDB

from tasks.cli.database import see_that_it_can_be_read
from tasks.system import voice

_OPEN, _GET, _IN = SqliteDB._sqlite3, SqliteDB._get_task_data, SqliteDB.in_
_REMOVE, _REMOVE_ALL, _DUMP = SqliteDB.remove, SqliteDB.remove_all, SqliteDB.dump


def go_on_without_saving() -> None:
    """From now on no run of this process ends for its database."""
    SqliteDB._sqlite3, SqliteDB._get_task_data, SqliteDB.in_ = _opened, _known, _is_known
    SqliteDB.remove, SqliteDB.remove_all, SqliteDB.dump = _remove, _remove_all, _dump


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


def _known(self: Any, task_id: str) -> dict[str, Any]:
    """Nothing where it is damaged since it was opened, or holds what nobody of us wrote."""
    try:
        found = _GET(self, task_id)
    except (sqlite3.Error, ValueError) as error:
        _tell(self, error, "read")
        return {}
    return found if isinstance(found, dict) else {}


def _is_known(self: Any, task_id: str) -> bool:
    try:
        return bool(_IN(self, task_id))
    except (sqlite3.Error, ValueError) as error:
        _tell(self, error, "read")
        return False


def _remove(self: Any, task_id: str) -> None:
    try:
        _REMOVE(self, task_id)
    except sqlite3.Error as error:
        _tell(self, error)


def _remove_all(self: Any) -> None:
    try:
        _REMOVE_ALL(self)
    except sqlite3.Error as error:
        _tell(self, error)


def _dump(self: Any) -> None:
    try:
        _DUMP(self)
    except sqlite3.Error as error:
        self._conn.close()
        _tell(self, error)


def _tell(database: Any, error: Exception, could_not_be: str = "saved") -> None:
    if not getattr(database, "told", False):
        database.told = True
        voice.warn(f"what is up to date could not be {could_not_be}: {database.name}: {error}")
