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

from tasks.core.errors import redact

if TYPE_CHECKING:
    from tasks.core.progress import Progress

_P = ParamSpec("_P")
_T = TypeVar("_T")
_speaker: contextvars.ContextVar[str] = contextvars.ContextVar("speaker", default="")


class Listener(Protocol):
    """Who shows the lines: the console of a run, or a test."""

    def say(self, text: str) -> None:
        """Show a line."""

    def show(self, text: str) -> None:
        """Show the lines of a report as they are."""

    def warn(self, text: str) -> None:
        """Show a line so that it is seen."""

    def tick(self, text: str, progress: Progress | None = None) -> None:
        """Show what is done now, in place of the last tick, and how far it is."""


class _Plain:
    def say(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")

    def show(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")

    def warn(self, text: str) -> None:
        sys.stdout.write(f"warning: {text}\n")

    def tick(self, text: str, progress: Progress | None = None) -> None:
        pass


_listener: list[Listener] = [_Plain()]


def listen(listener: Listener) -> None:
    """From now on `listener` shows the lines."""
    _listener[0] = listener


def listener() -> Listener:
    """Who shows them now."""
    return _listener[0]


@contextmanager
def speaking(name: str) -> Iterator[None]:
    """What the block says is of the stage `name`."""
    before = _speaker.set(name)
    try:
        yield
    finally:
        _speaker.reset(before)


def speaker() -> str:
    """The stage that speaks, "" where nobody said."""
    return _speaker.get()


def for_speaker(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """`function` for another thread, which would not know for whom it speaks."""
    context = contextvars.copy_context()

    def carried(*given: _P.args, **named: _P.kwargs) -> _T:
        return context.run(function, *given, **named)

    return carried


def say(text: str) -> None:
    """A line to keep."""
    _listener[0].say(redact(text))


def show(text: str) -> None:
    """Lines of a report, as they are."""
    _listener[0].show(redact(text))


def warn(text: str) -> None:
    """A line that must not be missed."""
    _listener[0].warn(redact(text))


def tick(text: str, progress: Progress | None = None) -> None:
    """What is done now; only a terminal shows it. A log gets a line of `progress` now and then."""
    _listener[0].tick(redact(text), progress)
