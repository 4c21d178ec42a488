"""The first error of a log: the earliest line that is no noise, no consequence and not overcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.diagnosis.failure_cause import diagnose_log
from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.log_lines import RawLine
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row

FILE = Path(__file__).parents[1] / "failures" / "first_errors.txt"
LOGS = FILE.read_text("utf-8").rstrip("\n").partition("\n== first\n")[2].split("\n--\n")


@each_row("log", LOGS)
def test_first_error_is_found(log: str) -> None:
    lines = log.replace("\\e", "\x1b").split("\n")
    number = next(at for at, line in enumerate(lines, 1) if ">>" in line.replace(">>> ", ""))
    text = lines[number - 1].partition(">>")[2] or lines[number - 1]
    raws = [
        RawLine(at, one.replace(">>", "", 1) if at == number else one)
        for at, one in enumerate(lines, 1)
    ]
    error = diagnose_log(KNOWLEDGE.failures, ParsedLog(raws)).first_error
    assert error is not None, log
    assert error.number == number, (error, log)
    assert error.text.strip() in text.strip() or text.strip() in error.text


@pytest.mark.parametrize(
    "line",
    [
        "/usr/include/bits/a.h:66:11: error: ‘uint8_t’ does not name a type",
        "a.cpp:1:1: Fehler: »x« wurde nicht deklariert",
    ],
)
def test_first_error_is_shown_in_its_own_words(line: str) -> None:
    error = diagnose_log(KNOWLEDGE.failures, ParsedLog([RawLine(1, line)])).first_error
    assert error is not None
    assert error.text == line


def test_error_in_joined_lines_is_shown_alone() -> None:
    command = "FAILED: a.o /usr/bin/c++ " + "-I/a/include/folder " * 20
    line = f"{command}In file included from /a.cc:9: /b/types.h:66:11: error: 'x' does not name"
    error = diagnose_log(KNOWLEDGE.failures, ParsedLog([RawLine(1, line)])).first_error
    assert error is not None
    assert error.text == "/b/types.h:66:11: error: 'x' does not name"


MESSAGES = {
    """\
CMake Error at /share/cmake/Modules/CMakeTestCCompiler.cmake:67 (message):
  The C compiler

    "/usr/bin/cc"

  is not able to compile.
""": 'The C compiler "/usr/bin/cc" is not able to compile.',
    """\
CMake Error at CMakeLists.txt:4 (cmake_minimum_required):
  CMake 3.13 or higher is required.  You are running version 3.10.2

loading initial cache file /b/cache.cmake
""": "CMake 3.13 or higher is required.  You are running version 3.10.2",
    """\
  × No solution found when resolving dependencies:
  ╰─▶ Because only the following versions of toy are available:
          toy<=1.7.0
          toy==1.7.1
          toy==1.7.2
          toy==1.7.3
      and toy>=1.7.1 has no wheels with a matching Python ABI
      tag (e.g., `cp312`), we can conclude that toy>=1.7.1 cannot be used.
""": "toy>=1.7.1 has no wheels with a matching Python ABI tag",
    """\
error: failed to download `toy v2.14.0`

Caused by:
  unable to get packages from source

Caused by:
  feature `edition2024` is required

  The package requires the feature of Cargo called `edition2024`.
""": "error: failed to download `toy v2.14.0`: feature `edition2024` is required",
    """\
  x Failed to download `toy==82.0.0`
  |-> Request failed after 3 retries in 5.0s
  |-> Failed to fetch:
  |   `https://files.example.org/toy-82.0.0-py3-none-any.whl`
  `-> invalid peer certificate: UnknownIssuer
""": "x Failed to download `toy==82.0.0`: invalid peer certificate: UnknownIssuer",
    """\
    | 💥 maturin failed
    |   Caused by: Cargo metadata failed. Do you have cargo in your PATH?
    |   Caused by: No such file or directory (os error 2)
""": "💥 maturin failed: Cargo metadata failed. Do you have cargo in your PATH?",
    """\
== FAILED: Installation ended unsuccessfully
build failed (first 300 chars):
Module is already loaded (EBROOTTOY is set), installation cannot continue.
""": "Module is already loaded (EBROOTTOY is set), installation cannot continue.",
    """\
ERROR: Cannot install toy because these package versions have conflicting dependencies.

The conflict is caused by:
    toy 2.2.1 depends on torch==2.5.0
    toy 2.0.1 depends on torch==2.2.0
""": "because these package versions have conflicting dependencies.",
    """\
dpkg: error processing archive /var/cache/apt/archives/toy_1.0_amd64.deb (--unpack):
 unable to make backup link of './usr/bin/toy' before installing new version
""": "unable to make backup link of './usr/bin/toy' before installing new version",
    """\
torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, invalid argument
ncclInvalidArgument: Invalid value for an argument.
Last error:
toy reduction needs another GPU.
""": "ProcessGroupNCCL.cpp:3690, invalid argument toy reduction needs another GPU.",
    """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
=====================================
train.py FAILED
-------------------------------------
  exitcode  : -9 (pid: 208)
  traceback : Signal 9 (SIGKILL) received by PID 208
""": "Signal 9 (SIGKILL) received by PID 208",
    """\
  • Installing toy (2.27.1): Failed

  RuntimeError

  Retrieved digest for link toy-2.27.1.tar.gz not in poetry.lock metadata
""": "RuntimeError Retrieved digest for link toy-2.27.1.tar.gz not in poetry.lock metadata",
    """\
Could not solve for environment specs
The following packages are incompatible
├─ toy-cuda 12.1**  is not installable because it requires
│  └─ toy-cudart >=12.1,<12.2 , which does not exist (perhaps a missing channel);
""": "toy-cudart >=12.1,<12.2 , which does not exist (perhaps a missing channel);",
}


@each_row(("log", "message"), list(MESSAGES.items()))
def test_message_below_the_error_is_shown(log: str, message: str) -> None:
    raws = [RawLine(at, line) for at, line in enumerate(log.split("\n"), 1)]
    error = diagnose_log(KNOWLEDGE.failures, ParsedLog(raws)).first_error
    assert error is not None
    assert error.text.endswith(message), error.text
