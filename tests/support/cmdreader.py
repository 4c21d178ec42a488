"""cmd.exe's reading of `set "NAME=value"` in a batch file, phase by phase.

It shares no code with what writes such lines. The phases are those of
https://stackoverflow.com/a/4095133: 1 percent signs, 2 quotes and carets, 5 delayed expansion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

NASTY = [
    *("%PATH%", "%%", "100%", "%~", "%1", "!x!", "!", "!!", "^", "^^", "^!", "a^", '"', '""', '"a'),
    *("a & b", "a | b", "a > b < c", "(a)", ")", '" & echo pwned & "', "' & echo pwned", "a\\"),
    *(
        "\\",
        " ",
        " a ",
        "\t",
        ";",
        ",",
        "=",
        "a=b",
        "*",
        "?",
        "~",
        "$(x)",
        "`x`",
        "ünï",
        "日本",
        "🜨",
    ),
    *('"x" y "z"', 'a"b', 'a"b&c', 'a"b^c"d^e', '!"^&', '"!^&', "%A", "%%A", "@echo", "rem x"),
    *("&", "|", "<", ">", "1>x", "a!b^c%d&e", '"^"', '^"', "'", "::", ":x", "/?", "-n", "{}"),
]
_SET = re.compile(
    r'@(?P<if>(?:if (?:not )?defined \w+ |if (?:not )?"!!"=="" )*)(?P<set>set "\w+=.*)'
)
_OPERATORS = set("&|<>()\n")


def assignments(script: str, *, delayed: bool) -> Iterator[tuple[str, str]]:
    """The names and values that a shell with, or without, delayed expansion reads from the lines
    that set something literal; values that are found at run time are not among them.
    """
    for line in script.split("\r\n"):
        found = _SET.fullmatch(line)
        if not found or _elsewhere(found["if"], delayed=delayed):
            continue
        words = unescaped(percent(found["set"]))
        yield named(expanded(words) if delayed else words)


def _elsewhere(conditions: str, *, delayed: bool) -> bool:
    """Whether the line is for the other kind of shell."""
    return ('if not "!!"' if delayed else 'if "!!"') in conditions


def percent(line: str) -> str:
    """Phase 1, of a line with no variable in it."""
    assert "%" not in line.replace("%%", ""), line
    return line.replace("%%", "%")


def unescaped(line: str) -> str:
    """Phase 2: carets outside quotes; an operator there would end the command."""
    out, quoted, characters = [], False, iter(line)
    for character in characters:
        if character == "^" and not quoted:
            out.append(next(characters))
            continue
        quoted ^= character == '"'
        assert quoted or character not in _OPERATORS, line
        out.append(character)
    return "".join(out)


def expanded(line: str) -> str:
    """Phase 5: carets once more, where there is an exclamation mark, none of which is a
    variable's.
    """
    if "!" not in line:
        return line
    out, characters = [], iter(line)
    for character in characters:
        assert character != "!", line
        out.append(next(characters) if character == "^" else character)
    return "".join(out)


def named(line: str) -> tuple[str, str]:
    """What `set` makes of it: the text between the first quote and the last one."""
    inner = line.removeprefix('set "').rpartition('"')[0]
    name, _, value = inner.partition("=")
    return name, value
