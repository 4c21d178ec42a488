"""How a person names a profile on the command line."""

from __future__ import annotations

import os


def usual() -> str:
    """The profile that a plain `doit` takes."""
    return os.environ.get("TORCHYARD_PROFILE", "quickstart")


def with_profile(name: str) -> str:
    """` profile=NAME`, to go after a command; "" for the one that it takes anyway."""
    return "" if name == usual() else f" profile={name}"
