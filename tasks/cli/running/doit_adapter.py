"""What doit is told to report to: a run's head, its failures and its end go to the console.

The stages' own lines come from `tasks.cli.running.execute`. INT and TERM are taken here, because
doit makes the reporter before it runs anything.
"""

from __future__ import annotations

import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from doit.dependency import DatabaseException, SqliteDB
from doit.exceptions import TaskFailed, UnmetDependency

from tasks.core.model import STAGE_VERBS
from tasks.system import output
from tasks.system.console import Console

_BUILDING_TASKS = {"build", *STAGE_VERBS}


def list_exit_signals() -> tuple[signal.Signals, ...]:
    """A terminal that is closed ends the run like TERM, unless nohup was asked to prevent that."""
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is None or signal.getsignal(hangup) == signal.SIG_IGN:
        return (signal.SIGINT, signal.SIGTERM)
    return (signal.SIGINT, signal.SIGTERM, hangup)


def _ignore_exit_signals() -> None:
    for number in list_exit_signals():
        signal.signal(number, signal.SIG_IGN)


class Reporter:
    """doit tells it what happens; the stages' own lines come from `execution`."""

    desc = "torchyard's lines"
    console: Console
    selected: set[str]
    end: Callable[[int], None]

    def __init__(self, outstream: Any, options: Any) -> None:
        self.building = False
        self.code = 0  # that doit is going to exit with
        output.set_listener(self.console)
        for number in list_exit_signals():
            signal.signal(number, self._exit_on_signal)

    def initialize(self, tasks: Any, selected_tasks: Any) -> None:
        """The tasks are known; those that build get the head."""
        self.selected.update(map(str, selected_tasks or ()))
        rooms = {str(name).partition(":")[0] for name in selected_tasks or ()}
        self.building = self.console.plan is not None and bool(_BUILDING_TASKS & rooms)
        if self.building:
            self.console.print_header()

    def add_failure(self, task: Any, fail: Any) -> None:
        """A task failed; what depends on it is not tried, which needs no word of its own. One that
        was at work beside others has been told already (`execution`).
        """
        if isinstance(fail, UnmetDependency):
            fail.__class__ = TaskFailed  # doit would end with 2, which means a bug of ours
            return
        self.code = max(self.code, 1 if isinstance(fail, TaskFailed) else 2)
        if fail.report:
            self.console.report_failure(task.name, fail.get_msg())

    def complete_run(self) -> None:
        """The run is over, and doit's state is saved: whoever ends it now is told how it went."""
        _ignore_exit_signals()
        if self.building:
            self.end(self.code)

    def runtime_error(self, msg: str) -> None:
        """doit itself cannot go on."""
        self.code = 2
        self.console.report_failure("doit", msg)

    def cleanup_error(self, exception: Any) -> None:
        """A clean action failed."""
        self.console.report_failure("clean", exception.get_msg())

    def _exit_on_signal(self, number: int, _: object) -> None:
        """INT and TERM end the run in order, once: children are ended, doit saves its state, and
        128 + number is the exit code.
        """
        _ignore_exit_signals()
        self.console.interrupted, self.code = True, 128 + number
        if interrupt := sys.modules.get("tasks.system.process_group"):
            interrupt.interrupt_all()
        raise SystemExit(self.code)

    def _ignore_event(self, *_: Any) -> None:
        """doit tells more than a person wants to read."""

    get_status = execute_task = add_success = _ignore_event
    skip_uptodate = skip_ignore = teardown_task = _ignore_event


def build_reporter_class(
    console: Console, selected: set[str], end: Callable[[int], None] | None = None
) -> type[Reporter]:
    """A doit reporter class that speaks through `console`, and puts into `selected` what a person
    asked for: doit makes the instance itself. A run that builds ends by `end`, which is given the
    exit code.
    """
    ended = end or (lambda _: console.print_summary())
    given = {"console": console, "selected": selected, "end": staticmethod(ended)}
    return type("TorchyardReporter", (Reporter,), given)


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
    if not getattr(database, "has_warned", False):
        database.has_warned = True
        output.print_warning(
            f"what is up to date could not be {could_not_be}: {database.name}: {error}"
        )
