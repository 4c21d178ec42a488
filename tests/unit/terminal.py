"""A stream that says it is a terminal, and what it shows."""

from __future__ import annotations

import io
import re


class Terminal(io.StringIO):
    """As wide as COLUMNS."""

    def isatty(self) -> bool:
        return True

    @property
    def last(self) -> str:
        """The last line that is seen, without its colours."""
        line = re.split(r"\r\x1b\[2K|\r\x1b\[J|\n", self.getvalue().rstrip("\n"))[-1]
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line)
