"""A diagnosis for programs: `doit diagnose --json`, and the record of a run that failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from tasks.diagnosis.failure_cause import Diagnosis
from tasks.diagnosis.log_lines import RawLine, strip_colors
from tasks.knowledge.facts import Failure


def build_diagnosis_document(found: Diagnosis, path: PurePath, remedy: str = "") -> dict[str, Any]:
    """The diagnosis of the log `path`. `line` is that of the source where a compiler names one,
    else that of the log; `remedy` is the one for this host, where there is one.
    """
    failure, error = found.failure, found.first_error
    return {
        "cause": failure.slug if failure else None,
        "candidates": list(found.candidates),
        "first_error": {
            "file": error.file or str(path),
            "line": error.line if error.line is not None else error.number,
            "text": error.text,
            "log_line": error.number,
        }
        if error
        else None,
        "explanation": failure.cause if failure else None,
        "remedy": (remedy or failure.remedy) if failure else None,
        "evidence": failure.status if failure else None,
        "goes_by": found.by or None,
        "log": str(path),
    }


_PLACEHOLDER = re.compile(r"\{([a-z][a-z_]*(?::[a-z-]+)?)\}")


def fill_remedy(failure: Failure, known: Mapping[str, str]) -> str:
    """The first of `failure.here` whose words are all known, with what they stand for here; else
    the one that holds everywhere.
    """
    for text in failure.here:
        if find_placeholders(text) <= known.keys():
            return _PLACEHOLDER.sub(lambda found: known[found[1]], text)
    return failure.remedy


def find_placeholders(text: str) -> set[str]:
    """The words of a remedy that a host has to fill: `jobs`, `install:compiler`."""
    return set(_PLACEHOLDER.findall(text))


_PATH_START = r"""(?:^|(?<=[\s"'`‘“(\[{<=:,;|]))"""  # a path: no other path may go on into it
_PATH_REST = r"""[/\\](?P<below>[^\s"'`’”()\[\]{}<>:,;|]+)"""


def map_to_original(
    found: Diagnosis, copy: PurePath, original: PurePath, is_there: Callable[[str], bool]
) -> Diagnosis:
    """The diagnosis with `original` for the folder `copy` in its first error, of each file that
    `is_there`: what the build itself made is in the copy alone.
    """
    error = found.first_error
    if error is None:
        return found
    text, file = error.text, error.file
    if file and (moved := _map_path(file, copy, original)) and is_there(moved):
        text, file = text.replace(file, moved, 1), moved
    told = replace(error, text=_map_paths_in_text(text, copy, original, is_there), file=file)
    return replace(found, first_error=told)


def _map_path(file: str, copy: PurePath, original: PurePath) -> str:
    """The path of the original, "" of what is not in the copy. On Windows a compiler has / where
    another has \\ between folders.
    """
    for written in (str(copy), copy.as_posix()):
        for separator in ("/", "\\"):
            if file.startswith(written + separator):
                return f"{original}{file.removeprefix(written)}"
    return ""


def _map_paths_in_text(
    text: str, copy: PurePath, original: PurePath, is_there: Callable[[str], bool]
) -> str:
    """Every path of the text; of one with spaces in it only the first error's file is known."""
    written = "|".join(map(re.escape, {str(copy), copy.as_posix()}))

    def map_match(found: re.Match[str]) -> str:
        moved = _map_path(found[0], copy, original)
        return moved if is_there(moved) else found[0]

    return re.sub(f"{_PATH_START}(?:{written}){_PATH_REST}", map_match, text)


_LINES_BEFORE, _LINES_AFTER = 5, 2
_MAX_EXCERPT_LENGTH = 96
_MARKER_LINE = re.compile(r"^[\s|]*[~^][\s|~^]*$")
_GUTTER = re.compile(r"^\s*\d* \|")  # of gcc and clang; nvcc and older ones have none
_REQUIRED_FROM = re.compile(r":\s+required from here$")


def extract_source_excerpt(raws: Sequence[RawLine], number: int) -> tuple[str, ...]:
    """Of the lines around the error with that `number`: whose code instantiates what failed, then
    the line of source and the mark below it; none where they are not there.
    """
    first, last = number - _LINES_BEFORE, number + _LINES_AFTER
    lines = {raw.number: strip_colors(raw.text) for raw in raws if first <= raw.number <= last}
    before = (lines.get(one, "") for one in range(first, number))
    begun = [line.strip() for line in before if _REQUIRED_FROM.search(line)][-1:]
    shown = [lines.get(number + one, "") for one in (1, 2)]
    source = [f"|{_GUTTER.sub('', line)}" for line in shown] if _MARKER_LINE.match(shown[1]) else []
    return tuple(line[:_MAX_EXCERPT_LENGTH] for line in (*begun, *source))
