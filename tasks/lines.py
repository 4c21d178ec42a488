"""Text in lines for a terminal. Pure.

A word stays in one piece, be it wider than the terminal: a path or a command is there to be copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tasks.bar import columns

LEAST = 30  # columns of a text, however narrow the terminal and however deep it is indented


def wrapped(text: str, room: int) -> list[str]:
    """`text` in lines of at most `room` columns, at least one. Its own line breaks stay."""
    room = max(room, LEAST)
    return [line for part in text.splitlines() for line in _filled(part, room)] or [""]


def rows(key: str, text: str, indent: int, room: int) -> Iterator[str]:
    """`key` and beside it `text`, which begins at the column `indent` in each line. A key that is
    wider than that has a line of its own.
    """
    first, *more = wrapped(text, room - indent)
    if columns(key) >= indent > 0:
        yield key.rstrip()
        key = ""
    yield f"{key}{' ' * (indent - columns(key))}{first}".rstrip()
    yield from (f"{'':{indent}}{line}".rstrip() for line in more)


def _filled(text: str, room: int) -> Iterator[str]:
    """Words as they are, with what is between them but for the end of a line."""
    line = ""
    for gap, word in _words(text):
        if line and columns(f"{line}{gap}{word}") > room:
            yield line
            line = word
        else:
            line = f"{line}{gap}{word}" if line else word
    yield line


def _words(text: str) -> Iterable[tuple[str, str]]:
    return re.findall(r"(\s*)(\S+)", text)
