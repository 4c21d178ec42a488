"""The time, as documents tell it."""

from __future__ import annotations

import datetime


def format_current_time() -> str:
    """`2026-11-21T14:00:00+00:00`."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
