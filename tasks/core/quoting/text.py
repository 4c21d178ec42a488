"""What no script can hold, whichever shell reads it, and text that ends no line. Pure."""

from __future__ import annotations

import re

from tasks.core.errors import BuildError

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE_ENDS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def comment(text: str) -> str:
    """Text for one comment line: what could end the line becomes a question mark."""
    return _SURROGATES.sub("?", _LINE_ENDS.sub("?", text))


def holdable(text: str, where: str) -> str:
    """`text`, where UTF-8 and C strings can hold it."""
    if "\0" in text:
        raise cannot_hold(text, where, "there is a NUL character in it")
    if _SURROGATES.search(text):
        raise cannot_hold(text, where, "there is half a character in it, which UTF-8 does not have")
    return text


def cannot_hold(text: str, where: str, why: str) -> BuildError:
    """The refusal of a value."""
    shown = text if len(text) <= 60 else f"{text[:59]}…"
    return BuildError(
        f"{where} cannot hold the value {shown!r}: {why}",
        todo="take it out of the setting that the value comes from (doit settings names it)",
    )


def bad_name(name: str, shell: str, allowed: str = "letters, digits and _") -> BuildError:
    """The refusal of a name."""
    return BuildError(
        f"{shell} cannot hold a variable named {name!r}",
        todo=f"rename it: {allowed}, not starting with a digit",
    )
