"""Seconds as people say them. Pure."""

from __future__ import annotations


def format_duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 05 s`, `2 h 14 min`."""
    whole = round(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def format_rough_duration(seconds: float) -> str:
    """No finer than an estimate is: `20 s`, `31 min`, `1 h`, `2 h 05 min`."""
    if seconds < 55:
        return f"{max(10, _round_to_step(10, seconds))} s"
    minutes = _round_to_step(1, seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(_round_to_step(5, minutes), 60)
    return f"{hours} h {minutes:02} min" if minutes else f"{hours} h"


def _round_to_step(step: int, number: float) -> int:
    return step * round(number / step)
