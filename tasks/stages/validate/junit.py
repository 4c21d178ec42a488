"""Checks as JUnit's XML, which CI systems show beside their other tests. Pure.

One testsuite of a testcase a check, its attributes and elements as Ant's JUnitReport task writes
them and as https://github.com/testmoapp/junitxml tells them. No times: two reports of the same
result are the same bytes.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tasks.core.model import ValidationResult
from tasks.stages.validate.job import Validation

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
