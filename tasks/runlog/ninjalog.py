"""Ninja's own log of a build folder: which output was made, and how long that took.

The format is that of ninja's src/build_log.cc: `start end mtime output hash`, times in
milliseconds since that run of Ninja began, the last line of an output counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.diagnosis.tail_io import LogTail
from tasks.system.voice import print_warning


@dataclass(frozen=True)
class NinjaLogEntry:
    """One making of an output: begin and end in seconds, and what tells it from another making."""

    began: float
    ended: float
    mark: str

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


def read_ninja_log(folder: PurePath) -> dict[str, NinjaLogEntry]:
    """Every output that Ninja made there, by its path; none where it never worked. It decides
    nothing, and what cannot be read must not hide why a build failed.
    """
    path = Path(folder) / ".ninja_log"
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError as error:
        print_warning(f"{path} cannot be read: {error.strerror}")
        return {}
    return dict(_parse_ninja_log(text.splitlines()))


def find_new_entries(
    before: Mapping[str, NinjaLogEntry], now: Mapping[str, NinjaLogEntry]
) -> dict[str, NinjaLogEntry]:
    """What was made in between."""
    return {name: made for name, made in now.items() if before.get(name) != made}


class NinjaLogFollower:
    """What is made in a folder since it held `before`, read as Ninja writes it."""

    def __init__(self, folder: PurePath, before: Mapping[str, NinjaLogEntry]) -> None:
        self._tail = LogTail(Path(folder) / ".ninja_log")
        self._before = before
        self._new_entries: dict[str, NinjaLogEntry] = {}

    def read_new_entries(self) -> Mapping[str, NinjaLogEntry]:
        """All of it so far."""
        self._new_entries |= find_new_entries(
            self._before, dict(_parse_ninja_log(self._tail.read_new_lines()))
        )
        return self._new_entries


def _parse_ninja_log(lines: Iterable[str]) -> Iterator[tuple[str, NinjaLogEntry]]:
    for parts in (line.split("\t") for line in lines if not line.startswith("#")):
        if len(parts) == 5:  # a line that an interruption cut is none
            start, end, mtime, output, command = parts
            yield (
                output,
                NinjaLogEntry(int(start) / 1000, int(end) / 1000, f"{start} {mtime} {command}"),
            )
