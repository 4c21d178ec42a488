"""The lines of a log: what the tools wrote, without what terminals and CI put around it, each in
the Ninja edge, or the MSBuild project, whose output it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tasks.core.ninjalines import find_failed_output, parse_ninja_step
from tasks.diagnosis.languages import translate_to_english

_MAX_LINE_LENGTH = 2000
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|[\x00\x08]"
)
_LINE_PREFIX = re.compile(
    r"""^\ufeff?
      (?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?
         (?:Z|[+-]\d\d:?\d\d)?\]?\s?)?    # a CI's clock
      (?:\#\d+\s\d+\.\d+\s?)?   # docker build
      (?:\#\#\[\w+\]|::\w+::)?   # CI commands
      (?:\s*[│|]\s(?=\s*\S))?   # pip's frame
    """,
    re.VERBOSE,
)
_PROJECT = re.compile(r"^\s*(\d+)>")
_CAUSED_BY = re.compile(r"\s+Caused by:")
_EDGE_END = re.compile(r"^\s*(?:ninja: |Traceback \(most recent|\[end of output\])")


@dataclass(frozen=True)
class RawLine:
    """A line as it was read; `number` counts from 1 in the whole log."""

    number: int
    text: str


@dataclass(frozen=True)
class LogLine:
    """A line as it is judged. `unit` is whose output it is, "" for nobody's; `failed` whether that
    edge did: None where it is no edge.
    """

    number: int
    text: str
    unit: str = ""
    failed: bool | None = None


def strip_decorations(text: str) -> str:
    """The line without colours, a CI's clock, docker's step, pip's frame; and in English."""
    return translate_to_english(_LINE_PREFIX.sub("", strip_colors(text), count=1))


def strip_colors(text: str) -> str:
    """The line as it was written, with its frame, without colours."""
    return _ESCAPES.sub("", text).rstrip()[:_MAX_LINE_LENGTH]


def is_debug(text: str, before: bool) -> bool:
    """Whether uv tells its own story here, of tries that may have succeeded later: `DEBUG …`, and
    the causes that follow such a line (`before`).
    """
    return text.startswith("DEBUG ") or (before and bool(_CAUSED_BY.match(text)))


def parse_lines(raws: Iterable[RawLine]) -> Iterator[LogLine]:
    """The lines, each with the edge it belongs to; those of `is_debug` are none of them."""
    unit, failed, debug = "", None, False
    for raw in raws:
        text = strip_decorations(raw.text)
        if debug := is_debug(text, debug):
            continue
        if project := _PROJECT.match(text):
            yield LogLine(raw.number, text[project.end() :], f"project {project[1]}")
            continue
        unit, failed = _track_edge(text, unit, failed)
        yield LogLine(raw.number, text, unit, failed)


def _track_edge(text: str, unit: str, failed: bool | None) -> tuple[str, bool | None]:
    """The edge that is current from this line on."""
    if output := find_failed_output(text):
        return output, True
    if found := parse_ninja_step(text):
        return f"[{found.done}/{found.total}]", False
    return ("", None) if _EDGE_END.match(text) else (unit, failed)
