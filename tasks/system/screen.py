"""Terminal output: width, colours, characters, and live lines below the lines that stay."""

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

PROSE_COLUMNS = 100  # for prose, also in a pipe
WIDE_COLUMNS = 200  # for tables
_MIN_COLUMNS = 40


def read_terminal_width(most: int = PROSE_COLUMNS, piped: int = PROSE_COLUMNS) -> int:
    """Return COLUMNS or the terminal's width, at most `most`; in a pipe return `piped`."""
    columns = shutil.get_terminal_size((piped, 24)).columns
    return max(min(columns, max(most, piped)), _MIN_COLUMNS)


def has_colours(out: TextIO) -> bool:
    """Return True if `out` is shown in colours: NO_COLOR wins over FORCE_COLOR (no-color.org)."""
    forced = os.environ.get("FORCE_COLOR", "0") != "0"
    return not os.environ.get("NO_COLOR") and (forced or is_live(out))


def colour_text(text: str, style: str, out: TextIO | None = None) -> str:
    """Return `text` in a colour if `out` (standard output) has colours."""
    return f"\x1b[{style}m{text}\x1b[0m" if style and has_colours(out or sys.stdout) else text


def is_live(out: TextIO) -> bool:
    """Return True for a terminal that can redraw lines, outside CI."""
    return out.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"


def choose_glyphs(out: TextIO | None = None) -> text_layout.Glyphs:
    """Return the characters for bars and cuts that the encoding of `out` has."""
    encoding = getattr(out or sys.stdout, "encoding", None) or "utf-8"
    try:
        "".join(vars(text_layout.BLOCK_GLYPHS).values()).encode(encoding)
    except UnicodeEncodeError:
        return text_layout.ASCII_GLYPHS
    return text_layout.BLOCK_GLYPHS


def print_labeled_text(key: str, text: str, indent: int, columns: int | None = None) -> None:
    """Print `key` and, from the column `indent` on, `text` in lines that fit the terminal."""
    columns = columns or read_terminal_width()
    for line in text_layout.format_labeled_lines(key, text, indent, columns):
        print_report(line)


def print_status_rows(rows: Sequence[tuple[str, str, str]]) -> None:
    """Print a row for each name, state and reason, in columns."""
    width = max(len(name) for name, _, _ in rows)
    for name, state, reason in rows:
        key = f"{name:<{width}}  {state:<10}  "
        print_labeled_text(key, reason, min(len(key), read_terminal_width() // 2))


def format_for_stderr(text: str, before: int = 0) -> str:
    """Return an error wrapped for standard error, after a prefix of `before` columns."""
    if not sys.stderr.isatty():
        return text
    first, end, following = text.partition("\n")
    width = read_terminal_width()
    lines = text_layout.format_labeled_lines(" " * before, first, before, width)
    rest = text_layout.wrap_with_hanging_indent(following, width)
    return "\n".join(lines)[before:] + end + rest


DrawFunction = Callable[[text_layout.DrawingArea], str]  # returns lines that fit
_REDRAW_INTERVAL = 1.0  # seconds
_COLOURED_COLUMNS = 12  # at the start of a live line
_ECHO_COLUMNS = len("^C")  # which a terminal appends, and which must not wrap the line
_ASCII_FALLBACKS = {"…": "...", "→": "->", "–": "-", "—": "-", "×": "x"}
_ASCII_FALLBACKS |= {"“": '"', "”": '"', "’": "'"}


def _replace_unencodable(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace a character that the encoding lacks; an undecodable byte of a file name stays."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    sign, end = error.object[error.start], error.start + 1
    byte = ord(sign) - 0xDC00
    return bytes([byte]) if 0x80 <= byte <= 0xFF else _ASCII_FALLBACKS.get(sign, "?"), end


codecs.register_error("torchyard", _replace_unencodable)


def configure_stream(stream: TextIO) -> None:
    """Make every text writable to `stream`, whatever its encoding."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="torchyard")


class Screen:
    """A stream of whole lines; if it is `live`, with lines below them that are redrawn."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.live = is_live(out)
        self.glyphs = choose_glyphs(out)
        # The reader of a child's output, the redraw thread and the main thread write. Handlers of
        # INT and TERM run in the main thread, also in the middle of a write. They only raise, which
        # frees the lock; if one ever prints, a lock that is not re-entrant would deadlock.
        self._lock = threading.RLock()
        self._draw: DrawFunction | None = None
        self._shown: tuple[int, ...] = ()  # columns of each live line on the terminal
        self._beat: threading.Thread | None = None
        self._over = threading.Event()
        configure_stream(out)

    def encode_with_fallback(self, text: str) -> str:
        """Return `text` as this stream can show it."""
        encoding = getattr(self.out, "encoding", None) or "utf-8"
        return text.encode(encoding, "torchyard").decode(encoding, "replace")

    def write_lines(self, text: str) -> None:
        """Write lines that stay, above the live lines, without passwords of URLs."""
        text = redact_secrets(text)
        with self._lock:
            self._erase_live_lines()
            self.out.write(f"{text}\n")
            self.redraw_live_lines()
            self.out.flush()

    def ring_bell(self) -> None:
        """Ring the bell of this terminal, else of standard error's; never in CI or a log."""
        for stream in () if "CI" in os.environ else (self.out, sys.stderr):
            if stream.isatty():
                with contextlib.suppress(OSError, ValueError):
                    stream.write("\a")
                    stream.flush()
                return

    def start_live_lines(self, draw: DrawFunction) -> None:
        """Show what `draw` returns, redrawn each second, until `stop_live_lines`."""
        self.stop_live_lines()
        self._draw = draw
        self.redraw_live_lines()
        self._over = threading.Event()
        self._beat = threading.Thread(target=self._redraw_until, args=(self._over,), daemon=True)
        self._beat.start()
        atexit.register(self.stop_live_lines)  # a daemon thread must not write while Python exits

    def stop_live_lines(self) -> None:
        """Erase the live lines and end their thread."""
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
        """Redraw the live lines for the terminal's size now; in the background draw nothing."""
        with self._lock:
            if self._draw and self._is_foreground():
                wide, high = self.read_terminal_size()
                area = text_layout.DrawingArea(wide - _ECHO_COLUMNS - 1, high, self.glyphs)
                text = self._draw(area)
                self._erase_live_lines()
                self._shown = tuple(text_layout.measure_columns(line) for line in text.split("\n"))
                head, rest = text[:_COLOURED_COLUMNS], text[_COLOURED_COLUMNS:]
                self.out.write(colour_text(head, "1;36", self.out) + rest)
                self.out.flush()
            elif self._draw:
                self._shown = ()  # the shell started a new line

    def _erase_live_lines(self) -> None:
        """Erase the live lines; if the terminal became narrower, each may take several rows."""
        if any(self._shown):
            columns = max(self.read_terminal_size()[0], 1)
            rows = sum(max(shown - 1, 0) // columns + 1 for shown in self._shown) - 1
            self.out.write(f"\x1b[{rows}A\r\x1b[J" if rows else "\r\x1b[2K")
            self._shown = ()

    def _redraw_until(self, over: threading.Event) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            while not over.wait(_REDRAW_INTERVAL):
                self.redraw_live_lines()

    def read_terminal_size(self) -> tuple[int, int]:
        """Return columns and rows from the terminal, since COLUMNS may be from before a resize."""
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(self.out.fileno())
            if size.columns:
                return size
        return shutil.get_terminal_size()

    def _is_foreground(self) -> bool:
        """Return False for a background job: the last line is then the shell's prompt."""
        try:
            return os.tcgetpgrp(self.out.fileno()) in (0, os.getpgrp())
        except (OSError, AttributeError):
            return True  # no job control, or not the controlling terminal
