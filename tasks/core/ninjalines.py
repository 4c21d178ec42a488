"""Ninja's own lines, which pip indents: how far it is, what a step is about, what failed. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STEP_LINE = re.compile(r"\s*\[(\d+)/(\d+)\](?:\s+(.*)|$)", re.DOTALL)
_FAILED_LINE = re.compile(r"\s*FAILED: (?:\[code=-?\d+\] )?(\S+)")
_STEP_OUTPUT = re.compile(
    r"(?:Building \S+ object|Linking \S+ .*?(?:library|executable|module)) (\S+)"
)
_COMMAND_OUTPUT = re.compile(r"\s(?:-o\s+|/Fo)(\S+)")


@dataclass(frozen=True)
class NinjaStep:
    """`[3/9] Building CXX object x.cpp.o`."""

    done: int
    total: int
    text: str


def parse_ninja_step(line: str) -> NinjaStep | None:
    """What a line tells of a step, None where it is of none."""
    found = _STEP_LINE.match(line)
    return NinjaStep(int(found[1]), int(found[2]), found[3] or "") if found else None


def find_step_output(line: str) -> str:
    """The output that a step is about, "" where it names none."""
    found = _STEP_OUTPUT.search(line) or _COMMAND_OUTPUT.search(line)
    return found[1] if found else ""


def find_failed_output(line: str) -> str:
    """The output that could not be made, the first where a line names several; "" in any other."""
    found = _FAILED_LINE.match(line)
    return found[1] if found else ""
