"""Versions as what can be compared: of releases, toolkits, PTX ISAs, Pythons and C libraries."""

from __future__ import annotations

import re


def numbers(version: str) -> tuple[int, ...]:
    """Major and minor, of `12.8` as of `12.8.93`; fewer where there are fewer."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
