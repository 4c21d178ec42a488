"""What no script can hold, whichever shell reads it, and text that ends no line. Pure."""

from __future__ import annotations

import re

from tasks.core.errors import TorchyardError

SHELL_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def sanitize_comment(text: str) -> str:
    """Text for one comment line: what could end the line becomes a question mark."""
    return _SURROGATES.sub("?", _CONTROL_CHARACTERS.sub("?", text))


def require_representable(text: str, where: str) -> str:
    """`text`, where UTF-8 and C strings can hold it."""
    if "\0" in text:
        raise create_value_error(text, where, "there is a NUL character in it")
    if _SURROGATES.search(text):
        raise create_value_error(
            text, where, "there is half a character in it, which UTF-8 does not have"
        )
    return text


def create_value_error(text: str, where: str, why: str) -> TorchyardError:
    """The refusal of a value."""
    shown = text if len(text) <= 60 else f"{text[:59]}…"
    return TorchyardError(
        f"{where} cannot hold the value {shown!r}: {why}",
        hint="take it out of the setting that the value comes from (doit settings names it)",
    )


def create_name_error(
    name: str, shell: str, allowed: str = "letters, digits and _"
) -> TorchyardError:
    """The refusal of a name."""
    return TorchyardError(
        f"{shell} cannot hold a variable named {name!r}",
        hint=f"rename it: {allowed}, not starting with a digit",
    )
