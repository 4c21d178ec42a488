"""How wide the lines of a report may be."""

from __future__ import annotations

import shutil

PROSE = 100  # columns that are still read with ease; a pipe gets as many


def width(most: int = PROSE) -> int:
    """Columns of the terminal, or what COLUMNS says, and not more than `most`."""
    return min(shutil.get_terminal_size((PROSE, 24)).columns, most)
