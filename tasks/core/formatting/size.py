"""Memory and room on a disk as people say them. Pure: sizes are in MiB (2**20 bytes), and a GiB is
1,024 of them.
"""

from __future__ import annotations

_MIB_PER_GIB = 1024


def format_size(mib: float) -> str:
    """`512 MiB` where it is less than one GiB, else `4.6 GiB`, `24 GiB`, `1,200 GiB`."""
    return f"{round(mib)} MiB" if round(mib) < _MIB_PER_GIB else f"{format_gib(mib)} GiB"


def format_size_range(least: float, most: float) -> str:
    """`6.2 GiB`, `3.2 GiB to 18 GiB`: one size where both read the same."""
    low, high = format_size(least), format_size(most)
    return low if low == high else f"{low} to {high}"


def format_gib(mib: float) -> str:
    """The number of GiB alone, where the unit stands beside it: `0.5`, `9.8`, `24`, `1,200`."""
    tenths = f"{mib / _MIB_PER_GIB:.1f}"
    return tenths.removesuffix(".0") if len(tenths) == len("9.8") else f"{mib / _MIB_PER_GIB:,.0f}"
