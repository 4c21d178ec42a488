"""How wide the lines of a report may be, and which signs and colours they may have."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

from tasks.core.formatting.bar import ASCII_GLYPHS, BLOCK_GLYPHS, Glyphs
from tasks.core.formatting.lines import format_labeled_lines, wrap_with_hanging_indent

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


def colour_text(text: str, style: str) -> str:
    """For standard output, in that colour where it has any."""
    return f"\x1b[{style}m{text}\x1b[0m" if style and has_colours(sys.stdout) else text


def is_live(out: TextIO) -> bool:
    """Whether lines can be redrawn there: a terminal that can, with somebody before it."""
    return out.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"


def choose_glyphs(out: TextIO | None = None) -> Glyphs:
    """What can be drawn with there: a console of Windows, or a log, may have ASCII alone."""
    try:
        f"{BLOCK_GLYPHS.shades}{BLOCK_GLYPHS.more}{BLOCK_GLYPHS.between}".encode(
            getattr(out or sys.stdout, "encoding", None) or "utf-8"
        )
    except UnicodeEncodeError:
        return ASCII_GLYPHS
    return BLOCK_GLYPHS


def format_for_stderr(text: str, before: int = 0) -> str:
    """An error as it is told there, `before` being the columns that stand before it."""
    if not sys.stderr.isatty():
        return text
    first, end, more = text.partition("\n")
    begun = "\n".join(format_labeled_lines(" " * before, first, before, read_terminal_width()))[
        before:
    ]
    return f"{begun}{end}{wrap_with_hanging_indent(more, read_terminal_width())}"
