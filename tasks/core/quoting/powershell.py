"""PowerShell: Windows PowerShell 5.1 and PowerShell 7. Pure."""

from __future__ import annotations

import re

from tasks.core.quoting.text import SHELL_IDENTIFIER, create_name_error, require_representable

_POWERSHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.() -]*")
# All of these are single quotes (about_Quoting_Rules; CharTraits.IsSingleQuote in its tokenizer)
_SINGLE_QUOTES = re.compile("(['\u2018\u2019\u201a\u201b])")


def quote_powershell(text: str) -> str:
    """A string in single quotes, which typographic quotes end as well."""
    return (
        "'" + _SINGLE_QUOTES.sub(r"\1\1", require_representable(text, "a PowerShell script")) + "'"
    )


def check_powershell_name(text: str) -> str:
    """A name, for a string in quotes."""
    if not _POWERSHELL_NAME.fullmatch(text):
        raise create_name_error(text, "PowerShell", "letters, digits and _.()-")
    return text


def format_powershell_variable(text: str) -> str:
    """`$env:NAME`, or `${env:ProgramFiles(x86)}` where the name is no identifier."""
    return (
        f"$env:{check_powershell_name(text)}"
        if SHELL_IDENTIFIER.fullmatch(text)
        else f"${{env:{check_powershell_name(text)}}}"
    )


def format_powershell_assignment(text: str, value: str) -> str:
    """`$env:NAME = 'value'`."""
    return f"{format_powershell_variable(text)} = {quote_powershell(value)}"
