"""What a person sees of a run: who and why first, then a line for each stage, then what came of it.

A doit reporter and the listener of `tasks.effects.voice`. On a terminal the stage at work shows
live progress in place; elsewhere (CI, a pipe) each line is written once. It decides nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, TextIO

from tasks.duration import elapsed
from tasks.effects import voice
from tasks.model import Plan, Stage

_VERBS = {
    "deps": ("Preparing", "Prepared"),
    "source": ("Reading", "Read"),
    "env": ("Rendering", "Rendered"),
    "compile": ("Compiling", "Compiled"),
    "wheel": ("Installing", "Installed"),
    "extensions": ("Building", "Built"),
    "validate": ("Validating", "Validated"),
}
Outcome = Literal["changed", "unchanged", "skipped"]
_BUILDS = {"build", *_VERBS}
_WIDTH = 12


class Console:
    """The lines of one run."""

    def __init__(
        self, plan: Plan | None, out: TextIO | None = None, drift: Callable[[], str] = str
    ) -> None:
        self.plan = plan
        self.drift = drift
        self.out = out or sys.stdout
        self.live = self.out.isatty() and os.environ.get("CI") is None
        self.started = time.monotonic()
        self.stage_started = self.started
        self.ran = 0
        self.failed = False
        self.interrupted = False
        self._headed = False
        self._transient = ""
        self._doing = self._stage = ""

    # what the run itself tells

    def head(self) -> None:
        """Profile, strategy, target, torch, toolkit and places, each with its reason: once, before
        any work.
        """
        if self._headed or self.plan is None:
            return
        self._headed = True
        for key, value in self.plan.headline:
            self._line(key, value, bold=False)
        for warning in (*self.plan.warnings, self.drift()):
            if warning:
                self.warn(warning)

    def begin(self, stage: Stage, reason: str) -> None:
        """A stage starts."""
        self.stage_started = time.monotonic()
        self.ran += 1
        self._doing, self._stage = _VERBS[stage.room][0], stage.name
        text = self._format(self._doing, f"{stage.name} ({reason})")
        self._show(text) if self.live else self.out.write(text + "\n")
        self.out.flush()

    def end(self, stage: Stage, reason: str, outcome: Outcome) -> None:
        """A stage is done. One that only looked and found nothing moved says so."""
        took = elapsed(time.monotonic() - self.stage_started)
        done = _VERBS[stage.room][1]
        if outcome == "skipped":
            self.ran -= 1
            self._line("Skipped", stage.name, colour="33")
        elif outcome == "unchanged" and stage.asks == "always" and stage.room != "validate":
            self.ran -= 1
            self._line("Unchanged", f"{stage.name} in {took}", bold=False)
        else:
            self._line(done, f"{stage.name} in {took}" + (f" ({reason})" if self.live else ""))

    def say(self, text: str) -> None:
        """A line to keep."""
        self._clear()
        self.out.write(f"{'':{_WIDTH}} {text}\n")
        self.out.flush()

    def show(self, text: str) -> None:
        """Lines of a report, as they are."""
        self._clear()
        self.out.write(text + "\n")
        self.out.flush()

    def warn(self, text: str) -> None:
        """A line that must not be missed."""
        self._line("Warning", text, colour="33")

    def tick(self, text: str) -> None:
        """Progress of the stage at work; a terminal shows it."""
        if self.live:
            took = elapsed(time.monotonic() - self.stage_started)
            self._show(self._format(self._doing, f"{self._stage} {took}: {text}"))

    def fail(self, name: str, message: str) -> None:
        """A stage failed: what, where, what to do."""
        self.failed = True
        self._line("Failed", name, colour="31")
        self.out.write(message.rstrip() + "\n")

    def close(self) -> None:
        """The last line of a run that had something to build."""
        self._clear()
        took = elapsed(time.monotonic() - self.started)
        if self.interrupted:
            again = "nothing is lost: the same command goes on from here"
            self._line("Interrupted", f"after {took}; {again}", colour="33")
        elif self.failed:
            self._line(
                "Stopped", f"after {took}; what was built before is still there", colour="31"
            )
        elif self.ran:
            self._line("Finished", f"in {took}")
        else:
            self._line("Up to date", f"nothing to do ({took})")

    # how lines look

    def _line(self, verb: str, text: str, *, bold: bool = True, colour: str = "32") -> None:
        self._clear()
        self.out.write(self._format(verb, text, f"1;{colour}" if bold else "") + "\n")
        self.out.flush()

    def _format(self, verb: str, text: str, style: str = "1;36") -> str:
        padded = f"{verb:>{_WIDTH}}"
        return f"\x1b[{style}m{padded}\x1b[0m {text}" if self.live and style else f"{padded} {text}"

    def _show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns + (
            len("\x1b[1;36m\x1b[0m") if "\x1b" in text else 0
        )
        self._clear()
        self._transient = text[: width - 1]
        self.out.write(self._transient)
        self.out.flush()

    def _clear(self) -> None:
        if self._transient:
            self.out.write("\r\x1b[2K")
            self._transient = ""


class Reporter:
    """doit tells it what happens; the stages' own lines come from `graph.execute`."""

    desc = "torchyard's lines"
    console: Console

    def __init__(self, outstream: Any, options: Any) -> None:
        self.building = False
        voice.listen(self.console)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._leave)

    def initialize(self, tasks: Any, selected_tasks: Any) -> None:
        """The tasks are known; those that build get the head."""
        rooms = {str(name).partition(":")[0] for name in selected_tasks or ()}
        self.building = self.console.plan is not None and bool(_BUILDS & rooms)
        if self.building:
            self.console.head()

    def add_failure(self, task: Any, fail: Any) -> None:
        """A task failed; what depends on it is not tried."""
        self.console.fail(task.name, fail.get_msg() if fail.report else "")

    def complete_run(self) -> None:
        """The run is over."""
        if self.building:
            self.console.close()

    def runtime_error(self, msg: str) -> None:
        """doit itself cannot go on."""
        self.console.fail("doit", msg)

    def cleanup_error(self, exception: Any) -> None:
        """A clean action failed."""
        self.console.fail("clean", exception.get_msg())

    def _leave(self, number: int, _: object) -> None:
        """INT and TERM end the run in order, once: children are ended, doit saves its state, and
        128 + number is the exit code.
        """
        for again in (signal.SIGINT, signal.SIGTERM):
            signal.signal(again, signal.SIG_IGN)
        self.console.interrupted = True
        if interrupt := sys.modules.get("tasks.effects.process_group"):
            interrupt.interrupt_all()
        raise SystemExit(128 + number)

    def _quiet(self, *_: Any) -> None:
        """doit tells more than a person wants to read."""

    get_status = execute_task = add_success = _quiet
    skip_uptodate = skip_ignore = teardown_task = _quiet


def reporter_for(console: Console) -> type[Reporter]:
    """A doit reporter class that speaks through `console`: doit makes the instance itself."""
    return type("TorchyardReporter", (Reporter,), {"console": console})
