"""Which wheels an index keeps: of what takes the place of one another, the newest."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from packaging.utils import parse_wheel_filename

from tasks.wheels.index.pages import IndexFile

# an extension's `torch2.15.0.s1a2b3c4d.cu132.sm120` and torch's `cu132.sm120.g1a2b3c4`: what a
# rebuild changes and nothing else does
_REBUILD_LABEL = re.compile(
    r"(?:^|\.)(?:s[0-9a-f]{8}|g[0-9a-f]{7,40}|t[0-9a-f]{7}|d[0-9a-f]{6})(?=\.|$)"
)


def select_retained(files: Iterable[IndexFile], newest: int | None) -> tuple[IndexFile, ...]:
    """Those that stay where `newest` of each kind do (all of them where it is None).

    Of one kind is what one machine would take in the place of the other: the same release for the
    same Python and platform, for the same CUDA and archs.
    """
    kinds: dict[tuple[str, ...], list[IndexFile]] = defaultdict(list)
    for file in files:
        kinds[_build_retention_key(file)].append(file)
    by_age = (sorted(kind, key=lambda file: file.uploaded) for kind in kinds.values())
    return tuple(file for kind in by_age for file in (kind[-newest:] if newest else kind))


def _build_retention_key(file: IndexFile) -> tuple[str, ...]:
    name, version, build, tags = parse_wheel_filename(file.filename)
    local = _REBUILD_LABEL.sub("", version.local or "")
    return (name, version.public, local, str(build), *sorted(map(str, tags)))
