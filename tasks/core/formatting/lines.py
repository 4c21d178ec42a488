"""Text in lines for a terminal. Pure.

A word stays in one piece, be it wider than the terminal: a path is there to be copied. So does a
command in a sentence, where it fits in a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from tasks.core.formatting.bar import measure_columns

MIN_TEXT_COLUMNS = (
    24  # columns of a text, however narrow the terminal and however deep it is indented
)
_COMMAND_INDENT = (
    6  # spaces before a command that is to be copied as it is, below what there is to do
)
_LINE_START = re.compile(r" *(?:(?:→|->|-) )?")
# Commands as they stand in what there is to do: by how they begin, up to where the sentence goes on
_COMMAND_ARGUMENTS = (
    r"(?:(?<![,;:.)]) (?!\(|(?:and|or|then|into|in|for|to|by|with|where|which|beside|up)\b)\S+)*"
)
_WORD_OR_COMMAND = re.compile(
    r"(\s*)([(\"'`]*(?:"
    r"doit [a-z][\w:-]*(?: (?:--[a-z]|profile=)\S*)*\S*"
    rf"|(?:sudo \S+|(?:\S+ -m )?pip install|git -C \S+){_COMMAND_ARGUMENTS}"
    r")|\S+)"
)
_SINGLE_WORD = re.compile(r"(\s*)(\S+)")
_COLOR_CODE = re.compile(r"\x1b\[[0-9;]*m")


def wrap_text(text: str, room: int) -> list[str]:
    """`text` in lines of at most `room` columns, at least one. Its own line breaks stay."""
    return [line for part in text.splitlines() for line in _wrap_line(part, room)] or [""]


def format_labeled_lines(key: str, text: str, indent: int, room: int) -> Iterator[str]:
    """`key` and beside it `text`, which begins at the column `indent` in each line, or before it
    where little room is left. A key that is wider than that has a line of its own.
    """
    if not (
        key and measure_columns(key) <= indent and indent + measure_visible_columns(text) <= room
    ):
        indent = min(indent, max(room - MIN_TEXT_COLUMNS, 0))
    first, *more = wrap_text(text, room - indent)
    if key.strip() and measure_columns(key.rstrip()) >= indent:
        yield key.rstrip()
        key = ""
    yield f"{key}{' ' * (indent - measure_columns(key))}{first}".rstrip()
    yield from (f"{'':{indent}}{line}".rstrip() for line in more)


def wrap_with_hanging_indent(text: str, room: int, spelled: Callable[[str], str] = str) -> str:
    """Lines that somebody else laid out, as they are `spelled` where signs are lacking: one that is
    too wide goes on below itself, as deep as it began. A command that stands alone stays whole.
    """
    return "\n".join(
        line for part in text.split("\n") for line in _wrap_indented_line(part, room, spelled)
    )


def _wrap_indented_line(line: str, room: int, spelled: Callable[[str], str]) -> Iterable[str]:
    told = spelled(line)
    begun = _LINE_START.match(told)
    begin = begun[0] if begun else ""
    is_command = (
        len(begin) >= _COMMAND_INDENT and begin.isspace() and measure_visible_columns(line) > room
    )
    if is_command or measure_visible_columns(told) <= room:
        return [told]
    return format_labeled_lines(begin, told[len(begin) :], len(begin), room)


def measure_visible_columns(text: str) -> int:
    """Columns, but for what is colour."""
    return measure_columns(_COLOR_CODE.sub("", text))


def _wrap_line(text: str, room: int) -> Iterator[str]:
    """Words as they are, with what is between them but for the end of a line."""
    line = ""
    for gap, word in _split_words(text, room):
        if line and measure_visible_columns(f"{line}{gap}{word}") > room:
            yield line
            line = word
        else:
            line = f"{line}{gap}{word}" if line else word
    yield line


def _split_words(text: str, room: int) -> Iterator[tuple[str, str]]:
    for gap, piece in _WORD_OR_COMMAND.findall(text):
        if " " in piece and measure_visible_columns(piece) > room:
            first, *more = _SINGLE_WORD.findall(piece)
            yield from ((gap, first[1]), *more)
        else:
            yield gap, piece
