"""A stream that says it is a terminal, and what it shows."""

from __future__ import annotations

import io
import re


class Terminal(io.StringIO):
    """As wide as COLUMNS, as high as LINES."""

    def isatty(self) -> bool:
        return True

    @property
    def last(self) -> str:
        """The last line that is seen, without its colours."""
        line = re.split(r"\r\x1b\[2K|\r\x1b\[J|\n", self.getvalue().rstrip("\n"))[-1]
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line)

    @property
    def rows(self) -> list[str]:
        """All that is seen, where no line is wider than the terminal."""
        rows, row, column = [""], 0, 0
        for sign in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[^\x1b]", self.getvalue()):
            if sign == "\n":
                row, column = row + 1, 0
                rows += [""] * (row + 1 - len(rows))
            elif sign == "\r":
                column = 0
            elif sign == "\x1b[J":
                rows[row:] = [rows[row][:column]]
            elif sign == "\x1b[2K":
                rows[row] = ""
            elif sign[0] == "\x1b" and sign[-1] == "A":
                row -= int(sign[2:-1])
            elif sign[0] != "\x1b":
                rows[row] = f"{rows[row][:column]:<{column}}{sign}{rows[row][column + 1 :]}"
                column += 1
        return rows
