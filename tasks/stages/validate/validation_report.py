"""Checks as a table for people."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from xml.etree import ElementTree as ET

from tasks.core.model import ValidationResult
from tasks.core.text_layout import format_labeled_lines as laid_out
from tasks.stages.validate.model import Validation

_STYLES = {"passed": "32", "failed": "1;31", "not run": "33", "warning": "1;33"}
_STATUS, _GAP = 9, 2  # columns of the status, and between name and detail
Paint = Callable[[str, str], str]


def _paint_nothing(text: str, style: str) -> str:
    return text


def shorten_paths(root: PurePath, found: Validation) -> Validation:
    """With each path in the folder `root` from there on: a whole one is wider than a terminal."""
    begin = re.compile(rf"""(?:^|(?<=[\s"'(=:,;])){re.escape(str(root))}[/\\](?=\S)""")

    def remove_root(text: str) -> str:
        return begin.sub("", text)

    checks = (
        replace(one, detail=remove_root(one.detail), remedy=remove_root(one.remedy))
        for one in found.checks
    )
    return replace(found, checks=tuple(checks), warnings=tuple(map(remove_root, found.warnings)))


def format_validation(
    found: Validation, room: int = sys.maxsize, paint: Paint = _paint_nothing
) -> str:
    """What puts all of it in doubt; then a line a check: status, name, detail, and below a failure
    what to do. Each goes on below itself where `room` is short; `paint` colours a status.
    """
    doubts = (
        line
        for warning in found.warnings
        for line in _format_status_lines("warning", "warning", warning, (_STATUS, room), paint)
    )
    return "\n".join(
        [*doubts, *format_check_rows(found.checks, room, paint), format_summary(found)]
    )


def format_check_rows(
    checks: Sequence[ValidationResult], room: int = sys.maxsize, paint: Paint = _paint_nothing
) -> list[str]:
    """The lines of the checks alone."""
    width = min(max((len(check.name) for check in checks), default=0), max(room // 3, _STATUS))
    return [line for check in checks for line in _format_check(check, width, room, paint)]


def _format_check(check: ValidationResult, width: int, room: int, paint: Paint) -> Iterator[str]:
    indent = _STATUS + width + _GAP
    key = f"{check.status:<{_STATUS}}{check.name:<{width}}"
    yield from _format_status_lines(check.status, key.rstrip(), check.detail, (indent, room), paint)
    if check.remedy:
        yield from laid_out(f"{'':{indent}}→ ", check.remedy, indent + 2, room)


def _format_status_lines(
    status: str, key: str, text: str, place: tuple[int, int], paint: Paint
) -> Iterator[str]:
    first, *more = laid_out(key, text, *place)
    yield f"{paint(status, _STYLES[status])}{first.removeprefix(status)}"
    yield from more


def format_summary(found: Validation) -> str:
    """`torch 2.15.0+cu132: 9 passed, 0 failed, 3 not run`."""
    return f"torch {found.torch}: " + ", ".join(
        f"{number} {status}" for status, number in found.counts.items()
    )


def join_hints(failed: Sequence[ValidationResult]) -> str:
    """What to do about the failures, each thing once."""
    return "; ".join(dict.fromkeys(check.remedy for check in failed if check.remedy))


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def format_junit(profile: str, found: Validation) -> str:
    """The report: a failure holds what to do as its text, what was not run the reason."""
    counts = {
        "tests": len(found.checks),
        "failures": found.counts["failed"],
        "errors": 0,
        "skipped": found.counts["not run"],
    }
    numbers = {name: str(number) for name, number in counts.items()}
    root = ET.Element("testsuites", {"name": "doit validate", **numbers})
    suite = ET.SubElement(root, "testsuite", {"name": f"torchyard.{profile}", **numbers})
    properties = ET.SubElement(suite, "properties")
    for name, value in (("profile", profile), ("torch", found.torch)):
        ET.SubElement(
            properties, "property", {"name": name, "value": _remove_invalid_characters(value)}
        )
    for check in found.checks:
        _add_testcase(suite, profile, check)
    if found.warnings:
        ET.SubElement(suite, "system-err").text = _remove_invalid_characters(
            "\n".join(found.warnings)
        )
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_testcase(suite: ET.Element, profile: str, check: ValidationResult) -> None:
    where = {"classname": f"torchyard.{profile}", "name": _remove_invalid_characters(check.name)}
    case = ET.SubElement(suite, "testcase", where)
    match check.status:
        case "passed":
            ET.SubElement(case, "system-out").text = _remove_invalid_characters(check.detail)
        case "not run":
            ET.SubElement(case, "skipped", {"message": _remove_invalid_characters(check.detail)})
        case "failed":
            told = {
                "message": _remove_invalid_characters(check.detail),
                "type": check.cause or "failed",
            }
            ET.SubElement(case, "failure", told).text = _remove_invalid_characters(check.remedy)


def _remove_invalid_characters(text: str) -> str:
    """Without what no XML file may hold, such as the colours of a terminal."""
    return _NOT_XML.sub("", text)
