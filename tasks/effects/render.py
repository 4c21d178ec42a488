"""Templates and values to text: one quoting filter per shell, so that no value is executed.

It knows how each shell reads a quoted text and a name; what the variables mean it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from tasks.errors import BuildError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WINDOWS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.() -]*")
# PowerShell takes all of these as single quotes (about_Quoting_Rules; CharTraits.IsSingleQuote in
# its tokenizer).
_PS_QUOTES = re.compile("(['\u2018\u2019\u201a\u201b])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def render(template: PurePath, values: Mapping[str, Any]) -> str:
    """The text of a Jinja template; a name that `values` lacks is a bug and keeps its traceback."""
    import jinja2  # noqa: PLC0415 - a tenth of a second that loading a plan must not pay

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(template.parent)),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - shell scripts: each value goes through the filter of its shell
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {
        "sh": sh,
        "sh_name": sh_name,
        "ps": ps,
        "ps_variable": ps_variable,
        "comment": comment,
    }
    environment.filters.update(filters)
    return environment.get_template(template.name).render(**values)


def sh(text: str) -> str:
    """A word in single quotes for a POSIX shell; it may hold anything but NUL."""
    return "'" + _no_nul(text, "a shell script").replace("'", r"'\''") + "'"


def ps(text: str) -> str:
    """A string in single quotes for PowerShell, which also takes typographic quotes as such."""
    return "'" + _PS_QUOTES.sub(r"\1\1", _no_nul(text, "a PowerShell script")) + "'"


def sh_name(name: str) -> str:
    """The name of a variable that a POSIX shell can hold."""
    if not _IDENTIFIER.fullmatch(name):
        raise _bad_name(name, "a POSIX shell", "letters, digits and _")
    return name


def ps_variable(name: str) -> str:
    """`$env:NAME`, or `${env:ProgramFiles(x86)}` where the name is no identifier."""
    if not _WINDOWS_NAME.fullmatch(name):
        raise _bad_name(name, "PowerShell", "letters, digits and _.()-")
    return f"$env:{name}" if _IDENTIFIER.fullmatch(name) else f"${{env:{name}}}"


def comment(text: str) -> str:
    """Text for one comment line: what could end the line becomes a question mark."""
    return _CONTROL.sub("?", text)


def _no_nul(text: str, where: str) -> str:
    if "\0" in text:
        raise BuildError(
            f"{where} cannot hold the value {text!r}: there is a NUL character in it",
            todo="take it out of the setting that the value comes from (doit settings names it)",
        )
    return text


def _bad_name(name: str, shell: str, allowed: str) -> BuildError:
    return BuildError(
        f"{shell} cannot hold a variable named {name!r}",
        where="build.env",
        todo=f"rename it: {allowed}, not starting with a digit",
    )
