"""Write permanent lines and live lines to a terminal, and determine what it can display."""

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
from tasks.system.invocation import adapt_message
from tasks.system.output import print_report

PROSE_COLUMNS = 100  # for prose, also in a pipe
WIDE_COLUMNS = 200  # for tables
_MIN_COLUMNS = 40


def read_terminal_width(most: int = PROSE_COLUMNS, piped: int = PROSE_COLUMNS) -> int:
    """Return the width for text: COLUMNS, else the terminal's width, else `piped`."""
    columns = shutil.get_terminal_size((piped, 24)).columns
    return max(min(columns, max(most, piped)), _MIN_COLUMNS)


def colour_text(text: str, style: str, out: TextIO | None = None) -> str:
    """Return `text` with the ANSI `style` if `out` (default: standard output) shows colours."""
    is_coloured = os.environ.get("FORCE_COLOR", "0") != "0" or is_live(out or sys.stdout)
    if not style or not is_coloured or os.environ.get("NO_COLOR"):  # as in no-color.org
        return text
    return f"\x1b[{style}m{text}\x1b[0m"


def is_live(out: TextIO) -> bool:
    """Return True if `out` is a terminal that can redraw lines; False in CI."""
    return out.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"


def choose_glyphs(out: TextIO | None = None) -> text_layout.Glyphs:
    """Return the glyphs for bars and ellipses that `out` can encode: Unicode blocks or ASCII."""
    encoding = getattr(out or sys.stdout, "encoding", None) or "utf-8"
    try:
        "".join(vars(text_layout.BLOCK_GLYPHS).values()).encode(encoding)
    except UnicodeEncodeError:
        return text_layout.ASCII_GLYPHS
    return text_layout.BLOCK_GLYPHS


def print_labeled_text(key: str, text: str, indent: int, columns: int | None = None) -> None:
    """Print `key`, then `text` from the column `indent` on, wrapped to the terminal's width."""
    columns, text = columns or read_terminal_width(), adapt_message(text)
    for line in text_layout.format_labeled_lines(key, text, indent, columns):
        print_report(line)


def print_status_rows(rows: Sequence[tuple[str, str, str]]) -> None:
    """Print rows of name, state and reason in aligned columns."""
    width = max(len(name) for name, _, _ in rows)
    for name, state, reason in rows:
        key = f"{name:<{width}}  {state:<10}  "
        print_labeled_text(key, reason, min(len(key), read_terminal_width() // 2))


def format_for_stderr(text: str, before: int = 0) -> str:
    """Wrap an error message if stderr is a terminal; leave `before` columns for a prefix."""
    text = adapt_message(text)
    if not sys.stderr.isatty():
        return text
    first, end, following = text.partition("\n")
    width = read_terminal_width()
    lines = text_layout.format_labeled_lines(" " * before, first, before, width)
    rest = text_layout.wrap_with_hanging_indent(following, width)
    return "\n".join(lines)[before:] + end + rest


DrawFunction = Callable[[text_layout.DrawingArea], str]  # returns lines that fit the area
_REDRAW_INTERVAL = 1.0  # seconds
_COLOURED_COLUMNS = 12  # columns at the start of a live line that are coloured
_ECHO_COLUMNS = len("^C")  # space for the ^C that a terminal echoes after a line
_ASCII_FALLBACKS = {"…": "...", "→": "->", "–": "-", "—": "-", "×": "x"}
_ASCII_FALLBACKS |= {"“": '"', "”": '"', "’": "'"}


def _replace_unencodable(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return a substitute for a character that cannot be encoded, and the index after it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    sign, end = error.object[error.start], error.start + 1
    byte = ord(sign) - 0xDC00
    return bytes([byte]) if 0x80 <= byte <= 0xFF else _ASCII_FALLBACKS.get(sign, "?"), end


codecs.register_error("torchyard", _replace_unencodable)


def configure_stream(stream: TextIO) -> None:
    """Let `stream` replace characters that its encoding lacks, so that no write fails."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="torchyard")


class Screen:
    """An output stream for permanent lines and, if it is a terminal, live lines below them."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.live = is_live(out)
        self.glyphs = choose_glyphs(out)
        # Several threads write. Re-entrant, in case a handler of INT or TERM prints during a write
        self._lock = threading.RLock()
        self._draw: DrawFunction | None = None
        self._shown: tuple[int, ...] = ()  # columns of each live line on the terminal
        self._beat: threading.Thread | None = None
        self._over = threading.Event()
        configure_stream(out)

    def encode_with_fallback(self, text: str) -> str:
        """Return `text` with substitutes for the characters that this stream cannot encode."""
        encoding = getattr(self.out, "encoding", None) or "utf-8"
        return text.encode(encoding, "torchyard").decode(encoding, "replace")

    def write_lines(self, text: str) -> None:
        """Write permanent lines above the live lines, without the passwords in URLs."""
        text = redact_secrets(text)
        with self._lock:
            self._erase_live_lines()
            self.out.write(f"{text}\n")
            self.redraw_live_lines()
            self.out.flush()

    def ring_bell(self) -> None:
        """Ring the terminal's bell, except in CI."""
        for stream in () if "CI" in os.environ else (self.out, sys.stderr):
            if stream.isatty():
                with contextlib.suppress(OSError, ValueError):
                    stream.write("\a")
                    stream.flush()
                return

    def start_live_lines(self, draw: DrawFunction) -> None:
        """Show the lines that `draw` returns; redraw them every second until `stop_live_lines`."""
        self.stop_live_lines()
        self._draw = draw
        self.redraw_live_lines()
        self._over = over = threading.Event()

        def redraw_until_over() -> None:
            with contextlib.suppress(OSError, ValueError):  # the terminal is gone
                while not over.wait(_REDRAW_INTERVAL):
                    self.redraw_live_lines()

        self._beat = threading.Thread(target=redraw_until_over, daemon=True)
        self._beat.start()
        atexit.register(self.stop_live_lines)  # a daemon thread must not write while Python exits

    def stop_live_lines(self) -> None:
        """Erase the live lines and end the redraw thread."""
        self._over.set()
        with self._lock:
            self._draw = None
            self._erase_live_lines()
            self.out.flush()
        if self._beat:  # outside of the lock: the thread may be waiting for it
            self._beat.join(_REDRAW_INTERVAL)
        self._beat = None
        atexit.unregister(self.stop_live_lines)

    def redraw_live_lines(self) -> None:
        """Redraw the live lines for the current terminal size; do nothing in a background job."""
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
        """Erase the live lines, even if a narrower terminal has wrapped them."""
        if any(self._shown):
            columns = max(self.read_terminal_size()[0], 1)
            rows = sum(max(shown - 1, 0) // columns + 1 for shown in self._shown) - 1
            self.out.write(f"\x1b[{rows}A\r\x1b[J" if rows else "\r\x1b[2K")
            self._shown = ()

    def read_terminal_size(self) -> tuple[int, int]:
        """Ask the terminal for its columns and rows, because COLUMNS may be outdated."""
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(self.out.fileno())
            if size.columns:
                return size
        return shutil.get_terminal_size()

    def _is_foreground(self) -> bool:
        """Return True unless this process is a background job of the shell."""
        try:
            return os.tcgetpgrp(self.out.fileno()) in (0, os.getpgrp())
        except (OSError, AttributeError):
            return True  # no job control, or not the controlling terminal
