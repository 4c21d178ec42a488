"""Versions as what can be compared: of releases, toolkits, PTX ISAs, Pythons and C libraries."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.knowledge.facts import Channel


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


_PRERELEASE = re.compile(r"v?\d+\.\d+(?:\.\d+)?-?(\.dev|a|b|rc)")
_CHANNEL_BY_SUFFIX: dict[str, Channel] = {
    ".dev": "nightly",
    "rc": "test",
    "a": "nowhere",
    "b": "nowhere",
}


def find_release_channel(version: str) -> Channel:
    """Where a version before a release is published: a nightly and a candidate each have an index,
    an alpha is what a build from a branch calls itself. "" for a release.
    """
    early = _PRERELEASE.match(version.strip())
    return _CHANNEL_BY_SUFFIX[early[1]] if early else ""


def format_published_version(version: str) -> str:
    """The version that the wheel of it has: a candidate's is that of the release (`2.16.0rc3`,
    `2.16.0`). Source: `release_candidates` in pytorch.yaml.
    """
    return re.sub(r"rc\d*$", "", version)
