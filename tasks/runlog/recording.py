"""The record of a run as it is written: `build/PROFILE/records/runs/TIME-PID.jsonl`, a line of JSON
for each event. `tasks.runlog.record` reads them, `tasks.runlog.runrecords` keeps the
folder.

It decides nothing, and no build ends for it: what cannot be written is told once and left out. A
line is there or not, whoever kills us. Several stages can be at work at once.
"""

from __future__ import annotations

import datetime
import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path, PurePath
from typing import Any

from tasks import __version__
from tasks.core.digest import plain
from tasks.core.errors import redact
from tasks.core.model import Json
from tasks.core.progress import Progress
from tasks.runlog import events as runevents
from tasks.runlog import runrecords
from tasks.runlog.record import SCHEMA, Edge
from tasks.system import voice
from tasks.system.voice import Listener

_SAMPLED, _MANY = 2.0, 1000  # seconds between samples of a stage; twice that after so many
_EDGES = 1000  # in a line
_MOST = 8 * 2**20  # bytes, after which a record has what begins and ends alone
_DETAILS = {"sample", "said", "edges"}


@dataclass
class Done:
    """What came of a stage: its block says so, and is right about failures without saying it."""

    outcome: str = ""
    outputs: Any = None
    healed: str = ""
    error: dict[str, Json] | None = None
    diagnosis: Mapping[str, Any] | None = None


@dataclass
class _Sampled:
    when: float = -_SAMPLED
    many: int = 0


@dataclass
class Recording:
    """The record of this run, in `folder`; nowhere where that is None. `head` tells what is known
    at its begin.
    """

    folder: PurePath | None = None
    head: Callable[[], Mapping[str, Json]] = dict
    when: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    started: float = field(default_factory=time.monotonic)
    begun: bool = False
    _file: FileIO | None = None
    _size: int = 0
    _told: bool = False
    _refused: dict[str, str] = field(default_factory=dict)
    _sampled: dict[str, _Sampled] = field(default_factory=dict)
    _caches: dict[str, dict[str, Json]] = field(default_factory=dict)
    _workers: dict[str, dict[str, int]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def begin(self) -> None:
        """Open it, once: the build folder has to be ours, and locked. Older ones make room."""
        if self.begun or self.folder is None:
            return
        self.begun = True
        try:
            self._file = self._open(Path(self.folder))
        except OSError as error:
            self.unwritten(error)
        facts = {"schema": SCHEMA, "when": self.when.isoformat(timespec="seconds")}
        self._write("begin", {**facts, "torchyard": __version__, "pid": os.getpid(), **self.head()})
        voice.listen(_Overheard(voice.listener(), self))
        _at_work[:] = [self]

    @contextmanager
    def stage(self, name: str, reason: str) -> Iterator[Done]:
        """A stage at work, until the block ends in one way or another."""
        started, done = self._event("stage", stage=name, reason=reason), Done()
        try:
            yield done
        except BaseException as error:
            done.outcome, done.error = runevents.ended(error)
            done.diagnosis = getattr(error, "diagnosis", None)  # where a log was read
            raise
        finally:
            self._event(
                "done",
                stage=name,
                outcome=done.outcome,
                seconds=round(self.at() - started, 3),
                outputs=runevents.small(done.outputs),
                cache=self._caches.pop(name, None),
                **self._told_workers(name),
                error=done.error,
                diagnosis=plain(done.diagnosis),
                **({"healed": done.healed} if done.healed else {}),
            )

    def _told_workers(self, stage: str) -> dict[str, Json]:
        by_host = self._workers.pop(stage, {})
        return {"workers": dict(by_host)} if by_host else {}

    def refused(self, stage: str, why: str) -> None:
        """A stage could not even begin: told at the end, as there may be no folder to write in."""
        self._refused.setdefault(stage, why.strip())

    def end(self, outcome: str, code: int) -> None:
        """The run is over: "done", "failed" or "interrupted"."""
        for stage, why in self._refused.items():
            error = {"what": why, "where": "", "todo": ""}
            self._event("done", stage=stage, outcome="failed", seconds=0.0, error=error)
        self._event("end", outcome=outcome, code=code)
        with self._lock:  # another thread may be about to write
            if self._file:
                self._file.close()
            self._file = None
        _at_work.clear()

    def said(self, kind: str, text: str) -> None:
        """A line that the stage at work said."""
        self._event("said", stage=voice.speaker(), kind=kind, text=text)

    def sample(self, progress: Progress) -> None:
        """What the stage at work is at; now and then of all that are told."""
        stage, now = voice.speaker(), self.at()
        with self._lock:
            last = self._sampled.setdefault(stage, _Sampled())
            if now - last.when < _SAMPLED * 2 ** (last.many // _MANY):
                return
            last.when, last.many = now, last.many + 1
        self._event("sample", stage=stage, **runevents.moment(progress))

    def edges(self, found: Iterable[Edge]) -> None:
        """What the stage at work made, by the steady clock."""
        told = [runevents.edge(one, self.started) for one in found]
        for first in range(0, len(told), _EDGES):
            self._event("edges", stage=voice.speaker(), edges=told[first : first + _EDGES])

    def cache(self, hits: int, misses: int) -> None:
        """What a compiler cache did for the stage at work."""
        self._caches[voice.speaker()] = {"hits": hits, "misses": misses}

    def workers(self, by_host: Mapping[str, int]) -> None:
        """How many compilations which machine did for the stage at work."""
        self._workers[voice.speaker()] = dict(by_host)

    def at(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.started

    def unwritten(self, error: OSError) -> None:
        """Say once that it is not all there."""
        if not self._told:
            self._told = True
            voice.warn(f"the record of this run is not whole: {self.folder}: {error.strerror}")

    def _open(self, folder: Path) -> FileIO:
        runrecords.make_room(folder)
        folder.mkdir(parents=True, exist_ok=True)
        while (path := folder / f"{self.when:%Y%m%dT%H%M%SZ}-{os.getpid()}.jsonl").exists():
            self.when += datetime.timedelta(seconds=1)  # the clock was set back
        return FileIO(path, "x")

    def _event(self, event: str, **facts: Any) -> float:
        at = self.at()
        if event not in _DETAILS or self._size < _MOST:
            self._write(event, {"at": round(at, 3), **facts})
        return at

    def _write(self, event: str, facts: Mapping[str, Any]) -> None:
        """One call of the system: a signal comes before it or after it."""
        line = redact(json.dumps({"event": event, **facts}, ensure_ascii=False))
        data = f"{line}\n".encode("utf-8", "replace")
        with self._lock:
            if self._file is None:
                return
            try:
                _write_whole(self._file, data)
                self._size += len(data)
            except OSError as error:
                with suppress(OSError):
                    self._file.truncate(self._size)
                    self._file.seek(self._size)
                self.unwritten(error)


@dataclass(frozen=True)
class _Overheard:
    """Who listened still does, and what is said is in the record, too."""

    listener: Listener
    record: Recording

    def say(self, text: str) -> None:
        self.listener.say(text)
        self.record.said("say", text)

    def show(self, text: str) -> None:
        self.listener.show(text)

    def warn(self, text: str) -> None:
        self.listener.warn(text)
        self.record.said("warn", text)

    def tick(self, text: str, progress: Progress | None = None) -> None:
        self.listener.tick(text, progress)
        if progress and progress.total:
            self.record.sample(progress)


def _write_whole(file: FileIO, data: bytes) -> None:
    if file.write(data) != len(data):  # as much as the disk had room for
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


_at_work: list[Recording] = []


def edges(found: Iterable[Edge]) -> None:
    """What the stage at work made, for the record of the run that is at work, if any. It is asked
    where a build may have failed, and must not hide why: whatever `found` raises is told.
    """
    try:
        for record in _at_work:
            record.edges(found)
    except Exception as error:  # noqa: BLE001 - a bug of ours, too
        why = f"{type(error).__name__}: {error}"
        voice.warn(f"what was made is not in the record of this run: {why}")


def cache(hits: int, misses: int) -> None:
    """What a compiler cache did for it."""
    for record in _at_work:
        record.cache(hits, misses)


def workers(by_host: Mapping[str, int]) -> None:
    """How many compilations which machine did for it."""
    for record in _at_work:
        record.workers(by_host)
