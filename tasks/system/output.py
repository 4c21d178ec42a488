"""What the tool says while it works. The console listens; without one, lines go to standard output.

`say` is a line to keep, `warn` one that must not be missed, `tick` a line of progress that the next
one replaces. Passwords in URLs are taken out of all of them. Several stages can be at work at once:
each speaks under its name.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from tasks.core.errors import redact_secrets

if TYPE_CHECKING:
    from tasks.core.ninja_progress import Progress

_P = ParamSpec("_P")
_T = TypeVar("_T")
_output_stage: contextvars.ContextVar[str] = contextvars.ContextVar("speaker", default="")


class OutputListener(Protocol):
    """Who shows the lines: the console of a run, or a test."""

    def print_line(self, text: str) -> None:
        """Show a line."""

    def print_report(self, text: str) -> None:
        """Show the lines of a report as they are."""

    def print_warning(self, text: str) -> None:
        """Show a line so that it is seen."""

    def show_progress(self, text: str, progress: Progress | None = None) -> None:
        """Show what is done now, in place of the last tick, and how far it is."""


class _PlainListener:
    def print_line(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")

    def print_report(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")

    def print_warning(self, text: str) -> None:
        sys.stdout.write(f"warning: {text}\n")

    def show_progress(self, text: str, progress: Progress | None = None) -> None:
        pass


_active_listener: list[OutputListener] = [_PlainListener()]


def set_listener(listener: OutputListener) -> None:
    """From now on `listener` shows the lines."""
    _active_listener[0] = listener


def read_listener() -> OutputListener:
    """Who shows them now."""
    return _active_listener[0]


@contextmanager
def label_output(name: str) -> Iterator[None]:
    """What the block says is of the stage `name`."""
    before = _output_stage.set(name)
    try:
        yield
    finally:
        _output_stage.reset(before)


def read_output_stage() -> str:
    """The stage that speaks, "" where nobody said."""
    return _output_stage.get()


def bind_current_context(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """`function` for another thread, which would not know for whom it speaks."""
    context = contextvars.copy_context()

    def run_in_context(*given: _P.args, **named: _P.kwargs) -> _T:
        return context.run(function, *given, **named)

    return run_in_context


def print_line(text: str) -> None:
    """A line to keep."""
    _active_listener[0].print_line(redact_secrets(text))


def print_report(text: str) -> None:
    """Lines of a report, as they are."""
    _active_listener[0].print_report(redact_secrets(text))


def print_warning(text: str) -> None:
    """A line that must not be missed."""
    _active_listener[0].print_warning(redact_secrets(text))


def show_progress(text: str, progress: Progress | None = None) -> None:
    """What is done now; only a terminal shows it. A log gets a line of `progress` now and then."""
    _active_listener[0].show_progress(redact_secrets(text), progress)
