"""What a compiler shows beside its error: the source, and whose code came to a header. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.diagnosis.lines import Raw, uncoloured

BEFORE, AFTER = 5, 2
_LONGEST = 96
_MARKED = re.compile(r"^[\s|]*[~^][\s|~^]*$")
_GUTTER = re.compile(r"^\s*\d* \|")  # of gcc and clang; nvcc and older ones have none
_FROM = re.compile(r":\s+required from here$")


def excerpt(around: Sequence[Raw], number: int) -> tuple[str, ...]:
    """Of the lines around the error with that `number`: whose code instantiates what failed, then
    the line of source and the mark below it; none where they are not there.
    """
    lines = {raw.number: uncoloured(raw.text) for raw in around}
    before = (lines.get(one, "") for one in range(number - BEFORE, number))
    begun = [line.strip() for line in before if _FROM.search(line)][-1:]
    shown = [lines.get(number + one, "") for one in (1, 2)]
    source = [f"|{_GUTTER.sub('', line)}" for line in shown] if _MARKED.match(shown[1]) else []
    return tuple(line[:_LONGEST] for line in (*begun, *source))
