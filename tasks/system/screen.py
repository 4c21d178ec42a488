"""How wide the lines of a report may be, and which signs and colours they may have."""

from __future__ import annotations

import atexit
import codecs
import contextlib
import io
import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TextIO

from tasks.core import text_layout
from tasks.core.errors import redact_secrets
from tasks.system.output import print_report

PROSE_COLUMNS = 100  # columns that are still read with ease; a pipe gets as many
WIDE_COLUMNS = 200  # of what is not prose
_MIN_COLUMNS = 40


def read_terminal_width(most: int = PROSE_COLUMNS, piped: int = PROSE_COLUMNS) -> int:
    """Columns of the terminal, or what COLUMNS says, and not more than `most`; `piped` where it is
    none.
    """
    room = shutil.get_terminal_size((piped, 24)).columns
    return max(min(room, max(most, piped)), _MIN_COLUMNS)


def has_colours(out: TextIO) -> bool:
    """NO_COLOR (no-color.org) goes before FORCE_COLOR, that before what the stream is; a log in CI
    has none.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") != "0":
        return True
    return is_live(out)


def colour_text(text: str, style: str, out: TextIO | None = None) -> str:
    """Return `text` in a colour if `out` (standard output) has colours."""
    return f"\x1b[{style}m{text}\x1b[0m" if style and has_colours(out or sys.stdout) else text


def is_live(out: TextIO) -> bool:
    """Whether lines can be redrawn there: a terminal that can, with somebody before it."""
    return out.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"


def choose_glyphs(out: TextIO | None = None) -> text_layout.Glyphs:
    """What can be drawn with there: a console of Windows, or a log, may have ASCII alone."""
    try:
        "".join(vars(text_layout.BLOCK_GLYPHS).values()).encode(
            getattr(out or sys.stdout, "encoding", None) or "utf-8"
        )
    except UnicodeEncodeError:
        return text_layout.ASCII_GLYPHS
    return text_layout.BLOCK_GLYPHS


def print_labeled_text(key: str, text: str, indent: int, columns: int | None = None) -> None:
    """Print `key` and, from the column `indent` on, `text` in lines that fit the terminal."""
    for line in text_layout.format_labeled_lines(
        key, text, indent, columns or read_terminal_width()
    ):
        print_report(line)


def print_status_rows(rows: Sequence[tuple[str, str, str]]) -> None:
    """Print a row for each name, state and reason, in columns."""
    width = max(len(name) for name, _, _ in rows)
    for name, state, reason in rows:
        key = f"{name:<{width}}  {state:<10}  "
        print_labeled_text(key, reason, min(len(key), read_terminal_width() // 2))


def format_for_stderr(text: str, before: int = 0) -> str:
    """An error as it is told there, `before` being the columns that stand before it."""
    if not sys.stderr.isatty():
        return text
    first, end, more = text.partition("\n")
    begun = "\n".join(
        text_layout.format_labeled_lines(" " * before, first, before, read_terminal_width())
    )[before:]
    return f"{begun}{end}{text_layout.wrap_with_hanging_indent(more, read_terminal_width())}"


DrawFunction = Callable[[text_layout.DrawingArea], str]  # a line, or a few, that fit
_REDRAW_INTERVAL = 1.0  # seconds
_COLOURED_COLUMNS = 12  # columns that are coloured
_ECHO_COLUMNS = len("^C")  # which a terminal adds to the line, and which must not wrap it
_ASCII_FALLBACKS = {
    "…": "...",
    "→": "->",
    "–": "-",
    "—": "-",
    "×": "x",
    "“": '"',
    "”": '"',
    "’": "'",
}


def _replace_unencodable(error: UnicodeError) -> tuple[str | bytes, int]:
    """One sign that an encoding lacks. A byte of a file name that is no text stays that byte."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    sign = error.object[error.start]
    byte = ord(sign) - 0xDC00
    return bytes([byte]) if 0x80 <= byte <= 0xFF else _ASCII_FALLBACKS.get(
        sign, "?"
    ), error.start + 1


codecs.register_error("torchyard", _replace_unencodable)


def configure_stream(stream: TextIO) -> None:
    """See that whatever anyone writes there can be: a terminal or a log need not know UTF-8."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="torchyard")


class Screen:
    """A stream that takes whole lines; where it is `live`, with lines below them that move."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.live = is_live(out)
        self.glyphs = choose_glyphs(out)
        # The reader of a child's output, the beat and the main thread write. A handler of INT or
        # TERM runs in the main thread, also in the middle of a write: it says nothing, and what it
        # raises frees the lock. Should it ever say a line, a plain lock would wait for itself.
        self._lock = threading.RLock()
        self._draw: DrawFunction | None = None
        self._shown: tuple[int, ...] = ()  # columns of each moving line on the terminal
        self._beat: threading.Thread | None = None
        self._over = threading.Event()
        configure_stream(out)

    def encode_with_fallback(self, text: str) -> str:
        """`text` as this stream can show it."""
        encoding = getattr(self.out, "encoding", None) or "utf-8"
        return text.encode(encoding, "torchyard").decode(encoding, "replace")

    def write_lines(self, text: str) -> None:
        """Lines to keep. Whoever wrote them, no password of a URL is in them."""
        text = redact_secrets(text)
        with self._lock:
            self._erase_live_lines()
            self.out.write(f"{text}\n")
            self.redraw_live_lines()
            self.out.flush()

    def ring_bell(self) -> None:
        """The terminal's bell: of what is written to, else that of a person who sees only what goes
        wrong; no sign in a log, none in CI.
        """
        for stream in () if "CI" in os.environ else (self.out, sys.stderr):
            if stream.isatty():
                with contextlib.suppress(OSError, ValueError):
                    stream.write("\a")
                    stream.flush()
                return

    def start_live_lines(self, draw: DrawFunction) -> None:
        """From now on what `draw` gives is what moves, until `settle`."""
        self.stop_live_lines()
        self._draw = draw
        self.redraw_live_lines()
        self._over = threading.Event()
        self._beat = threading.Thread(target=self._redraw_until, args=(self._over,), daemon=True)
        self._beat.start()
        atexit.register(
            self.stop_live_lines
        )  # a daemon that writes while Python ends brings it down

    def stop_live_lines(self) -> None:
        """Take away what moves."""
        self._over.set()
        with self._lock:
            self._draw = None
            self._erase_live_lines()
            self.out.flush()
        if self._beat:  # outside of the lock, which it may be waiting for
            self._beat.join(_REDRAW_INTERVAL)
        self._beat = None
        atexit.unregister(self.stop_live_lines)

    def redraw_live_lines(self) -> None:
        """Draw what moves as it is now, for the terminal as large as it is now."""
        with self._lock:
            if self._draw and self._is_foreground():
                wide, high = self.read_terminal_size()
                text = self._draw(
                    text_layout.DrawingArea(wide - _ECHO_COLUMNS - 1, high, self.glyphs)
                )
                self._erase_live_lines()
                self._shown = tuple(text_layout.measure_columns(line) for line in text.split("\n"))
                self.out.write(
                    colour_text(text[:_COLOURED_COLUMNS], "1;36", self.out)
                    + text[_COLOURED_COLUMNS:]
                )
                self.out.flush()
            elif self._draw:
                self._shown = ()  # the shell began a line of its own

    def _erase_live_lines(self) -> None:
        """Where the terminal has become narrower an old line takes several rows by now."""
        if any(self._shown):
            room = max(self.read_terminal_size()[0], 1)
            rows = sum(max(shown - 1, 0) // room + 1 for shown in self._shown) - 1
            self.out.write(f"\x1b[{rows}A\r\x1b[J" if rows else "\r\x1b[2K")
            self._shown = ()

    def _redraw_until(self, over: threading.Event) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            while not over.wait(_REDRAW_INTERVAL):
                self.redraw_live_lines()

    def read_terminal_size(self) -> tuple[int, int]:
        """Columns and rows, by the terminal's own word: COLUMNS is how wide it was when the shell
        started us.
        """
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(self.out.fileno())
            if size.columns:
                return size
        return shutil.get_terminal_size()

    def _is_foreground(self) -> bool:
        """False while a person has us in the background: the last line is their prompt then."""
        try:
            return os.tcgetpgrp(self.out.fileno()) in (0, os.getpgrp())
        except (OSError, AttributeError):
            return True  # no such thing here, or no terminal of ours
