"""Ninja's own lines, which pip indents: how far it is, what a step is about, what failed. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STEP = re.compile(r"\s*\[(\d+)/(\d+)\](?:\s+(.*)|$)", re.DOTALL)
_FAILED = re.compile(r"\s*FAILED: (?:\[code=-?\d+\] )?(\S+)")
_OUTPUT = re.compile(r"(?:Building \S+ object|Linking \S+ .*?(?:library|executable|module)) (\S+)")
_COMMAND = re.compile(r"\s(?:-o\s+|/Fo)(\S+)")


@dataclass(frozen=True)
class Step:
    """`[3/9] Building CXX object x.cpp.o`."""

    done: int
    total: int
    text: str


def step(line: str) -> Step | None:
    """What a line tells of a step, None where it is of none."""
    found = _STEP.match(line)
    return Step(int(found[1]), int(found[2]), found[3] or "") if found else None


def output_of(line: str) -> str:
    """The output that a step is about, "" where it names none."""
    found = _OUTPUT.search(line) or _COMMAND.search(line)
    return found[1] if found else ""


def failed_output(line: str) -> str:
    """The output that could not be made, the first where a line names several; "" in any other."""
    found = _FAILED.match(line)
    return found[1] if found else ""
