"""cmd.exe, for a line of a batch file. Pure.

It reads a line in phases: percent signs first, then quotes and carets, and, where delayed expansion
is on, exclamation marks and carets once more if there is such a mark (the phases were found by
experiment: https://stackoverflow.com/a/4095133).
"""

from __future__ import annotations

import re

from tasks.core.quoting import text as texts
from tasks.core.quoting.text import (
    SHELL_IDENTIFIER,
    create_name_error,
    create_value_error,
    require_representable,
)

# https://learn.microsoft.com/troubleshoot/windows-client/shell-experience/command-line-string-limitation
MAX_CMD_LINE = 8191
_BATCH_FILE = "a batch file"
# cmd takes Ctrl+Z for the end of a line, too
_CMD_LINE_ENDS = re.compile(r"[\n\r\x1a]")
_CMD_SPECIAL_CHARACTERS = frozenset("&|<>^()")
_CMD_COMMENT_CHARACTERS = re.compile(r"[%!^&|<>\"~]")


def format_cmd_assignment(variable: str, value: str, *, delayed: bool = False) -> str:
    """`set "NAME=value"`, also for within parentheses; `delayed` is for a shell that expands
    delayed.
    """
    line = f'set "{check_cmd_name(variable)}={quote_cmd(value, delayed=delayed)}'
    # 40: what stands before it on the line, and the other form beside it is measured by itself
    if len(line) + 40 > MAX_CMD_LINE:
        raise create_value_error(
            value, _BATCH_FILE, f"cmd reads no line of more than {MAX_CMD_LINE} characters"
        )
    return line


def quote_cmd(text: str, *, delayed: bool = False) -> str:
    """What follows an opening quote, with the closing one.

    Quotes in `text` take turns with that one: where they leave it open, specials need a caret.
    """
    _check_single_line(text)
    marked = delayed and "!" in text
    ready = text.replace("^", "^^").replace("!", "^!") if marked else text
    out, quoted = [], True
    for character in ready.replace("%", "%%"):
        quoted ^= character == '"'
        out.append(
            f"^{character}" if not quoted and character in _CMD_SPECIAL_CHARACTERS else character
        )
    return "".join(out) + ('"' if quoted else '^"')


def check_cmd_name(text: str) -> str:
    """The name of a variable, such as a list of `for` holds, too."""
    if not SHELL_IDENTIFIER.fullmatch(text):
        raise create_name_error(text, "cmd")
    return text


def sanitize_cmd_comment(text: str) -> str:
    """What may follow `rem`, which expands percent signs like any line."""
    return _CMD_COMMENT_CHARACTERS.sub("?", texts.sanitize_comment(text))


def _check_single_line(text: str) -> None:
    require_representable(text, _BATCH_FILE)
    if _CMD_LINE_ENDS.search(text):
        raise create_value_error(text, _BATCH_FILE, "it has more than one line")
