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

from tasks.cli.database import set_aside_damaged_database
from tasks.system import voice

_DOIT_OPEN, _DOIT_GET, _DOIT_CONTAINS = SqliteDB._sqlite3, SqliteDB._get_task_data, SqliteDB.in_
_DOIT_REMOVE, _DOIT_REMOVE_ALL, _DOIT_DUMP = SqliteDB.remove, SqliteDB.remove_all, SqliteDB.dump


def tolerate_database_errors() -> None:
    """From now on no run of this process ends for its database."""
    SqliteDB._sqlite3, SqliteDB._get_task_data, SqliteDB.in_ = (
        _open_database,
        _read_task_data,
        _has_task,
    )
    SqliteDB.remove, SqliteDB.remove_all, SqliteDB.dump = (
        _remove_task,
        _remove_all_tasks,
        _save_database,
    )


def _open_database(self: Any, name: str) -> Any:
    set_aside_damaged_database(Path(name))
    try:
        return _DOIT_OPEN(self, name)
    except (DatabaseException, sqlite3.Error) as error:
        why = error.__context__ or error  # doit calls all of them a bad format
        print(  # noqa: T201 - nobody listens yet
            f"warning: {name} cannot be opened: {why}; what is up to date is found out again, "
            "and is not saved",
            file=sys.stderr,
        )
        return _DOIT_OPEN(self, ":memory:")


def _read_task_data(self: Any, task_id: str) -> dict[str, Any]:
    """Nothing where it is damaged since it was opened, or holds what nobody of us wrote."""
    try:
        found = _DOIT_GET(self, task_id)
    except (sqlite3.Error, ValueError) as error:
        _warn_once(self, error, "read")
        return {}
    return found if isinstance(found, dict) else {}


def _has_task(self: Any, task_id: str) -> bool:
    try:
        return bool(_DOIT_CONTAINS(self, task_id))
    except (sqlite3.Error, ValueError) as error:
        _warn_once(self, error, "read")
        return False


def _remove_task(self: Any, task_id: str) -> None:
    try:
        _DOIT_REMOVE(self, task_id)
    except sqlite3.Error as error:
        _warn_once(self, error)


def _remove_all_tasks(self: Any) -> None:
    try:
        _DOIT_REMOVE_ALL(self)
    except sqlite3.Error as error:
        _warn_once(self, error)


def _save_database(self: Any) -> None:
    try:
        _DOIT_DUMP(self)
    except sqlite3.Error as error:
        self._conn.close()
        _warn_once(self, error)


def _warn_once(database: Any, error: Exception, could_not_be: str = "saved") -> None:
    if not getattr(database, "told", False):
        database.told = True
        voice.print_warning(
            f"what is up to date could not be {could_not_be}: {database.name}: {error}"
        )
