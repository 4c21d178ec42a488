"""Read and write doit's database, in the format of doit's sqlite3 backend.

A database error never ends a run: it causes a warning, and the next run checks all stages.
"""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tasks.system import output

_LOCK_TIMEOUT = 0.2  # seconds to wait for another doit that is writing the database
_DAMAGE_MESSAGES = ("malformed", "not a database")


class Database:
    """A storage backend for doit, with one mapping per task. `dump` saves all mappings."""

    def __init__(self, name: str, codec: Any) -> None:
        self.name = name
        self._codec = codec
        self._cache: dict[str, dict[str, Any]] = {}
        self._changed: set[str] = set()
        self._has_warned = False
        # A project without a build has no folder yet: only a build creates it
        self._is_deferred = not Path(name).parent.is_dir()
        self._connection = connect(":memory:") if self._is_deferred else _open_database(name)

    def get(self, task_id: str, dependency: str) -> Any:
        """Return the value that a task has for the key `dependency`, or None if it is not set."""
        if task_id not in self._cache:
            self._cache[task_id] = self._read_task(task_id)
        return self._cache[task_id].get(dependency)

    def set(self, task_id: str, dependency: str, value: Any) -> None:
        """Set the value that a task has for the key `dependency`."""
        self._cache.setdefault(task_id, {})[dependency] = value
        self._changed.add(task_id)

    def in_(self, task_id: str) -> bool:
        """Return True if the task is in the database."""
        return bool(self._cache.get(task_id) or self._read_task(task_id))

    def remove(self, task_id: str) -> None:
        """Delete the task from the database."""
        self._cache.pop(task_id, None)
        self._changed.discard(task_id)
        with self._warn_on_error("save"):
            self._connection.execute('delete from "doit" where task_id=?', (task_id,))

    def remove_all(self) -> None:
        """Delete all tasks from the database."""
        self._cache.clear()
        self._changed.clear()
        with self._warn_on_error("save"):
            self._connection.execute("delete from doit")

    def dump(self) -> None:
        """Write the changes and close the database file."""
        rows = [(task_id, self._codec.encode(self._cache[task_id])) for task_id in self._changed]
        if self._is_deferred and Path(self.name).parent.is_dir():
            self._connection.close()
            self._connection = _open_database(self.name)
        with self._warn_on_error("save"), closing(self._connection) as connection, connection:
            connection.executemany('insert or replace into "doit" values (?,?)', rows)

    def _read_task(self, task_id: str) -> dict[str, Any]:
        query, document = 'select task_data from "doit" where task_id=?', None
        with self._warn_on_error("read"):
            if row := self._connection.execute(query, (task_id,)).fetchone():
                document = self._codec.decode(row[0])
        return document if isinstance(document, dict) else {}

    @contextmanager
    def _warn_on_error(self, verb: str) -> Iterator[None]:
        """Catch database errors, and print a warning for the first: "cannot VERB the state"."""
        try:
            yield
        except (sqlite3.Error, TypeError, ValueError) as error:
            if not self._has_warned:
                self._has_warned = True
                output.print_warning(
                    f"cannot {verb} the state of the tasks in {self.name}: {error}; "
                    "the next run checks all of them"
                )


def _open_database(name: str) -> sqlite3.Connection:
    set_aside_damaged_database(Path(name))
    try:
        return connect(name)
    except sqlite3.Error as error:
        _print_early_warning(
            f"cannot open {name}: {error}; all tasks are checked again, and the result is not saved"
        )
        return connect(":memory:")


def _print_early_warning(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)  # noqa: T201 - no console listens yet


def connect(name: str) -> sqlite3.Connection:
    """Open the database file and create doit's table if it is missing. Raises `sqlite3.Error`."""
    connection = sqlite3.connect(name)
    try:
        connection.execute(
            "create table if not exists doit (task_id text not null primary key, task_data json)"
        )
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def set_aside_damaged_database(path: Path) -> None:
    """Rename a damaged database to NAME.damaged and print a warning; do nothing if this fails."""
    try:
        if not path.is_file() or not _is_damaged(path):
            return
        renamed = path.replace(path.with_name(f"{path.name}.damaged"))
    except OSError:
        return
    message = f"it is now {renamed.name}, and all tasks are checked again"
    _print_early_warning(f"{path} was damaged; {message}")


def _is_damaged(path: Path) -> bool:
    """Return True if SQLite reports damage, and False for a full disk, a lock or denied access."""
    try:
        with closing(sqlite3.connect(path, timeout=_LOCK_TIMEOUT)) as connection:
            return bool(connection.execute("pragma quick_check(1)").fetchone() != ("ok",))
    except sqlite3.OperationalError as error:
        return any(words in str(error) for words in _DAMAGE_MESSAGES)
    except sqlite3.DatabaseError:
        return True
