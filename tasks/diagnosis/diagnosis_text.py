"""Build the JSON form, the remedy and the source excerpt of a diagnosis.

`doit diagnose --json` and the record of a failed run use the JSON form.
"""

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
    """Return the diagnosis of the log `path` as a JSON object.

    `line` is the line in the source file if a compiler names one, else the line in the log.
    `remedy` is the one for this host, if any.
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
    """Return the remedy, with its placeholders replaced by the values in `known`.

    This is the first of `failure.here` whose placeholders are all known, else the general remedy.
    """
    for text in failure.here:
        if find_placeholders(text) <= known.keys():
            return _PLACEHOLDER.sub(lambda found: known[found[1]], text)
    return failure.remedy


def remove_own_commands(remedy: str) -> str:
    """Return the remedy without the clauses that name a command of torchyard."""
    clauses = re.split(r"; |,? then (?=doit )|, or (?=let doit )", remedy)
    return "; ".join(clause for clause in clauses if "doit " not in clause)


def find_placeholders(text: str) -> set[str]:
    """Return the placeholders of a remedy: `jobs`, `install:compiler`."""
    return set(_PLACEHOLDER.findall(text))


_PATH_START = r"""(?:^|(?<=[\s"'`‘“(\[{<=:,;|]))"""  # only a whole path, not the end of another
_PATH_REST = r"""[/\\](?P<below>[^\s"'`’”()\[\]{}<>:,;|]+)"""


def map_to_original(
    found: Diagnosis, copy: PurePath, original: PurePath, is_there: Callable[[str], bool]
) -> Diagnosis:
    """Map paths below the folder `copy` to `original` in the first error of a diagnosis.

    Paths are mapped only if `is_there` accepts the original: generated files exist only in the
    copy.
    """
    error = found.first_error
    if error is None:
        return found
    text, file = error.text, error.file
    if file and (mapped := _map_path(file, copy, original)) and is_there(mapped):
        text, file = text.replace(file, mapped, 1), mapped
    mapped_error = replace(
        error, text=_map_paths_in_text(text, copy, original, is_there), file=file
    )
    return replace(found, first_error=mapped_error)


def _map_path(file: str, copy: PurePath, original: PurePath) -> str:
    r"""Return the path in the original folder, "" for a path outside the copy.

    On Windows some compilers print / and others \ between folders.
    """
    for prefix in (str(copy), copy.as_posix()):
        for separator in ("/", "\\"):
            if file.startswith(prefix + separator):
                return f"{original}{file.removeprefix(prefix)}"
    return ""


def _map_paths_in_text(
    text: str, copy: PurePath, original: PurePath, is_there: Callable[[str], bool]
) -> str:
    """Map every path in the text; paths with spaces are not recognized."""
    prefixes = "|".join(map(re.escape, {str(copy), copy.as_posix()}))

    def map_match(found: re.Match[str]) -> str:
        mapped = _map_path(found[0], copy, original)
        return mapped if is_there(mapped) else found[0]

    return re.sub(f"{_PATH_START}(?:{prefixes}){_PATH_REST}", map_match, text)


_LINES_BEFORE, _LINES_AFTER = 5, 2
_MAX_EXCERPT_LENGTH = 96
_MARKER_LINE = re.compile(r"^[\s|]*[~^][\s|~^]*$")
_GUTTER = re.compile(r"^\s*\d* \|")  # printed by gcc and clang; not by nvcc and older versions
_REQUIRED_FROM = re.compile(r":\s+required from here$")


def extract_source_excerpt(raws: Sequence[RawLine], number: int) -> tuple[str, ...]:
    """Return the source excerpt that a compiler printed for the error in line `number` of the log.

    This is the "required from here" line of the instantiation, then the line of source and the
    marker below it; empty if they were not printed.
    """
    first, last = number - _LINES_BEFORE, number + _LINES_AFTER
    lines = {raw.number: strip_colors(raw.text) for raw in raws if first <= raw.number <= last}
    before = (lines.get(offset, "") for offset in range(first, number))
    context = [line.strip() for line in before if _REQUIRED_FROM.search(line)][-1:]
    following = [lines.get(number + offset, "") for offset in (1, 2)]
    source = (
        [f"|{_GUTTER.sub('', line)}" for line in following]
        if _MARKER_LINE.match(following[1])
        else []
    )
    return tuple(line[:_MAX_EXCERPT_LENGTH] for line in (*context, *source))
