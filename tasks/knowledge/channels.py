"""Versions before a release: where their wheels are, and what these are called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.knowledge.facts import Channel

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
