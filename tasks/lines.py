"""Text in lines for a terminal. Pure.

A word stays in one piece, be it wider than the terminal: a path is there to be copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tasks.bar import columns

LEAST = 24  # columns of a text, however narrow the terminal and however deep it is indented
_COMMAND = 6  # spaces before a command that is to be copied as it is, below what there is to do
_BEGINS = re.compile(r"( *)((?:→|->|-) )?")


def wrapped(text: str, room: int) -> list[str]:
    """`text` in lines of at most `room` columns, at least one. Its own line breaks stay."""
    room = max(room, LEAST)
    return [line for part in text.splitlines() for line in _filled(part, room)] or [""]


def rows(key: str, text: str, indent: int, room: int) -> Iterator[str]:
    """`key` and beside it `text`, which begins at the column `indent` in each line. A key that is
    wider than that has a line of its own.
    """
    first, *more = wrapped(text, room - indent)
    if columns(key.rstrip()) >= indent > 0:
        yield key.rstrip()
        key = ""
    yield f"{key}{' ' * (indent - columns(key))}{first}".rstrip()
    yield from (f"{'':{indent}}{line}".rstrip() for line in more)


def hanging(text: str, room: int) -> str:
    """Lines that somebody else laid out: one that is too wide goes on below itself, as deep as it
    began. A command that stands alone, and what has colours, stays as it is.
    """
    return "\n".join(line for part in text.split("\n") for line in _hung(part, room))


def _hung(line: str, room: int) -> Iterable[str]:
    spaces, mark = _BEGINS.match(line).groups(default="")  # type: ignore[union-attr]
    if columns(line) <= room or "\x1b" in line or (len(spaces) >= _COMMAND and not mark):
        return [line]
    return rows(f"{spaces}{mark}", line[len(spaces) + len(mark) :], len(spaces) + len(mark), room)


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
