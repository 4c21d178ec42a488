"""Tests of the JUnit report; checks that were not run never pass."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from tasks.core.model import ValidationResult
from tasks.stages.validate.check_results import build_validation, format_junit

CHECKS = (
    ValidationResult("import", "passed", "torch 2.15.0"),
    ValidationResult("machine_code", "failed", 'lib "x" <y> & z', "doit build", "no-kernel-image"),
    ValidationResult("matmul", "not run", "no GPU"),
    ValidationResult("smoke: import", "failed", "\x1b[31mbad\x1b[0m\0", "see log"),
)


def parsed(warnings: tuple[str, ...] = ()) -> ET.Element:
    text = format_junit("mine", build_validation("2.15.0+cu132", CHECKS, warnings))
    assert text.startswith('<?xml version="1.0" encoding="utf-8"?>\n')
    return ET.fromstring(text.encode())


def test_check_becomes_testcase_with_status_element() -> None:
    cases = {case.get("name"): case for case in parsed().iter("testcase")}
    assert list(cases) == [check.name for check in CHECKS]
    assert {case.get("classname") for case in cases.values()} == {"torchyard.mine"}
    found = {name: [child.tag for child in case] for name, case in cases.items()}
    assert found == {
        "import": ["system-out"],
        "machine_code": ["failure"],
        "matmul": ["skipped"],
        "smoke: import": ["failure"],
    }


def test_junit_failure_has_message_cause_and_remedy() -> None:
    (first, second) = parsed().iter("failure")
    assert first.attrib == {"message": 'lib "x" <y> & z', "type": "no-kernel-image"}
    assert first.text == "doit build"
    assert second.attrib == {"message": "[31mbad[0m", "type": "failed"}


def test_check_not_run_is_skipped_with_reason() -> None:
    (skipped,) = parsed().iter("skipped")
    assert skipped.attrib == {"message": "no GPU"}


def test_junit_counts_match_testcases() -> None:
    root = parsed()
    (suite,) = root
    for element in (root, suite):
        numbers = {
            name: int(element.get(name, "")) for name in ("tests", "failures", "errors", "skipped")
        }
        assert numbers == {"tests": 4, "failures": 2, "errors": 0, "skipped": 1}


def test_junit_structure_is_standard() -> None:
    """Elements and their order follow https://github.com/testmoapp/junitxml."""
    root = parsed(("moved",))
    assert root.tag == "testsuites"
    (suite,) = root
    assert suite.tag == "testsuite"
    assert suite.get("name") == "torchyard.mine"
    assert [child.tag for child in suite] == [
        "properties",
        *["testcase"] * len(CHECKS),
        "system-err",
    ]
    properties = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert properties == {"profile": "mine", "torch": "2.15.0+cu132"}
    assert suite.findtext("system-err") == "moved"
    known = {"testsuites", "testsuite", "properties", "property", "testcase"}
    known |= {"failure", "skipped", "system-out", "system-err"}
    assert {element.tag for element in root.iter()} <= known


def test_junit_output_is_deterministic() -> None:
    found = build_validation("2.15.0", CHECKS)
    assert format_junit("mine", found) == format_junit("mine", found)
    assert "time" not in format_junit("mine", found)
