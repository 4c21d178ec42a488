"""Parse and format versions: of releases, toolkits, PTX ISAs, Pythons and C libraries."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.knowledge.facts import Channel


@lru_cache(maxsize=1024)
def parse_major_minor(version: str) -> tuple[int, ...]:
    """Return major and minor as numbers, such as (12, 8) for `12.8.93` and (12,) for `12`."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def parse_version_numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers: (18, 0, 0) of "18.0.0 Insiders [11116.177]", () of "unknown"."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def remove_local_part(version: str) -> str:
    """Return the version without a leading v and its local part: `2.7.1` for `v2.7.1+cu128`."""
    return version.strip().removeprefix("v").split("+")[0]


def format_major_minor(version: str) -> str:
    """Return major and minor as text: `12.8` for `12.8.93`."""
    return ".".join(version.split(".")[:2])


_PRERELEASE = re.compile(r"v?\d+\.\d+(?:\.\d+)?-?(\.dev|a|b|rc)")
_CHANNEL_BY_SUFFIX: dict[str, Channel] = {
    ".dev": "nightly",
    "rc": "test",
    "a": "nowhere",
    "b": "nowhere",
}


def find_release_channel(version: str) -> Channel:
    """Return the channel where a pre-release is published, "" for a release.

    Return "" also for an alpha or beta version, which is in no index.
    """
    match = _PRERELEASE.match(version.strip())
    return _CHANNEL_BY_SUFFIX[match[1]] if match else ""


def format_published_version(version: str) -> str:
    """Return the version in a wheel's file name: `2.16.0` for the release candidate `2.16.0rc3`."""
    return re.sub(r"rc\d*$", "", version)
