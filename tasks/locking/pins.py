"""The pins of packages, as torchyard.lock holds them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.utils import canonicalize_name

from tasks.model import Locked


def versions(packages: Locked) -> dict[str, str]:
    """Normalized name → version."""
    pairs = (pin.split("==", 1) for pin in packages)
    return {canonicalize_name(name): version for name, version in pairs}


def unlike(locked: Locked, there: Mapping[str, str]) -> tuple[str, ...]:
    """What is locked and not there in that version, in words; `there` is name → version."""
    return tuple(
        f"{name} {version} is locked, and {there.get(name, 'none')} is there"
        for name, version in versions(locked).items()
        if there.get(name) != version
    )
