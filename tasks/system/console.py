"""Print the output of a run: a header, a line for each stage, live lines, and a summary."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from tasks.core import text_layout
from tasks.core.model import STAGE_VERBS, Plan, Stage
from tasks.core.text_formatting import format_duration
from tasks.core.text_layout import wrap_with_hanging_indent
from tasks.system.invocation import adapt_message, add_profile_argument
from tasks.system.output import read_output_stage
from tasks.system.screen import Screen, colour_text

if TYPE_CHECKING:
    from tasks.core.ninja_progress import Progress, ProgressThrottle

Outcome = Literal["changed", "unchanged", "skipped"]
_BUILDING_KINDS = ("compile", "wheel", "extensions", "install")
_VERB_COLUMNS = 12


@dataclass
class _RunningStage:
    """A running stage. `text` is its latest output, received at the monotonic time `updated`."""

    verb: str
    subject: str
    started: float
    updated: float
    text: str
    throttle: ProgressThrottle
    progress: Progress | None = None


class Console:
    """The terminal output of one run."""

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
        self._has_built = False  # True once a build output exists
        self._works: dict[str, _RunningStage] = {}
        self._lock = threading.RLock()  # stages begin and end in several threads

    def print_header(self) -> None:
        """Print the header (profile, targets, ...) and the warnings; later calls do nothing."""
        if self._headed or self.plan is None:
            return
        self._headed = True
        stages = [stage for kind in _BUILDING_KINDS for stage in self.plan.find_stages(kind)]
        self._has_built = any(Path(path).is_file() for stage in stages for path in stage.outputs)
        for key, value in self.plan.headline:
            self._write_status_line(key, value, style="")
        for warning in (*self.plan.warnings, *self.notices()):
            self.print_warning(warning)

    def begin_stage(self, stage: Stage, reason: str) -> None:
        """Show that a stage starts, and why it has to run."""
        from tasks.core.ninja_progress import ProgressThrottle  # noqa: PLC0415 - only if a stage runs

        self.ran += 1
        verb, subject, now = STAGE_VERBS[stage.kind][0], _describe_subject(stage), time.monotonic()
        work = _RunningStage(verb, subject, now, now, reason, ProgressThrottle())
        with self._lock:
            self._works[stage.name] = work
            if not self.screen.live:
                self._write_status_line(verb, f"{subject} ({reason})")
            elif len(self._works) == 1:
                self.screen.start_live_lines(self._draw_running_stages)

    def end_stage(self, stage: Stage, reason: str, outcome: Outcome) -> None:
        """Print that a stage has ended, with its duration, or that the stage was skipped."""
        elapsed = self._remove_running_stage(stage.name)
        self._has_built |= stage.kind in _BUILDING_KINDS and outcome != "skipped"
        verb, subject = STAGE_VERBS[stage.kind][1], _describe_subject(stage)
        is_check = stage.uptodate_check == "always" and stage.kind != "validate"
        if outcome == "skipped":
            self.ran -= 1
            self._write_status_line("Skipped", stage.name, style="1;33")
        elif outcome == "unchanged" and is_check:
            self.ran -= 1
            self._write_status_line("Unchanged", f"{stage.name} in {elapsed}", style="")
        else:
            suffix = f" ({reason})" if self.screen.live else ""
            self._write_status_line(verb, f"{subject} in {elapsed}{suffix}")

    def print_line(self, text: str) -> None:
        """Print a line that stays on the terminal, above the live lines."""
        self._write_status_line("", self._complete_line(text), style="")

    def print_report(self, text: str) -> None:
        """Print a report; on a terminal, wrap its lines."""
        self.screen.write_lines(self._wrap_text(text))

    def print_warning(self, text: str) -> None:
        """Print a warning."""
        self._write_status_line("Warning", self._complete_line(text), style="1;33")

    def show_progress(self, text: str, progress: Progress | None = None) -> None:
        """Show the current step of the running stage, and the progress of the step."""
        # A child's last output may arrive after its stage ended. The caller reads that output: if a
        # closed pipe or terminal stopped the caller, the child would wait for ever.
        with contextlib.suppress(OSError, ValueError):
            if not (work := self._find_current_stage()):
                return
            now = time.monotonic()
            work.text, work.progress, work.updated = text, progress, now
            if self.screen.live:
                self.screen.redraw_live_lines()
            elif progress and work.throttle.should_log(progress, now - work.started):
                elapsed = format_duration(now - work.started)
                self._write_status_line(work.verb, f"{work.subject} {elapsed}: {progress}")

    def report_failure(self, name: str, message: str, verb: str = "Failed") -> None:
        """Print why the stage or run `name` failed, after a line that begins with `verb`."""
        self.failed = True
        self._remove_running_stage(name)
        self._write_status_line(verb, name, style="1;31")
        self.screen.write_lines(self._wrap_text(message.rstrip()))

    def print_summary(self) -> None:
        """Print the last line of a run: its outcome and its duration."""
        self._works.clear()
        self.screen.stop_live_lines()
        elapsed = format_duration(time.monotonic() - self.started)
        if self.interrupted:
            advice = f"after {elapsed}; to continue, run the same command again"
            self._write_status_line("Interrupted", advice, style="1;33")
        elif self.failed:
            suffix = "; the finished stages are kept" if self._has_built else ""
            self._write_status_line("Stopped", f"after {elapsed}{suffix}", style="1;31")
        elif self.ran:
            self._write_status_line("Finished", f"in {elapsed}")
        else:
            self._write_status_line("Up to date", f"nothing to do ({elapsed})")

    def _find_current_stage(self) -> _RunningStage | None:
        """Return the stage of the current output, else the stage that started last."""
        name = read_output_stage() or next(reversed(list(self._works)), "")
        return self._works.get(name)

    def _complete_line(self, text: str) -> str:
        """Add the profile to commands in `text`; if several stages run, prepend the stage."""
        text = add_profile_argument(text, self.profile) if self.profile else text
        work = self._find_current_stage() if len(self._works) > 1 else None
        return f"{work.subject.rpartition(':')[2]}: {text}" if work else text

    def _remove_running_stage(self, name: str) -> str:
        """Remove a stage that has ended. Return its duration as text."""
        with self._lock:
            work = self._works.pop(name, None)
            if not self._works:
                self.screen.stop_live_lines()
        return format_duration(time.monotonic() - (work.started if work else self.started))

    def _draw_running_stages(self, space: text_layout.DrawingArea) -> str:
        """Return the live lines, which show the running stages."""
        rows, now = [], time.monotonic()
        for work in list(self._works.values()):
            verb = "Stopping" if self.interrupted else work.verb
            head = f"{verb:>{_VERB_COLUMNS}} {work.subject} {format_duration(now - work.started)}"
            progress = work.progress and work.progress.advance_time(now - work.updated)
            rows.append((head, self.screen.encode_with_fallback(work.text), progress))
        if len(rows) == 1:
            return text_layout.format_progress_lines(*rows[0], space)
        format_line = text_layout.format_progress_line
        visible = rows[: max(space.rows - 1, 1)]
        return "\n".join(format_line(*row, space.columns, space.glyphs) for row in visible)

    def _wrap_text(self, text: str, indent: int = 0) -> str:
        """Return `text` for this project, wrapped to the terminal's width unless it is a log."""
        text = adapt_message(text)
        if not self.screen.live:
            return text
        columns = self.screen.read_terminal_size()[0] - indent
        return wrap_with_hanging_indent(text, columns, self.screen.encode_with_fallback)

    def _write_status_line(self, verb: str, text: str, style: str = "1;32") -> None:
        padded = f"{verb:>{_VERB_COLUMNS}}"
        continuation = f"\n{'':{_VERB_COLUMNS + 1}}"
        wrapped = self._wrap_text(text, _VERB_COLUMNS + 1).replace("\n", continuation)
        self.screen.write_lines(f"{colour_text(padded, style, self.screen.out)} {wrapped}")


def _describe_subject(stage: Stage) -> str:
    """Return the words that follow the verb in a stage's status line, for example `PyTorch`."""
    if stage.kind == "compile":
        return getattr(stage.job, "target", None) or "PyTorch"
    if stage.kind == "install":
        return f"into {stage.job.into}"
    return "the build" if stage.kind == "validate" else stage.name
