"""What a compiler shows beside its error: the source, and whose code came to a header. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.diagnosis.lines import RawLine, strip_colors

LINES_BEFORE, LINES_AFTER = 5, 2
_MAX_EXCERPT_LENGTH = 96
_MARKER_LINE = re.compile(r"^[\s|]*[~^][\s|~^]*$")
_GUTTER = re.compile(r"^\s*\d* \|")  # of gcc and clang; nvcc and older ones have none
_REQUIRED_FROM = re.compile(r":\s+required from here$")


def extract_source_excerpt(around: Sequence[RawLine], number: int) -> tuple[str, ...]:
    """Of the lines around the error with that `number`: whose code instantiates what failed, then
    the line of source and the mark below it; none where they are not there.
    """
    lines = {raw.number: strip_colors(raw.text) for raw in around}
    before = (lines.get(one, "") for one in range(number - LINES_BEFORE, number))
    begun = [line.strip() for line in before if _REQUIRED_FROM.search(line)][-1:]
    shown = [lines.get(number + one, "") for one in (1, 2)]
    source = [f"|{_GUTTER.sub('', line)}" for line in shown] if _MARKER_LINE.match(shown[1]) else []
    return tuple(line[:_MAX_EXCERPT_LENGTH] for line in (*begun, *source))
