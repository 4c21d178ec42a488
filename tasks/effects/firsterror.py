"""The first line of a log that reads like an error: the one to show, with its number.

It names no cause and knows no remedy; a compiler's first complaint simply tells more than the last
line does.
"""

from __future__ import annotations

import re

_ERROR = re.compile(
    r"""
      (?:^|[:\s])(?:fatal\ )?error(?:\ [A-Z]+\d+)?:\s\S   # gcc, clang, nvcc, msvc, pip, git
    | \bld(?:\.\w+)?:\ .*(?:undefined\ reference|cannot\ find|undefined\ symbol)   # linkers
    | ^nvcc\ fatal | ^ninja:\ error | ^CMake\ Error
    | \bKilled\b | ^fatal:\s
    | ^\s*\w*(?:Error|Exception):\s                       # the last line of a Python traceback
    | ^ERROR:\s | No\ space\ left\ on\ device | ^No\ module\ named
    """,
    re.VERBOSE,
)
_NOISE = re.compile(
    r"Error checking compiler version|subprocess-exited-with-error|"
    r"-Werror|error: metadata-generation-failed"
    r"|^\s*warning:|ninja: build stopped|Failed to build|collect2: error: ld returned",
    re.IGNORECASE,
)


def first_error(text: str) -> tuple[int, str]:
    """Line number (from 1) and text of the first error; the last line that says anything where
    there is none.
    """
    last = (0, "")
    for number, line in enumerate(text.splitlines(), 1):
        if _ERROR.search(line) and not _NOISE.search(line):
            return number, line.strip()
        if line.strip():
            last = (number, line.strip())
    return last
