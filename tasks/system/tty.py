"""How wide the lines of a report may be, and which signs and colours they may have."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

from tasks.core.formatting.bar import ASCII, BLOCKS, Glyphs
from tasks.core.formatting.lines import hanging, rows

PROSE = 100  # columns that are still read with ease; a pipe gets as many
WIDE = 200  # of what is not prose
_NARROWEST = 40


def width(most: int = PROSE, piped: int = PROSE) -> int:
    """Columns of the terminal, or what COLUMNS says, and not more than `most`; `piped` where it is
    none.
    """
    room = shutil.get_terminal_size((piped, 24)).columns
    return max(min(room, max(most, piped)), _NARROWEST)


def coloured(out: TextIO) -> bool:
    """NO_COLOR (no-color.org) goes before FORCE_COLOR, that before what the stream is; a log in CI
    has none.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") != "0":
        return True
    return is_live(out)


def paint(text: str, style: str) -> str:
    """For standard output, in that colour where it has any."""
    return f"\x1b[{style}m{text}\x1b[0m" if style and coloured(sys.stdout) else text


def is_live(out: TextIO) -> bool:
    """Whether lines can be redrawn there: a terminal that can, with somebody before it."""
    return out.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"


def glyphs(out: TextIO | None = None) -> Glyphs:
    """What can be drawn with there: a console of Windows, or a log, may have ASCII alone."""
    try:
        f"{BLOCKS.shades}{BLOCKS.more}{BLOCKS.between}".encode(
            getattr(out or sys.stdout, "encoding", None) or "utf-8"
        )
    except UnicodeEncodeError:
        return ASCII
    return BLOCKS


def on_stderr(text: str, before: int = 0) -> str:
    """An error as it is told there, `before` being the columns that stand before it."""
    if not sys.stderr.isatty():
        return text
    first, end, more = text.partition("\n")
    begun = "\n".join(rows(" " * before, first, before, width()))[before:]
    return f"{begun}{end}{hanging(more, width())}"
