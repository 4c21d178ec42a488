"""cmd.exe, for a line of a batch file. Pure.

It reads a line in phases: percent signs first, then quotes and carets, and, where delayed expansion
is on, exclamation marks and carets once more if there is such a mark (the phases were found by
experiment: https://stackoverflow.com/a/4095133).
"""

from __future__ import annotations

import re

from tasks.core.quoting import text as texts
from tasks.core.quoting.text import IDENTIFIER, bad_name, cannot_hold, holdable

# https://learn.microsoft.com/troubleshoot/windows-client/shell-experience/command-line-string-limitation
LONGEST = 8191
_WHERE = "a batch file"
# cmd takes Ctrl+Z for the end of a line, too
_LINE_ENDS = re.compile(r"[\n\r\x1a]")
_SPECIAL = frozenset("&|<>^()")
_IN_COMMENTS = re.compile(r"[%!^&|<>\"~]")


def assign(variable: str, value: str, *, delayed: bool = False) -> str:
    """`set "NAME=value"`, also for within parentheses; `delayed` is for a shell that expands
    delayed.
    """
    line = f'set "{name(variable)}={quote(value, delayed=delayed)}'
    # 40: what stands before it on the line, and the other form beside it is measured by itself
    if len(line) + 40 > LONGEST:
        raise cannot_hold(value, _WHERE, f"cmd reads no line of more than {LONGEST} characters")
    return line


def quote(text: str, *, delayed: bool = False) -> str:
    """What follows an opening quote, with the closing one.

    Quotes in `text` take turns with that one: where they leave it open, specials need a caret.
    """
    _require_one_line(text)
    marked = delayed and "!" in text
    ready = text.replace("^", "^^").replace("!", "^!") if marked else text
    out, quoted = [], True
    for character in ready.replace("%", "%%"):
        quoted ^= character == '"'
        out.append(f"^{character}" if not quoted and character in _SPECIAL else character)
    return "".join(out) + ('"' if quoted else '^"')


def name(text: str) -> str:
    """The name of a variable, such as a list of `for` holds, too."""
    if not IDENTIFIER.fullmatch(text):
        raise bad_name(text, "cmd")
    return text


def comment(text: str) -> str:
    """What may follow `rem`, which expands percent signs like any line."""
    return _IN_COMMENTS.sub("?", texts.comment(text))


def _require_one_line(text: str) -> None:
    holdable(text, _WHERE)
    if _LINE_ENDS.search(text):
        raise cannot_hold(text, _WHERE, "it has more than one line")
