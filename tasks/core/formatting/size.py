"""Memory and room on a disk as people say them. Pure: sizes are in MiB (2**20 bytes), and a GiB is
1,024 of them.
"""

from __future__ import annotations

_GIB = 1024


def size(mib: float) -> str:
    """`512 MiB` where it is less than one GiB, else `4.6 GiB`, `24 GiB`, `1,200 GiB`."""
    return f"{round(mib)} MiB" if round(mib) < _GIB else f"{gib(mib)} GiB"


def between(least: float, most: float) -> str:
    """`6.2 GiB`, `3.2 GiB to 18 GiB`: one size where both read the same."""
    low, high = size(least), size(most)
    return low if low == high else f"{low} to {high}"


def gib(mib: float) -> str:
    """The number of GiB alone, where the unit stands beside it: `0.5`, `9.8`, `24`, `1,200`."""
    tenths = f"{mib / _GIB:.1f}"
    return tenths.removesuffix(".0") if len(tenths) == len("9.8") else f"{mib / _GIB:,.0f}"
