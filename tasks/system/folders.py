"""What lies at a path, asked without a word about what one may not look into."""

from __future__ import annotations

import contextlib
from pathlib import Path, PurePath


def is_accessible(path: PurePath) -> bool:
    """False also where one may not look."""
    with contextlib.suppress(OSError):
        return Path(path).exists()
    return False


def find_existing_ancestor(path: PurePath) -> Path:
    """The path, or what of the folders above it is there: what is made there lies on its disk."""
    place = Path(path)
    while not is_accessible(place) and place != place.parent:
        place = place.parent
    return place


def has_content(path: Path) -> bool:
    """Whether it is a file, or a folder with anything in it."""
    return any(path.iterdir()) if path.is_dir() else path.exists()
