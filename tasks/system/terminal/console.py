"""What a person sees of a run: who and why first, then a line for each stage, then what came of it.

It listens to `tasks.system.voice`. On a terminal the stages at work show live progress in place;
elsewhere (CI, a pipe) each line is written once, and a long build leaves one now and then. Where
several are at work each line names its own. It decides nothing.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from tasks.core.formatting import bar
from tasks.core.formatting.duration import elapsed
from tasks.core.formatting.lines import hanging
from tasks.core.model import Plan, Stage
from tasks.system.terminal.screen import Screen
from tasks.system.typed import for_profile
from tasks.system.voice import speaker

if TYPE_CHECKING:
    from tasks.core.progress import Minutes, Progress

VERBS = {
    "deps": ("Preparing", "Prepared"),
    "source": ("Reading", "Read"),
    "env": ("Rendering", "Rendered"),
    "compile": ("Compiling", "Compiled"),
    "wheel": ("Installing", "Installed"),
    "extensions": ("Building", "Built"),
    "install": ("Handing over", "Handed over"),
    "validate": ("Validating", "Validated"),
}
Outcome = Literal["changed", "unchanged", "skipped"]
_BUILDING = ("compile", "wheel", "extensions", "install")
_WIDTH = 12


def _no_minutes() -> Minutes:
    from tasks.core.progress import Minutes  # noqa: PLC0415 - only where something is at work

    return Minutes()


@dataclass(frozen=True)
class _Said:
    """What the stage at work said last, and when."""

    text: str
    progress: Progress | None
    when: float


@dataclass
class _Work:
    """A stage at work."""

    doing: str
    what: str
    started: float
    said: _Said
    minutes: Minutes = field(default_factory=_no_minutes)


class Console:
    """The lines of one run."""

    def __init__(
        self,
        plan: Plan | None,
        out: TextIO | None = None,
        notices: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.plan = plan
        self.notices = notices
        self.profile = ""  # added to the commands in messages; "" adds none
        self.screen = Screen(out or sys.stdout)
        self.started = time.monotonic()
        self.ran = 0
        self.failed = False
        self.interrupted = False
        self._headed = False
        self._has_built = False  # before this run or in it
        self._works: dict[str, _Work] = {}
        self._lock = threading.RLock()  # stages begin and end in threads of their own

    def head(self) -> None:
        """Profile, strategy, target, torch, toolkit and places, each with its reason: once, before
        any work.
        """
        if self._headed or self.plan is None:
            return
        self._headed = True
        built = [path for room in _BUILDING for one in self.plan.of(room) for path in one.leaves]
        self._has_built = any(Path(path).is_file() for path in built)
        for key, value in self.plan.headline:
            self._line(key, value, style="")
        for warning in (*self.plan.warnings, *self.notices()):
            self.warn(warning)

    def begin(self, stage: Stage, reason: str) -> None:
        """A stage starts."""
        self.ran += 1
        doing, what, now = VERBS[stage.room][0], _subject(stage), time.monotonic()
        with self._lock:
            self._works[stage.name] = _Work(doing, what, now, _Said(reason, None, now))
            if not self.screen.live:
                self._line(doing, f"{what} ({reason})")
            elif len(self._works) == 1:
                self.screen.follow(self._moving)

    def end(self, stage: Stage, reason: str, outcome: Outcome) -> None:
        """A stage is done. One that only looked and found nothing moved says so."""
        took = self._rest(stage.name)
        self._has_built |= stage.room in _BUILDING and outcome != "skipped"
        done, what = VERBS[stage.room][1], _subject(stage)
        if outcome == "skipped":
            self.ran -= 1
            self._line("Skipped", stage.name, style="1;33")
        elif outcome == "unchanged" and stage.asks == "always" and stage.room != "validate":
            self.ran -= 1
            self._line("Unchanged", f"{stage.name} in {took}", style="")
        else:
            why = f" ({reason})" if self.screen.live else ""
            self._line(done, f"{what} in {took}{why}")

    def say(self, text: str) -> None:
        """A line to keep."""
        self._line("", self._named(self._for_profile(text)), style="")

    def show(self, text: str) -> None:
        """Lines of a report, as they are."""
        self.screen.write(self._fitted(text))

    def warn(self, text: str) -> None:
        """A line that must not be missed."""
        self._line("Warning", self._named(self._for_profile(text)), style="1;33")

    def tick(self, text: str, progress: Progress | None = None) -> None:
        """What the stage at work does, and how far it is."""
        # A child's last words may come when its stage is over. And who calls reads its output: if
        # a closed pipe or terminal ended that, the child would wait for ever.
        with contextlib.suppress(OSError, ValueError):
            if work := self._speaking():
                self._follow(work, text, progress)

    def fail(self, name: str, message: str, verb: str = "Failed") -> None:
        """A stage failed, or the run could not begin: what, where, what to do."""
        self.failed = True
        self._rest(name)
        self._line(verb, name, style="1;31")
        self.screen.write(self._fitted(message.rstrip()))

    def close(self) -> None:
        """The last line of a run that had something to build."""
        self._works.clear()
        self.screen.settle()
        took = elapsed(time.monotonic() - self.started)
        if self.interrupted:
            again = "nothing is lost: the same command goes on from here"
            self._line("Interrupted", f"after {took}; {again}", style="1;33")
        elif self.failed:
            kept = "; what was built before is still there" if self._has_built else ""
            self._line("Stopped", f"after {took}{kept}", style="1;31")
        elif self.ran:
            self._line("Finished", f"in {took}")
        else:
            self._line("Up to date", f"nothing to do ({took})")

    def _follow(self, work: _Work, text: str, progress: Progress | None) -> None:
        now = time.monotonic()
        work.said = _Said(text, progress, now)
        if self.screen.live:
            self.screen.redraw()
        elif progress and work.minutes.reached(progress, now - work.started):
            self._line(work.doing, f"{work.what} {elapsed(now - work.started)}: {progress}")

    def _speaking(self) -> _Work | None:
        """Whose words are heard, None where that stage is over. Who does not say is the last."""
        works = list(self._works.values())
        return self._works.get(speaker()) if speaker() else next(reversed(works), None)

    def _for_profile(self, text: str) -> str:
        return for_profile(text, self.profile) if self.profile else text

    def _named(self, text: str) -> str:
        """With the name of its stage, where it could be of another."""
        work = self._speaking() if len(self._works) > 1 else None
        return f"{work.what.rpartition(':')[2]}: {text}" if work else text

    def _rest(self, name: str) -> str:
        """That stage is not at work any more; how long it was."""
        with self._lock:
            work = self._works.pop(name, None)
            if not self._works:
                self.screen.settle()
        return elapsed(time.monotonic() - (work.started if work else self.started))

    def _moving(self, space: bar.Space) -> str:
        """The lines of the stages at work: a few of one, one of each where they are several."""
        works = list(self._works.values())
        if len(works) == 1:
            return bar.lines(*self._told(works[0]), space)
        shown = works[: max(space.rows - 1, 1)]
        return "\n".join(bar.line(*self._told(work), space.columns, space.glyphs) for work in shown)

    def _told(self, work: _Work) -> tuple[str, str, Progress | None]:
        now, said = time.monotonic(), work.said
        doing = "Stopping" if self.interrupted else work.doing
        head = f"{doing:>{_WIDTH}} {work.what} {elapsed(now - work.started)}"
        progress = said.progress.after(now - said.when) if said.progress else None
        return head, self.screen.spelled(said.text), progress

    def _fitted(self, text: str, indent: int = 0) -> str:
        """In lines that a terminal need not break in the middle of a word."""
        room = self.screen.room - indent
        return hanging(text, room, self.screen.spelled) if self.screen.live else text

    def _line(self, verb: str, text: str, style: str = "1;32") -> None:
        padded = f"{verb:>{_WIDTH}}"
        below = f"\n{'':{_WIDTH + 1}}"
        told = self._fitted(text, _WIDTH + 1).replace("\n", below)
        self.screen.write(f"{self.screen.paint(padded, style)} {told}")


def _subject(stage: Stage) -> str:
    """What a stage works on. Where its verb is its name already, its name would tell nothing."""
    if stage.room == "compile":
        return getattr(stage.job, "target", None) or "PyTorch"
    if stage.room == "install":
        return f"to {stage.job.into}"
    return "the build" if stage.room == "validate" else stage.name
