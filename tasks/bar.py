"""One line of progress that fits its columns: what is done, a bar, the count, what is left. Pure.

Where room is short the name of the file at work gives way first, then the bar.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from tasks.progress import Progress

_CELLS = (5, 24)  # of a bar, at least and at most
_SHORTEST = 7  # columns of a name that still says something
_UNSEEN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Glyphs:
    """What a bar is drawn with: shades from empty to full, and the sign that a text goes on."""

    shades: str
    more: str


BLOCKS = Glyphs(" ▌█", "…")  # no finer: these are in every font, the console's own as well
ASCII = Glyphs("-#", "...")


def line(head: str, text: str, progress: Progress | None, room: int, glyphs: Glyphs) -> str:
    """`head: text`, or `head [███▌  ] 612/1368 45 %, 31 min left, text`, in `room` columns."""
    if progress is None:
        return fit(f"{head}: {text}" if text else head, room, glyphs)
    count = f"{progress.done}/{progress.total} {progress.percent} %"
    count = f"{count}, {progress.left}" if progress.left else count
    name, cells = _shares(room - columns(f"{head}  {count}"))
    bar = f"[{gauge(progress.done / progress.total, cells, glyphs)}] " if cells else ""
    text = ", ".join(filter(None, (progress.notes, text)))
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
    return sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)
