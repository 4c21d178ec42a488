"""Implement doit's reporter, which prints the header, the failures and the end of a run."""

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
    """Return the signals that end a run: INT, TERM, and HUP unless it is ignored (nohup)."""
    hangup = getattr(signal, "SIGHUP", None)
    is_ignored = hangup is None or signal.getsignal(hangup) == signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if is_ignored else (hangup,)))


def _handle_exit_signals(handler: Any) -> None:
    for number in list_exit_signals():
        signal.signal(number, handler)


class Reporter:
    """doit's reporter. It adds the requested tasks to `selected`, and calls `end` after a build."""

    desc = "the output of torchyard"
    console: Console
    selected: set[str]
    end: Callable[[int], None]

    def __init__(self, outstream: Any, options: Any) -> None:
        self.building = False
        self.code = 0
        output.set_listener(self.console)
        _handle_exit_signals(self._exit_on_signal)

    def initialize(self, tasks: Any, selected_tasks: Any) -> None:
        """Store the selected tasks; print the run header if one of these tasks builds something."""
        names = set(map(str, selected_tasks or ()))
        self.selected.update(names)
        kinds = {name.partition(":")[0] for name in names}
        self.building = self.console.plan is not None and bool(_BUILDING_TASKS & kinds)
        if self.building:
            self.console.print_header()

    def add_failure(self, task: Any, fail: Any) -> None:
        """Report a failed task, but not the tasks that doit skips because of the failure."""
        if isinstance(fail, UnmetDependency):
            fail.__class__ = TaskFailed  # doit would return 2, which means a bug in torchyard
            return
        self.code = max(self.code, 1 if isinstance(fail, TaskFailed) else 2)
        if fail.report:
            self.console.report_failure(task.name, fail.get_msg())

    def complete_run(self) -> None:
        """Finish the run after doit has saved its state. Signals are ignored from here on."""
        _handle_exit_signals(signal.SIG_IGN)
        if self.building:
            self.end(self.code)

    def runtime_error(self, msg: str) -> None:
        """Report an error of doit itself."""
        self.code = 2
        self.console.report_failure("doit", msg)

    def cleanup_error(self, exception: Any) -> None:
        """Report a failed clean action."""
        self.console.report_failure("clean", exception.get_msg())

    def _exit_on_signal(self, number: int, _: object) -> None:
        """Stop child processes, let doit save its state, and exit with the code 128 + `number`."""
        _handle_exit_signals(signal.SIG_IGN)
        self.console.interrupted, self.code = True, 128 + number
        if interrupt := sys.modules.get("tasks.system.process_group"):
            interrupt.interrupt_all()
        raise SystemExit(self.code)

    def _ignore_event(self, *_: Any) -> None:
        """Ignore an event of doit that needs no output."""

    get_status = execute_task = add_success = _ignore_event
    skip_uptodate = skip_ignore = teardown_task = _ignore_event


def build_reporter_class(
    console: Console, selected: set[str], end: Callable[[int], None] | None = None
) -> type[Reporter]:
    """Return a `Reporter` class with these attributes, because doit creates the reporter."""
    callback = end or (lambda _: console.print_summary())
    attributes = {"console": console, "selected": selected, "end": staticmethod(callback)}
    return type("TorchyardReporter", (Reporter,), attributes)
