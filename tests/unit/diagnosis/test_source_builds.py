"""The package that was not built, its release, and why pip compiles it, are read from a log."""

from __future__ import annotations

import pytest

from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.log_facts import LogFacts
from tasks.diagnosis.log_lines import RawLine
from tasks.diagnosis.source_builds import find_script_message, find_source_build
from tasks.doctor.explain_failure_io import explain_log
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row

MACHINE = LogFacts({"Python": "3.12", "system": "Windows"})
BUILDS = {
    "  Downloading numpy-1.24.3.tar.gz\nERROR: Failed building wheel for numpy": "numpy 1.24.3",
    "Collecting scipy==1.7.3\n  ERROR: Failed building wheel for scipy": "scipy 1.7.3",
    "Successfully built toy\nFailed to build tokenizers pyyaml": "tokenizers",
    "  × Failed to build `lxml==4.9.1`": "lxml 4.9.1",
    "Collecting toy>=1\nCollecting pandas<3\n  error: metadata-generation-failed": "pandas",
    "Project name: pandas\nProject version: 2.2\nerror: metadata-generation-failed": "pandas 2.2",
    "ERROR: Failed to build installable wheels for some projects (scipy)": "scipy",
    "copying a/integrated.py\nERROR: Could not build wheels for lxml which use PEP 517": "lxml",
    "PyYAML (5.4.1)\nERROR: Could not build wheels for pyyaml, which is required": "pyyaml 5.4.1",
    "Using cached numpy-2.1.0-cp312-cp312-win_amd64.whl\nFailed to build numpy": "numpy",
}


@each_row(("log", "build"), list(BUILDS.items()))
def test_failed_source_build_is_found(log: str, build: str) -> None:
    found = find_source_build(log.split("\n"), MACHINE)
    assert str(found) == build
    assert found is not None
    assert (found.minor, found.family) == ("3.12", "windows")


@pytest.mark.parametrize(
    "log",
    [
        "Collecting numpy\nERROR: No matching distribution found for numpy",
        "  creating build/lib.linux-aarch64-3.12\n  ERROR: Failed building wheel for numpy",
        "pip install --no-binary=:all: numpy\nERROR: Failed building wheel for numpy",
        "  Building for Jetson\n  ERROR: Failed building wheel for numpy",
    ],
)
def test_other_failures_and_machines_have_no_build(log: str) -> None:
    assert find_source_build(log.split("\n"), MACHINE) is None


def explain(log: str) -> tuple[str, str]:
    raws = [RawLine(number, text) for number, text in enumerate(log.split("\n"), 1)]
    explanation = explain_log(ParsedLog(raws), KNOWLEDGE, None)
    return explanation.cause, explanation.remedy


def test_release_with_a_wheel_is_the_first_step() -> None:
    log = """\
  Downloading tokenizers-0.10.3.tar.gz (212 kB)
  building 'tokenizers.tokenizers' extension for cpython-311
  error: can't find Rust compiler
  ERROR: Failed building wheel for tokenizers"""
    cause, remedy = explain(log)
    assert "Rust" in cause
    assert remedy.startswith(
        'install a release with a wheel: pip install --only-binary=:all: "tokenizers>=0.13.2"; or '
    )
    assert "(tokenizers 0.10.3 has no wheel for Python 3.11: " in remedy.split("\n")[0]


def test_missing_wheel_is_the_cause_of_an_unknown_error() -> None:
    log = """\
Collecting greenlet==2.0.1
  toy_core.h(17): error: a message that no rule knows
  building for cp314-win_amd64
  ERROR: Failed building wheel for greenlet"""
    cause, remedy = explain(log)
    assert cause.startswith("greenlet 2.0.1 has no wheel for Python 3.14: ")
    assert '"greenlet>=' in remedy


def test_message_of_a_build_script_is_the_cause() -> None:
    log = """\
  error: subprocess-exited-with-error
  × Getting requirements to build wheel did not run successfully.
  │ exit code: 1
  ╰─> [2 lines of output]
      Toys are assembled by hand on this planet!
      See the manual.
      [end of output]
error: subprocess-exited-with-error
"""
    raws = [RawLine(at, line) for at, line in enumerate(log.splitlines(), 1)]
    explained = explain_log(ParsedLog(raws), KNOWLEDGE, None)
    assert explained.cause.endswith("its own message: Toys are assembled by hand on this planet!")
    assert explained.found.first_error is not None
    assert explained.found.first_error.number == 5


@pytest.mark.parametrize(
    "output",
    [
        "Collecting setuptools\n      Using cached setuptools-75.whl",
        "Building extension toy\n      PyTorch version 2.1.0",
        "Traceback (most recent call last):",
        "toy",
    ],
)
def test_other_output_of_a_build_script_is_no_message(output: str) -> None:
    log = f"  ╰─> [2 lines of output]\n      {output}\n      [end of output]"
    lines = ParsedLog([RawLine(at, line) for at, line in enumerate(log.split("\n"), 1)]).lines
    assert find_script_message(lines) is None
