"""Progress that fits its columns: a line with a bar, the count and what is left, and where there is
room for it what is at work, in a line or two below. Pure.

Where room is short the name of the file at work gives way first, then the bar.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.core.atwork import AtWork, Heavy, Slow
    from tasks.core.progress import Progress

_CELLS = (5, 24)  # of a bar, at least and at most
_SHORTEST = 7  # columns of a name that still says something
_ENOUGH = (70, 15)  # columns and rows of a terminal that has room for more than one line
_INDENT = " " * 13  # below what a stage works on, where its other lines are
_LONGEST = 40  # columns of a name beside others
# How many of the heavy and of the slow ones are named: as many as fit
_MANY = ((2, 3), (2, 2), (1, 3), (1, 2), (1, 1), (1, 0))
_UNSEEN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Glyphs:
    """What is drawn with: shades of a bar from empty to full, the sign that a text goes on, what is
    between two texts.
    """

    shades: str
    more: str
    between: str


BLOCKS = Glyphs(" ▌█", "…", " · ")  # no finer: in every font, the console's own as well
ASCII = Glyphs("-#", "...", ", ")


@dataclass(frozen=True)
class Space:
    """What there is to draw in: columns of a line, rows of the whole terminal, and signs."""

    columns: int
    rows: int
    glyphs: Glyphs


def lines(head: str, text: str, progress: Progress | None, space: Space) -> str:
    """`line`, and below it what is at work, where the terminal has room for that."""
    room, glyphs = space.columns, space.glyphs
    if not progress or room < _ENOUGH[0] or space.rows < _ENOUGH[1]:
        return line(head, text, progress, room, glyphs)
    first = line(head, text, progress.bare, room, glyphs)
    counts = glyphs.between.join(progress.at_work.counts)
    named = progress.stalled or _named(progress.at_work, room - len(_INDENT), glyphs)
    below = (counts, named)
    return "\n".join([first, *(fit(f"{_INDENT}{row}", room, glyphs) for row in below if row)])


def _named(at_work: AtWork, room: int, glyphs: Glyphs) -> str:
    """`heavy: flash_bwd.cu 4.6 GiB 3 min · slowest: Sort.cu 2 min 59 s, PowKernel.cu 2 min 10 s`"""
    told = ""
    for many, slow in _MANY:
        heavy = _listed("heavy", at_work.heavy[:many], glyphs)
        slowest = _listed("slowest", at_work.slowest[:slow], glyphs)
        told = glyphs.between.join(filter(None, (heavy, slowest)))
        if columns(told) <= room:
            break
    return told


def _listed(what: str, ones: Sequence[Heavy | Slow], glyphs: Glyphs) -> str:
    told = ", ".join(f"{fit(one.name, _LONGEST, glyphs)} {one.facts}" for one in ones)
    return f"{what}: {told}" if told else ""


def line(head: str, text: str, progress: Progress | None, room: int, glyphs: Glyphs) -> str:
    """`head: text`, or `head [███▌  ] 612/1368 45 %, 31 min left, text`, in `room` columns."""
    if progress is None or not progress.total:
        return fit(f"{head}: {text}" if text else head, room, glyphs)
    count = f"{progress.done}/{progress.total} {progress.percent} %"
    count = f"{count}, {progress.left}" if progress.left else count
    name, cells = _shares(room - columns(f"{head}  {count}"))
    bar = f"[{gauge(progress.done / progress.total, cells, glyphs)}] " if cells else ""
    text = ", ".join(filter(None, (*progress.at_work.counts, text)))
    at_work = f", {fit(text, name, glyphs)}" if name and text else ""
    return fit(f"{head} {bar}{count}{at_work}", room, glyphs)


def _shares(room: int) -> tuple[int, int]:
    """Columns for a name, whose length must not move the bar, and cells for the bar; 0 for what has
    to go.
    """
    least, most = _CELLS
    cells = min(room - len("[], ") - _SHORTEST, most)
    if cells >= least:
        return room - len("[], ") - cells, cells
    alone = min(room - len("[]"), most)
    return 0, alone if alone >= least else 0


def gauge(share: float, cells: int, glyphs: Glyphs) -> str:
    """`███▌  `: `share` of 1 in so many cells."""
    shades = glyphs.shades
    whole, part = divmod(int(share * cells * (len(shades) - 1)), len(shades) - 1)
    edge = shades[part] if part else ""
    return f"{shades[-1] * whole}{edge}".ljust(cells, shades[0])


def fit(text: str, room: int, glyphs: Glyphs) -> str:
    """`text` without colours and control characters, cut to `room` columns."""
    text = _UNSEEN.sub(lambda found: "" if found[0][0] == "\x1b" else " ", text)
    if columns(text) <= room:
        return text
    kept = text[: max(room - len(glyphs.more), 0)]
    while columns(kept) > room - len(glyphs.more) and kept:
        kept = kept[:-1]
    return f"{kept}{glyphs.more}"[:room]


def columns(text: str) -> int:
    """How wide a terminal shows it: the signs of East Asia take two."""
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)
