"""Checks as a table for people. Pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath

from tasks.core.formatting.lines import rows as laid_out
from tasks.core.model import Check
from tasks.stages.validate.job import Validation

_STYLES = {"passed": "32", "failed": "1;31", "not run": "33", "warning": "1;33"}
_STATUS, _GAP = 9, 2  # columns of the status, and between name and detail
Paint = Callable[[str, str], str]


def _bare(text: str, style: str) -> str:
    return text


def seen_from(root: PurePath, found: Validation) -> Validation:
    """With each path in the folder `root` from there on: a whole one is wider than a terminal."""
    begin = re.compile(rf"""(?:^|(?<=[\s"'(=:,;])){re.escape(str(root))}[/\\](?=\S)""")

    def short(text: str) -> str:
        return begin.sub("", text)

    checks = (
        replace(one, detail=short(one.detail), remedy=short(one.remedy)) for one in found.checks
    )
    return replace(found, checks=tuple(checks), warnings=tuple(map(short, found.warnings)))


def plain(found: Validation, room: int = sys.maxsize, paint: Paint = _bare) -> str:
    """What puts all of it in doubt; then a line a check: status, name, detail, and below a failure
    what to do. Each goes on below itself where `room` is short; `paint` colours a status.
    """
    doubts = (
        line
        for warning in found.warnings
        for line in _told("warning", "warning", warning, (_STATUS, room), paint)
    )
    return "\n".join([*doubts, *rows(found.checks, room, paint), summary(found)])


def rows(checks: Sequence[Check], room: int = sys.maxsize, paint: Paint = _bare) -> list[str]:
    """The lines of the checks alone."""
    width = min(max((len(check.name) for check in checks), default=0), max(room // 3, _STATUS))
    return [line for check in checks for line in _lines(check, width, room, paint)]


def _lines(check: Check, width: int, room: int, paint: Paint) -> Iterator[str]:
    indent = _STATUS + width + _GAP
    key = f"{check.status:<{_STATUS}}{check.name:<{width}}"
    yield from _told(check.status, key.rstrip(), check.detail, (indent, room), paint)
    if check.remedy:
        yield from laid_out(f"{'':{indent}}→ ", check.remedy, indent + 2, room)


def _told(status: str, key: str, text: str, place: tuple[int, int], paint: Paint) -> Iterator[str]:
    first, *more = laid_out(key, text, *place)
    yield f"{paint(status, _STYLES[status])}{first.removeprefix(status)}"
    yield from more


def summary(found: Validation) -> str:
    """`torch 2.15.0+cu132: 9 passed, 0 failed, 3 not run`."""
    return f"torch {found.torch}: " + ", ".join(
        f"{number} {status}" for status, number in found.counts.items()
    )


def remedies(failed: Sequence[Check]) -> str:
    """What to do about the failures, each thing once."""
    return "; ".join(dict.fromkeys(check.remedy for check in failed if check.remedy))
