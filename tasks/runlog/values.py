"""The fields of a record as what they should be, where another make, or a disk, may have written
anything. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def parse_number(value: Any) -> float | None:
    """A finite number; None for anything else."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None


def parse_integer(value: Any) -> int | None:
    """The same, rounded."""
    known = parse_number(value)
    return None if known is None else round(known)


def parse_text(value: Any) -> str:
    """A text, empty for anything else."""
    return value if isinstance(value, str) else ""


def parse_texts(value: Any) -> tuple[str, ...]:
    """The texts of a list."""
    return tuple(item for item in value if isinstance(item, str)) if _is_sequence(value) else ()


def parse_mappings(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The objects of a list."""
    return tuple(item for item in value if isinstance(item, dict)) if _is_sequence(value) else ()


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple)


def parse_mapping(value: Any) -> Mapping[str, Any]:
    """{} for what is no object."""
    return value if isinstance(value, dict) else {}
