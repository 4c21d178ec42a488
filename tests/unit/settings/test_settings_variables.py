"""An unused variable is reported with the closest known one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tasks.cli.commands import explain, settings
from tasks.settings.setting_errors import describe_unused_variables, find_nearest_variable
from tests.support.checkout import Heard, opened, write
from tests.support.rows import each_row

ROOT = Path(__file__).parents[3]
_NAME = re.compile(r"(?<![A-Za-z_])TORCHYARD_[A-Z]+(?:_[A-Z]+)*\b")
# A CMake definition, and variables that test extensions read in their own Python
_OF_NO_DOIT = {"TORCHYARD_CXX_STANDARD", "TORCHYARD_FAULT", "TORCHYARD_VARIANT"}


@each_row(
    ("name", "right"),
    [
        ("TORCHYARD_BUILD__JOBS", "TORCHYARD__BUILD__JOBS"),
        ("TORCHYARD_BUILD_JOBS", "TORCHYARD__BUILD__JOBS"),
        ("TORCHYARD__BUILD_JOBS", "TORCHYARD__BUILD__JOBS"),
        ("TORCHYARD_JOBS", "TORCHYARD__BUILD__JOBS"),
        ("TORCHYARD_TARGET_GPU", "TORCHYARD__TARGET__GPUS"),
        ("TORCHYARD_BUILD_CACHE_REMOTE", "TORCHYARD__BUILD__CACHE_REMOTE"),
        ("TORCHYARD_BUILD__ENV__Of_MINE", "TORCHYARD__BUILD__ENV__Of_MINE"),
        ("TORCHYARD_MIRRORS", "TORCHYARD__MIRRORS"),
        ("TORCHYARD__PROFILE", "TORCHYARD_PROFILE"),
        ("TORCHYARD_PROFIL", "TORCHYARD_PROFILE"),
        ("TORCHYARD_HOME", ""),
    ],
)
def test_closest_known_variable_is_found(name: str, right: str) -> None:
    assert find_nearest_variable(name) == right


def test_known_and_foreign_variables_are_not_reported() -> None:
    names = ("TORCHYARD_PROFILE", "TORCHYARD__BUILD__JOBS", "TORCHYARD_RUN", "_TORCHYARD_OFFLINE")
    assert not list(describe_unused_variables((*names, "MAX_JOBS", "TORCHYARDS")))
    assert list(describe_unused_variables(["TORCHYARD_HOME"])) == [
        "the variable TORCHYARD_HOME is set, but torchyard does not read it"
    ]


def test_every_variable_in_repository_is_known() -> None:
    found: set[str] = set()
    for folder in ("tasks", "templates", ".ci", ".github", "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc" and path != Path(__file__):
                found |= set(_NAME.findall(path.read_text(encoding="utf-8", errors="replace")))
    assert "TORCHYARD_TEST_REAL" in found
    assert not list(describe_unused_variables(found - _OF_NO_DOIT))


@pytest.mark.parametrize("report", [explain, settings])
def test_unused_variable_is_reported_by_explain_and_settings(
    report: object, yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(yard, "{}\n")
    monkeypatch.setenv("TORCHYARD_BUILD__JOBS", "2")
    report.run(opened(yard))  # type: ignore[attr-defined]
    output = " ".join(heard.text.split())
    assert "torchyard does not read it; did you mean TORCHYARD__BUILD__JOBS?" in output
