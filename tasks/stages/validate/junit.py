"""Checks as JUnit's XML, which CI systems show beside their other tests. Pure.

One testsuite of a testcase a check, its attributes and elements as Ant's JUnitReport task writes
them and as https://github.com/testmoapp/junitxml tells them. No times: two reports of the same
result are the same bytes.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tasks.core.model import Check
from tasks.stages.validate.job import Validation

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(profile: str, found: Validation) -> str:
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
        ET.SubElement(properties, "property", {"name": name, "value": _text(value)})
    for check in found.checks:
        _case(suite, profile, check)
    if found.warnings:
        ET.SubElement(suite, "system-err").text = _text("\n".join(found.warnings))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _case(suite: ET.Element, profile: str, check: Check) -> None:
    where = {"classname": f"torchyard.{profile}", "name": _text(check.name)}
    case = ET.SubElement(suite, "testcase", where)
    match check.status:
        case "passed":
            ET.SubElement(case, "system-out").text = _text(check.detail)
        case "not run":
            ET.SubElement(case, "skipped", {"message": _text(check.detail)})
        case "failed":
            told = {"message": _text(check.detail), "type": check.cause or "failed"}
            ET.SubElement(case, "failure", told).text = _text(check.remedy)


def _text(text: str) -> str:
    """Without what no XML file may hold, such as the colours of a terminal."""
    return _NOT_XML.sub("", text)
