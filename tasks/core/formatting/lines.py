"""Text in lines for a terminal. Pure.

A word stays in one piece, be it wider than the terminal: a path is there to be copied. So does a
command in a sentence, where it fits in a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from tasks.core.formatting.bar import columns

LEAST = 24  # columns of a text, however narrow the terminal and however deep it is indented
_COMMAND = 6  # spaces before a command that is to be copied as it is, below what there is to do
_BEGINS = re.compile(r" *(?:(?:→|->|-) )?")
# Commands as they stand in what there is to do: by how they begin, up to where the sentence goes on
_ARGUMENTS = (
    r"(?:(?<![,;:.)]) (?!\(|(?:and|or|then|into|in|for|to|by|with|where|which|beside|up)\b)\S+)*"
)
_PIECE = re.compile(
    r"(\s*)([(\"'`]*(?:"
    r"doit [a-z][\w:-]*(?: (?:--[a-z]|profile=)\S*)*\S*"
    rf"|(?:sudo \S+|(?:\S+ -m )?pip install|git -C \S+){_ARGUMENTS}"
    r")|\S+)"
)
_WORD = re.compile(r"(\s*)(\S+)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def wrapped(text: str, room: int) -> list[str]:
    """`text` in lines of at most `room` columns, at least one. Its own line breaks stay."""
    return [line for part in text.splitlines() for line in _filled(part, room)] or [""]


def rows(key: str, text: str, indent: int, room: int) -> Iterator[str]:
    """`key` and beside it `text`, which begins at the column `indent` in each line, or before it
    where little room is left. A key that is wider than that has a line of its own.
    """
    if not (key and columns(key) <= indent and indent + width(text) <= room):
        indent = min(indent, max(room - LEAST, 0))
    first, *more = wrapped(text, room - indent)
    if key.strip() and columns(key.rstrip()) >= indent:
        yield key.rstrip()
        key = ""
    yield f"{key}{' ' * (indent - columns(key))}{first}".rstrip()
    yield from (f"{'':{indent}}{line}".rstrip() for line in more)


def hanging(text: str, room: int, spelled: Callable[[str], str] = str) -> str:
    """Lines that somebody else laid out, as they are `spelled` where signs are lacking: one that is
    too wide goes on below itself, as deep as it began. A command that stands alone stays whole.
    """
    return "\n".join(line for part in text.split("\n") for line in _hung(part, room, spelled))


def _hung(line: str, room: int, spelled: Callable[[str], str]) -> Iterable[str]:
    told = spelled(line)
    begun = _BEGINS.match(told)
    begin = begun[0] if begun else ""
    is_command = len(begin) >= _COMMAND and begin.isspace() and width(line) > room
    if is_command or width(told) <= room:
        return [told]
    return rows(begin, told[len(begin) :], len(begin), room)


def width(text: str) -> int:
    """Columns, but for what is colour."""
    return columns(_COLOUR.sub("", text))


def _filled(text: str, room: int) -> Iterator[str]:
    """Words as they are, with what is between them but for the end of a line."""
    line = ""
    for gap, word in _words(text, room):
        if line and width(f"{line}{gap}{word}") > room:
            yield line
            line = word
        else:
            line = f"{line}{gap}{word}" if line else word
    yield line


def _words(text: str, room: int) -> Iterator[tuple[str, str]]:
    for gap, piece in _PIECE.findall(text):
        if " " in piece and width(piece) > room:
            first, *more = _WORD.findall(piece)
            yield from ((gap, first[1]), *more)
        else:
            yield gap, piece
