"""Build the JSON form, the remedy and the source excerpt of a diagnosis."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from tasks.diagnosis.failure_cause import Diagnosis
from tasks.diagnosis.log_lines import RawLine, strip_colors
from tasks.knowledge.facts import Failure


def build_diagnosis_document(found: Diagnosis, path: PurePath, remedy: str = "") -> dict[str, Any]:
    """Return the diagnosis as a JSON object, for `doit diagnose --json` and the record of a run.

    The line of the error is counted in the source file or, if unknown, in the log. A `remedy`
    replaces the general remedy of the failure.
    """
    failure, error = found.failure, found.first_error
    first_error = error and {
        "file": error.file or str(path),
        "line": error.line if error.line is not None else error.number,
        "text": error.text,
        "log_line": error.number,
    }
    kind = found.kind
    explanation = kind.cause if kind else failure.cause if failure else None
    return {
        "cause": failure.slug if failure else None,
        "kind": kind.kind.slug if kind else None,
        "about": kind.kind.about if kind else None,
        "candidates": list(found.candidates),
        "first_error": first_error,
        "explanation": explanation,
        "remedy": (remedy or fill_remedy(failure)) if failure else (remedy if kind else None),
        "evidence": failure.status if failure else None,
        "goes_by": found.by or None,
        "log": str(path),
    }


_PLACEHOLDER = re.compile(r"\{([a-z][a-z_]*(?::[a-z-]+)?)\}")
_NOTHING: Mapping[str, str] = {}


def fill_remedy(failure: Failure, known: Mapping[str, str] = _NOTHING) -> str:
    """Return the remedy of a failure in a build of torchyard, for this host as far as it is known.

    It is the first text of `failure.here` with a value in `known` for each of its placeholders. If
    there is none, it is the remedy for any build, one step on each line.
    """
    for text in failure.here:
        if find_placeholders(text) <= known.keys():
            return _PLACEHOLDER.sub(lambda found: known[found[1]], text)
    return "\n".join(failure.remedy)


def find_placeholders(text: str) -> set[str]:
    """Return the names of the placeholders in a remedy: `jobs`, `install:compiler`."""
    return set(_PLACEHOLDER.findall(text))


_PATH_START = r"""(?:^|(?<=[\s"'`‘“(\[{<=:,;|]))"""  # only a whole path, not the end of another
_PATH_REST = r"""[/\\](?P<below>[^\s"'`’”()\[\]{}<>:,;|]+)"""


def map_to_original(
    found: Diagnosis, copy: PurePath, original: PurePath, exists: Callable[[str], bool]
) -> Diagnosis:
    """Replace paths in `copy` with paths in `original` in the first error.

    A path for which `exists` returns False is kept: generated files exist only in the copy.
    """
    error = found.first_error
    if error is None:
        return found
    prefixes = {str(copy), copy.as_posix()}

    def map_path(file: str) -> str:
        # on Windows some compilers print / and others \ between folders
        starts = tuple(prefix + separator for prefix in prefixes for separator in "/\\")
        mapped = f"{original}{file[len(str(copy)) :]}" if file.startswith(starts) else ""
        return mapped if mapped and exists(mapped) else file

    text, file = error.text, error.file
    if file:
        text, file = text.replace(file, map_path(file), 1), map_path(file)
    alternatives = "|".join(map(re.escape, prefixes))
    pattern = f"{_PATH_START}(?:{alternatives}){_PATH_REST}"
    text = re.sub(pattern, lambda match: map_path(match[0]), text)
    return replace(found, first_error=replace(error, text=text, file=file))


_LINES_BEFORE, _LINES_AFTER = 5, 2
_MAX_EXCERPT_LENGTH = 96
_MARKER_LINE = re.compile(r"^[\s|]*[~^][\s|~^]*$")
_GUTTER = re.compile(r"^\s*\d* \|")  # printed by gcc and clang; not by nvcc and older versions
_REQUIRED_FROM = re.compile(r":\s+required from here$")


def extract_source_excerpt(raws: Sequence[RawLine], number: int) -> tuple[str, ...]:
    """Return the source excerpt that a compiler printed for the error in line `number` of the log.

    The excerpt contains the "required from here" line of a template, the source line, and the
    marker below it.
    """
    first, last = number - _LINES_BEFORE, number + _LINES_AFTER
    lines = {raw.number: strip_colors(raw.text) for raw in raws if first <= raw.number <= last}
    before = (lines.get(offset, "") for offset in range(first, number))
    context = [line.strip() for line in before if _REQUIRED_FROM.search(line)][-1:]
    source, marker = lines.get(number + 1, ""), lines.get(number + 2, "")
    if _MARKER_LINE.match(marker):
        context += [f"|{_GUTTER.sub('', line)}" for line in (source, marker)]
    return tuple(line[:_MAX_EXCERPT_LENGTH] for line in context)
