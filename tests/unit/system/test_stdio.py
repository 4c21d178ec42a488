"""Standard streams that are closed, full or unread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs /dev/full and a POSIX shell")

PRINT_MUCH = """
import sys
from tasks.system import stdio
stdio.guard_standard_streams()
for number in range(100_000):
    print("line", number)
with open("/dev/zero", "rb") as opened:
    assert opened.fileno() > 2, "a file took the place of a closed stream"
sys.stderr.write("at the end")
sys.exit(stdio.compute_exit_code(0))
"""
FULL = "error: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("flag", ["-b", "-u"])  # with a buffer and without
@pytest.mark.parametrize(
    ("output", "code", "expected"),
    [
        ("", 0, "at the end"),
        (">&-", 0, "at the end"),
        ("<&- >&-", 0, "at the end"),
        ("2>&-", 0, ""),
        ("| head -n 1", 0, "at the end"),
        (">/dev/full", 1, f"{FULL}at the end"),
        (">/dev/full 2>/dev/full", 1, ""),
    ],
)
def test_closed_or_full_stream_does_not_crash_program(
    output: str, code: int, expected: str, flag: str
) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$0" {flag} -c "$1" {output}; exit ${{PIPESTATUS[0]}}', sys.executable,
         PRINT_MUCH],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, expected)
