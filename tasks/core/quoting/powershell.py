"""PowerShell: Windows PowerShell 5.1 and PowerShell 7. Pure."""

from __future__ import annotations

import re

from tasks.core.quoting.text import IDENTIFIER, bad_name, holdable

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.() -]*")
# All of these are single quotes (about_Quoting_Rules; CharTraits.IsSingleQuote in its tokenizer)
_QUOTES = re.compile("(['\u2018\u2019\u201a\u201b])")


def quote(text: str) -> str:
    """A string in single quotes, which typographic quotes end as well."""
    return "'" + _QUOTES.sub(r"\1\1", holdable(text, "a PowerShell script")) + "'"


def name(text: str) -> str:
    """A name, for a string in quotes."""
    if not _NAME.fullmatch(text):
        raise bad_name(text, "PowerShell", "letters, digits and _.()-")
    return text


def variable(text: str) -> str:
    """`$env:NAME`, or `${env:ProgramFiles(x86)}` where the name is no identifier."""
    return f"$env:{name(text)}" if IDENTIFIER.fullmatch(text) else f"${{env:{name(text)}}}"


def assign(text: str, value: str) -> str:
    """`$env:NAME = 'value'`."""
    return f"{variable(text)} = {quote(value)}"
