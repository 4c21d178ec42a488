"""Ninja's own log of a build folder: which output was made, and how long that took.

The format is that of ninja's src/build_log.cc: `start end mtime output hash`, times in
milliseconds since that run of Ninja began, the last line of an output counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.diagnosis.tail_io import Tail
from tasks.system.voice import warn


@dataclass(frozen=True)
class Made:
    """One making of an output: begin and end in seconds, and what tells it from another making."""

    began: float
    ended: float
    mark: str

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


def read(folder: PurePath) -> dict[str, Made]:
    """Every output that Ninja made there, by its path; none where it never worked. It decides
    nothing, and what cannot be read must not hide why a build failed.
    """
    path = Path(folder) / ".ninja_log"
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError as error:
        warn(f"{path} cannot be read: {error.strerror}")
        return {}
    return dict(_entries(text.splitlines()))


def remade(before: Mapping[str, Made], now: Mapping[str, Made]) -> dict[str, Made]:
    """What was made in between."""
    return {name: made for name, made in now.items() if before.get(name) != made}


class Growing:
    """What is made in a folder since it held `before`, read as Ninja writes it."""

    def __init__(self, folder: PurePath, before: Mapping[str, Made]) -> None:
        self._tail = Tail(Path(folder) / ".ninja_log")
        self._before = before
        self._made: dict[str, Made] = {}

    def made(self) -> Mapping[str, Made]:
        """All of it so far."""
        self._made |= remade(self._before, dict(_entries(self._tail.lines())))
        return self._made


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, Made]]:
    for parts in (line.split("\t") for line in lines if not line.startswith("#")):
        if len(parts) == 5:  # a line that an interruption cut is none
            start, end, mtime, output, command = parts
            yield output, Made(int(start) / 1000, int(end) / 1000, f"{start} {mtime} {command}")
