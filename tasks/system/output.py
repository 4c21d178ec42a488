"""Print lines, warnings and progress to the current listener, by default standard output.

Passwords in URLs are removed. `label_output` assigns output to a stage.
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
    """A receiver of output lines: the console of a run, or a test."""

    def print_line(self, text: str) -> None:
        """Show a line."""

    def print_report(self, text: str) -> None:
        """Show the lines of a report unchanged."""

    def print_warning(self, text: str) -> None:
        """Show a warning prominently."""

    def show_progress(self, text: str, progress: Progress | None = None) -> None:
        """Show the current step and its progress, in place of the previous step."""


class _PlainListener:
    def print_line(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")

    print_report = print_line

    def print_warning(self, text: str) -> None:
        sys.stdout.write(f"warning: {text}\n")

    def show_progress(self, text: str, progress: Progress | None = None) -> None:
        pass


_active_listener: list[OutputListener] = [_PlainListener()]


def set_listener(listener: OutputListener) -> None:
    """Send all output to `listener` from now on."""
    _active_listener[0] = listener


def read_listener() -> OutputListener:
    """Return the current listener."""
    return _active_listener[0]


@contextmanager
def label_output(name: str) -> Iterator[None]:
    """Assign the output of the block to the stage `name`."""
    token = _output_stage.set(name)
    try:
        yield
    finally:
        _output_stage.reset(token)


def read_output_stage() -> str:
    """Return the name of the stage that the current output belongs to; "" for no stage."""
    return _output_stage.get()


def bind_current_context(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return `function` bound to the current contextvars context, for use in a new thread."""
    context = contextvars.copy_context()
    return lambda *args, **named: context.run(function, *args, **named)


def print_line(text: str) -> None:
    """Print a line that stays on the terminal, above the live lines."""
    _active_listener[0].print_line(redact_secrets(text))


def print_report(text: str) -> None:
    """Print the lines of a report unchanged."""
    _active_listener[0].print_report(redact_secrets(text))


def print_warning(text: str) -> None:
    """Print a warning."""
    _active_listener[0].print_warning(redact_secrets(text))


def show_progress(text: str, progress: Progress | None = None) -> None:
    """Show the current step; in a log, print its progress about once a minute."""
    _active_listener[0].show_progress(redact_secrets(text), progress)
