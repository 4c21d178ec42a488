"""Diagnosis of build logs: every known failure has its cause, an uncertain one has none."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tasks.diagnosis.failure_cause import Diagnosis, diagnose_log
from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.log_lines import RawLine
from tasks.doctor.explain_failure_io import explain_log
from tests.support.checkout import KNOWLEDGE, ROOT
from tests.support.rows import each_row

LOGS = ROOT / "tests" / "unit"
SHARED = "TORCHYARD_TEST_FAILURES"


def read_cases(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the logs of a file, each with its cause."""
    for section in path.read_text(encoding="utf-8").split("\n== ")[1:]:
        slug, _, texts = section.partition("\n")
        yield from ((slug, one) for one in texts.split("\n--\n"))


def diagnose(log: str) -> Diagnosis:
    raws = [RawLine(number, text) for number, text in enumerate(log.split("\n"), 1)]
    return diagnose_log(KNOWLEDGE.failures, ParsedLog(raws))


def cause(log: str) -> str | None:
    failure = diagnose(log).failure
    return failure.slug if failure else None


FAILURES = LOGS / "failures"
KNOWN = [*read_cases(FAILURES / "build.txt"), *read_cases(LOGS / "failures.txt")]
VARIATIONS = list(read_cases(FAILURES / "variations.txt"))
RESOLVER = list(read_cases(FAILURES / "resolver.txt"))
UNKNOWN = [log for _, log in read_cases(FAILURES / "unknown.txt")]
SUCCESSES = sorted((FAILURES / "successes").glob("*.txt"))
RECOVERED = sorted((FAILURES / "recovered").glob("*.txt"))


@each_row(("slug", "log"), [*KNOWN, *VARIATIONS], ids=[slug for slug, _ in [*KNOWN, *VARIATIONS]])
def test_known_failure_log_yields_cause(slug: str, log: str) -> None:
    assert cause(log) == slug


@pytest.mark.parametrize(("conflict", "log"), RESOLVER)
def test_resolver_conflict_names_both_requirements(conflict: str, log: str) -> None:
    found = diagnose(log)
    assert found.failure is not None
    assert found.first_error is not None
    if conflict == "none":
        assert found.failure.slug == "no-matching-distribution"
    else:
        assert found.failure.slug == "resolver-conflict"
        assert found.first_error.text.endswith(f": {conflict}")


def test_every_known_cause_has_log() -> None:
    known = {one.slug for one in KNOWLEDGE.failures if one.rank != "hint"}
    assert {slug for slug, _ in KNOWN} == known


def test_remedies_name_existing_settings() -> None:
    settings = yaml.safe_load((ROOT / "config" / "default.yaml").read_text(encoding="utf-8"))
    sections = {name: value for name, value in settings.items() if isinstance(value, dict)}
    named = re.compile(rf"(?<![\w./])({'|'.join(sections)})\.([a-z_]+)\b")
    for failure in KNOWLEDGE.failures:
        for section, key in named.findall("\n".join(failure.here)):
            if (section, key) != ("torch", "utils"):  # torch.utils is a Python module
                assert key in sections[section], f"{failure.slug}: {section}.{key}"


@pytest.mark.skipif(SHARED not in os.environ, reason=f"not run: {SHARED} names no failures.jsonl")
def test_real_failures_are_diagnosed() -> None:
    """At least 85 % of all causes and 95 % of the reported causes are correct."""
    rows = [json.loads(row) for row in Path(os.environ[SHARED]).read_text("utf-8").splitlines()]
    found = [(row["cause"], cause(row["log"])) for row in rows]
    right = sum(expected == actual for expected, actual in found)
    reported = sum(actual is not None for _, actual in found)
    assert right >= 0.85 * len(rows)
    assert right >= 0.95 * reported


SUCCESSFUL = [
    "-- Could NOT find CUDNN (missing: CUDNN_LIBRARY_PATH)\n-- Configuring done\n[1/1] Linking",
    "-- MKL could not be found.  Defaulting to Eigen\n-- Build files have been written to: /b",
    "-- Performing Test HAS_X - Failed\n-- Looking for cuda.h - not found\n[1/1] c++ -c a.cpp",
    "[1/2] c++ -Werror=return-type -c error.cpp -o error.o\na.cpp:1:1: warning: FLT_MAX redefined",
    "cpp_extension.py:361: UserWarning: Error checking compiler version for cl: [WinError 2] x\n",
    (
        "  error: invalid command 'bdist_wheel'\n  ERROR: Failed building wheel for a\n"
        "    Running setup.py install for a: finished\nSuccessfully installed a-1.0"
    ),
    (
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'ReadTimeoutError'\n"
        "Downloading torch.whl\nSuccessfully installed torch-2.9.1"
    ),
    "cc1: fatal error: yaml/_yaml.c: No such file or directory\nSuccessfully installed pyyaml-6",
    "fatal: not a git repository (or any of the parent directories): .git\n[1/1] c++ -c a.cpp",
    "a.cpp:3:9: warning: comparison 'uint32_t' and 'int' [-Wsign-compare]\n[9/9] Linking a.so",
    "E: could not find ninja, falling back to distutils\nrunning install",
    "",
]


@each_row("path", SUCCESSES, ids=lambda path: path.stem)
def test_log_of_real_successful_build_has_no_cause(path: Path) -> None:
    """These excerpts mention errors, but the builds succeeded; the same holds without the final
    line that says so.
    """
    log = path.read_text(encoding="utf-8")
    assert cause(log) is None
    assert cause(re.sub(r"(?m)^\s*(?:Successfully |Installed |-- Build files).*$", "", log)) is None


@each_row("path", [*SUCCESSES, *RECOVERED], ids=lambda path: path.stem)
def test_log_of_successful_build_has_no_first_error(path: Path) -> None:
    raws = [RawLine(at, text) for at, text in enumerate(path.read_text("utf-8").split("\n"), 1)]
    found = explain_log(ParsedLog(raws), KNOWLEDGE, None).found
    assert (found.failure, found.kind, found.candidates) == (None, None, ())
    assert found.first_error is None


@each_row("log", UNKNOWN)
def test_log_similar_to_known_failure_has_no_cause(log: str) -> None:
    assert cause(log) is None


@each_row("log", SUCCESSFUL)
def test_log_of_successful_build_has_no_cause(log: str) -> None:
    assert cause(log) is None


def test_unknown_failure_reports_first_error() -> None:
    found = diagnose("a.cpp:7:3: error: expected ';' before '}' token\nninja: build stopped: x.")
    assert found.failure is None
    assert found.first_error is not None
    assert (found.first_error.file, found.first_error.line) == ("a.cpp", 7)


WERROR = "a.cpp:3:7: error: unused variable 'x' [-Werror=unused-variable]"


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        (["g++ -O2 -Werror -Wall -c a.cpp -o a.o", WERROR], WERROR),
        ([WERROR, "cc1plus: all warnings being treated as errors"], WERROR),
        (["cc1plus: all warnings being treated as errors", "error: command 'g++' failed with exit"],
         None),
        (["a.cpp:3:7: error: unused variable 'x' [-Werror,-Wunused-variable]"], None),
        (["cc1plus: error: '-Werror=nope': no option '-Wnope'"], None),
        (['k.cu(3): error #177-D: variable "x" was declared but never referenced'], None),
        (["x86_64-conda-linux-gnu-c++ -DNAME=error: -Werror -c a.cpp -o a.o", WERROR], WERROR),
        (["-- CXX flags: -Wall -Werror=return-type could not find x", WERROR], WERROR),
        (["FAILED: a.o", "  : && env 'A=fatal error:' cc -Werror -o a a.o && :", WERROR], WERROR),
        (["  Running command git submodule update --init --recursive -q", WERROR], WERROR),
    ],
)  # fmt: skip
def test_first_error_is_werror_diagnostic_not_flag_or_progress(
    lines: list[str], first: str | None
) -> None:
    found = diagnose("\n".join(lines))
    assert found.failure is None
    assert found.first_error is not None
    assert found.first_error.text == (first or lines[0])


RETRY = "WARNING: Retrying (Retry(total={})) after connection broken by 'ProxyError(0x7f)': /a"
NO_OPS = "Couldn't load custom C++ ops. This can happen if your PyTorch and "


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        (["CMake Error at c.cmake:66 (message):", "", "  Failed to find nvToolsExt"],
         "CMake Error at c.cmake:66 (message): Failed to find nvToolsExt"),
        (["src/core.cu(717): error: expected an expression",
          "make[4]: *** [/w/third_party/nccl/build/obj/core.o] Error 2"],
         "src/core.cu(717): error: expected an expression"),
        ([RETRY.format(1), RETRY.format(0), "ERROR: No matching distribution found for a"],
         RETRY.format(1)),
        ([f'    "{NO_OPS}"', f"RuntimeError: {NO_OPS}torchvision"],
         f"RuntimeError: {NO_OPS}torchvision"),
        (["Oct 04 15:02:41 host run.sh[394]: ModuleNotFoundError: No module named 'torch._six'"],
         "ModuleNotFoundError: No module named 'torch._six'"),
    ],
)  # fmt: skip
def test_first_error_is_the_message(lines: list[str], first: str) -> None:
    found = diagnose("\n".join(lines))
    assert found.first_error is not None
    assert found.first_error.text == first


def test_ambiguous_causes_are_candidates() -> None:
    found = diagnose(r"FileNotFoundError: [WinError 3] El sistema: 'C:\\x\\third_party\\flash'")
    assert found.failure is None
    assert found.candidates == ("win-long-path", "missing-submodule-headers")


@pytest.mark.parametrize("symbol", ["toy_forward", "PyCObject_Type", "_ZN2cv3MatC1Ev"])
def test_undefined_symbol_of_unknown_library_stays_candidate(
    symbol: str,
) -> None:
    found = diagnose(f"ImportError: /v/toy/_C.so: undefined symbol: {symbol}")
    assert found.failure is None
    assert found.candidates == ("ext-own-symbol-missing",)


def test_success_line_is_neither_evidence_nor_first_error() -> None:
    success = "[  8%] Built target nccl_external\nMakefile:140: recipe for target 'all' failed\n"
    assert cause(success + "make: *** [all] Error 2") == "truncated-log"
    assert (
        cause(success + "c++: fatal error: Killed signal terminated program cc1plus")
        == "oom-killed"
    )
    assert diagnose(success + "a.cpp:3:4: error: expected ';'").failure is None


@each_row(("slug", "log"), [*KNOWN, *VARIATIONS])
def test_typographic_quotes_yield_same_cause(slug: str, log: str) -> None:
    for one, plain in (("’", "'"), ("”", '"')):
        assert cause(log.replace(plain, one)) == slug


def test_earliest_cause_wins() -> None:
    log = "a.s: fatal error: No space left on device\nb.h:1:2: fatal error: glm/a.hpp: No such file"
    assert cause(log) == "disk-full"


def test_exception_after_compiler_error_is_no_cause() -> None:
    log = (
        "a.cpp:3:1: error: expected unqualified-id\nerror: command 'g++' failed with exit code 1\n"
        "Traceback (most recent call last):\n"
        "urllib.error.URLError: <urlopen error [Errno 110] Connection timed out>"
    )
    found = diagnose(log)
    assert (found.failure, found.candidates) == (None, ())
    assert found.first_error is not None
    assert found.first_error.number == 1


def test_earlier_unknown_edge_failure_makes_cause_uncertain() -> None:
    log = (
        "FAILED: a.o\nc++ -c a.cpp -o a.o\na.cpp:1:1: error: expected unqualified-id\n"
        "FAILED: b.o\nKilled\nninja: build stopped: subcommand failed."
    )
    found = diagnose(log)
    assert found.failure is None
    assert found.candidates == ("oom-killed",)
    assert found.first_error is not None
    assert found.first_error.number == 3


def test_output_of_successful_edge_is_no_evidence() -> None:
    log = (
        "[1/3] generate\nerror: invalid command 'bdist_wheel'\n"
        "[2/3] nvcc -c a.cu\nFAILED: a.o\nnvcc fatal   : Unsupported gpu architecture 'compute_9'"
    )
    found = diagnose(log)
    assert cause(log) == "nvcc-arch-unsupported"
    assert found.edge == "a.o"


def test_earlier_attempt_in_same_log_is_ignored() -> None:
    older = "$ /v/bin/ninja\nFAILED: a.o\nKilled\nninja: build stopped: subcommand failed.\n"
    assert cause(older) == "oom-killed"
    assert cause(older + "$ /v/bin/ninja\n[1/1] Linking\n") is None


def test_consequence_is_never_first_error() -> None:
    log = (
        "  error: subprocess-exited-with-error\nninja: build stopped: subcommand failed.\n"
        "subprocess.CalledProcessError: Command '['ninja']' returned non-zero exit status 1.\n"
        "a.cu(3): error: no instance of overloaded function\nRuntimeError: Error building extension"
    )
    error = diagnose(log).first_error
    assert error is not None
    assert error.number == 4


def test_terminal_and_ci_decorations_are_ignored() -> None:
    around = (
        "2026-01-01T03:41:07.2Z \x1b[31mnvcc fatal   : Unsupported gpu architecture 'sm'\x1b[0m",
        "#14 8.213 nvcc fatal   : Unsupported gpu architecture 'compute_120'",
        "18>nvcc fatal   : Unsupported gpu architecture 'compute_120'",
        "      │ nvcc fatal   : Unsupported gpu architecture 'compute_120'",
    )
    assert {cause(log) for log in around} == {"nvcc-arch-unsupported"}


def test_versions_that_uv_lists_are_no_conflict() -> None:
    found = diagnose(
        "  × No solution found when resolving tool dependencies:\n"
        "  ╰─▶ Because only the following versions of torch are available:\n"
        "          torch<=2.0.1\n          torch==2.1.0\n          torch==2.5.0\n"
        "      and torch==2.5.0 has no wheels with a matching platform tag, we can conclude that\n"
        "      torch>=2.0.1 cannot be used.\n"
        "      And because batch depends on torch>=2.0.1,<2.2.0 and you require batch, we can\n"
        "      conclude that your requirements are unsatisfiable.\n"
    )
    assert found.first_error is not None
    assert found.first_error.text.startswith("× No solution found when resolving tool")
    assert "a constraint requires" not in found.first_error.text
