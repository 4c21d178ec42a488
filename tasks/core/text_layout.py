"""Text in lines for a terminal.

A word stays in one piece, be it wider than the terminal: a path is there to be copied. So does a
command in a sentence, where it fits in a line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.core.build_activity import BuildActivity, HeavyJob, SlowOutput
    from tasks.core.ninja_progress import Progress

_BAR_COLUMNS = (5, 24)  # of a bar, at least and at most
_MIN_NAME_COLUMNS = 7  # columns of a name that still says something
_MIN_TERMINAL_SIZE = (70, 15)  # columns and rows of a terminal that has room for more than one line
_DETAIL_INDENT = " " * 13  # below what a stage works on, where its other lines are
_MAX_NAME_COLUMNS = 40  # columns of a name beside others
# How many of the heavy and of the slow ones are named: as many as fit
_SHOWN_ITEM_COUNTS = ((2, 3), (2, 2), (1, 3), (1, 2), (1, 1), (1, 0))
_CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Glyphs:
    """What is drawn with: shades of a bar from empty to full, the sign that a text goes on, what is
    between two texts.
    """

    shades: str
    more: str
    between: str


BLOCK_GLYPHS = Glyphs(" ▌█", "…", " · ")  # no finer: in every font, the console's own as well
ASCII_GLYPHS = Glyphs("-#", "...", ", ")


@dataclass(frozen=True)
class DrawingArea:
    """What there is to draw in: columns of a line, rows of the whole terminal, and signs."""

    columns: int
    rows: int
    glyphs: Glyphs


def format_progress_lines(
    head: str, text: str, progress: Progress | None, space: DrawingArea
) -> str:
    """`line`, and below it what is at work, where the terminal has room for that."""
    room, glyphs = space.columns, space.glyphs
    if not progress or room < _MIN_TERMINAL_SIZE[0] or space.rows < _MIN_TERMINAL_SIZE[1]:
        return format_progress_line(head, text, progress, room, glyphs)
    first = format_progress_line(head, text, progress.without_activity, room, glyphs)
    counts = glyphs.between.join(progress.at_work.counts)
    named = progress.stall_message or _format_activity(
        progress.at_work, room - len(_DETAIL_INDENT), glyphs
    )
    below = (counts, named)
    return "\n".join(
        [first, *(fit_columns(f"{_DETAIL_INDENT}{row}", room, glyphs) for row in below if row)]
    )


def _format_activity(at_work: BuildActivity, room: int, glyphs: Glyphs) -> str:
    """`heavy: flash_bwd.cu 4.6 GiB 3 min · slowest: Sort.cu 2 min 59 s, PowKernel.cu 2 min 10 s`"""
    told = ""
    for many, slow in _SHOWN_ITEM_COUNTS:
        heavy = _format_named_items("heavy", at_work.heavy[:many], glyphs)
        slowest = _format_named_items("slowest", at_work.slowest[:slow], glyphs)
        told = glyphs.between.join(filter(None, (heavy, slowest)))
        if measure_columns(told) <= room:
            break
    return told


def _format_named_items(what: str, ones: Sequence[HeavyJob | SlowOutput], glyphs: Glyphs) -> str:
    told = ", ".join(
        f"{fit_columns(one.name, _MAX_NAME_COLUMNS, glyphs)} {one.summary}" for one in ones
    )
    return f"{what}: {told}" if told else ""


def format_progress_line(
    head: str, text: str, progress: Progress | None, room: int, glyphs: Glyphs
) -> str:
    """`head: text`, or `head [███▌  ] 612/1368 45 %, 31 min left, text`, in `room` columns."""
    if progress is None or not progress.total:
        return fit_columns(f"{head}: {text}" if text else head, room, glyphs)
    count = f"{progress.done}/{progress.total} {progress.percent} %"
    count = f"{count}, {progress.time_left}" if progress.time_left else count
    name, cells = _split_columns(room - measure_columns(f"{head}  {count}"))
    bar = f"[{format_bar(progress.done / progress.total, cells, glyphs)}] " if cells else ""
    text = ", ".join(filter(None, (*progress.at_work.counts, text)))
    at_work = f", {fit_columns(text, name, glyphs)}" if name and text else ""
    return fit_columns(f"{head} {bar}{count}{at_work}", room, glyphs)


def _split_columns(room: int) -> tuple[int, int]:
    """Columns for a name, whose length must not move the bar, and cells for the bar; 0 for what has
    to go.
    """
    least, most = _BAR_COLUMNS
    cells = min(room - len("[], ") - _MIN_NAME_COLUMNS, most)
    if cells >= least:
        return room - len("[], ") - cells, cells
    alone = min(room - len("[]"), most)
    return 0, alone if alone >= least else 0


def format_bar(share: float, cells: int, glyphs: Glyphs) -> str:
    """`███▌  `: `share` of 1 in so many cells."""
    shades = glyphs.shades
    whole, part = divmod(int(share * cells * (len(shades) - 1)), len(shades) - 1)
    edge = shades[part] if part else ""
    return f"{shades[-1] * whole}{edge}".ljust(cells, shades[0])


def fit_columns(text: str, room: int, glyphs: Glyphs) -> str:
    """`text` without colours and control characters, cut to `room` columns."""
    text = _CONTROL_SEQUENCE.sub(lambda found: "" if found[0][0] == "\x1b" else " ", text)
    if measure_columns(text) <= room:
        return text
    kept = text[: max(room - len(glyphs.more), 0)]
    while measure_columns(kept) > room - len(glyphs.more) and kept:
        kept = kept[:-1]
    return f"{kept}{glyphs.more}"[:room]


def measure_columns(text: str) -> int:
    """Return the columns of `text` on a terminal: none for colours, two for wide characters."""
    text = _COLOR_CODE.sub("", text) if "\x1b" in text else text
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


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
    if not (key and measure_columns(key) <= indent and indent + measure_columns(text) <= room):
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
    is_command = len(begin) >= _COMMAND_INDENT and begin.isspace() and measure_columns(line) > room
    if is_command or measure_columns(told) <= room:
        return [told]
    return format_labeled_lines(begin, told[len(begin) :], len(begin), room)


def _wrap_line(text: str, room: int) -> Iterator[str]:
    """Words as they are, with what is between them but for the end of a line."""
    line = ""
    for gap, word in _split_words(text, room):
        if line and measure_columns(f"{line}{gap}{word}") > room:
            yield line
            line = word
        else:
            line = f"{line}{gap}{word}" if line else word
    yield line


def _split_words(text: str, room: int) -> Iterator[tuple[str, str]]:
    for gap, piece in _WORD_OR_COMMAND.findall(text):
        if " " in piece and measure_columns(piece) > room:
            first, *more = _SINGLE_WORD.findall(piece)
            yield from ((gap, first[1]), *more)
        else:
            yield gap, piece
