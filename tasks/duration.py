"""Seconds as people say them. Pure."""

from __future__ import annotations


def elapsed(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 05 s`, `2 h 14 min`."""
    whole = round(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
