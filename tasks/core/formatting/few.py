"""The first of many for a person, and how many more there are. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def format_short_list(names: Sequence[str], most: int, between: str = ", ") -> str:
    """`a, b and 3 more`."""
    left = len(names) - most
    return between.join(names[:most]) + (f" and {left} more" if left > 0 else "")


def format_short_reasons(reasons: Sequence[str], most: int = 1) -> str:
    """`the archs moved (and 2 more)`: of what has words of its own."""
    left = len(reasons) - most
    return ", ".join(reasons[:most]) + (f" (and {left} more)" if left > 0 else "")
