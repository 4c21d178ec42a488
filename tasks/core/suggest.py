"""Did you mean: the nearest known word, or nothing."""

from __future__ import annotations

from collections.abc import Iterable


def find_nearest_word(word: str, known: Iterable[str]) -> str:
    """The known word that is most like it, "" where none is."""
    import difflib  # noqa: PLC0415 - for mistakes alone

    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else ""


def format_did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean "gpus"?` or an empty text."""
    near = find_nearest_word(word, known)
    return f'; did you mean "{near}"?' if near else ""
