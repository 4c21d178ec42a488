"""What doit is told to report to: a run's head, its failures and its end go to the console.

The stages' own lines come from `tasks.cli.running.execute`. INT and TERM are taken here, because
doit makes the reporter before it runs anything.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any

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
    exit_code: int  # of the run, once it is over

    def __init__(self, outstream: Any, options: Any) -> None:
        self.building = False
        self.code = 0
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
            return
        self.code = max(self.code, 1 if isinstance(fail, TaskFailed) else 2)
        if fail.report:
            self.console.report_failure(task.name, fail.get_msg())

    def complete_run(self) -> None:
        """The run is over, and doit's state is saved: whoever ends it now is told how it went."""
        _ignore_exit_signals()
        type(self).exit_code = self.code
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
