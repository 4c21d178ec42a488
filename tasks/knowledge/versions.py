"""Versions as what can be compared: of releases, toolkits, PTX ISAs, Pythons and C libraries."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1024)
def parse_major_minor(version: str) -> tuple[int, ...]:
    """Major and minor, of `12.8` as of `12.8.93`; fewer where there are fewer."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def parse_version_numbers(version: str) -> tuple[int, ...]:
    """Of what it begins with: (18, 0, 0) of "18.0.0 Insiders [11116.177]", () of "unknown"."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def format_major_minor(version: str) -> str:
    """Major and minor as a text: `12.8` of `12.8.93`."""
    return ".".join(version.split(".")[:2])
