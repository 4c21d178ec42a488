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
from tasks.core.digest import convert_to_json
from tasks.core.errors import redact_secrets
from tasks.core.model import Json
from tasks.core.progress import Progress
from tasks.runlog import events as runevents
from tasks.runlog import runrecords
from tasks.runlog.record import RECORD_SCHEMA, Edge
from tasks.system import voice
from tasks.system.voice import OutputListener

_SAMPLE_INTERVAL, _SAMPLES_BEFORE_DOUBLING = (
    2.0,
    1000,
)  # seconds between samples of a stage; twice that after so many
_EDGES_PER_LINE = 1000  # in a line
_MAX_RECORD_BYTES = 8 * 2**20  # bytes, after which a record has what begins and ends alone
_DETAIL_EVENTS = {"sample", "said", "edges"}


@dataclass
class StageOutcome:
    """What came of a stage: its block says so, and is right about failures without saying it."""

    outcome: str = ""
    outputs: Any = None
    auto_fix: str = ""
    error: dict[str, Json] | None = None
    diagnosis: Mapping[str, Any] | None = None


@dataclass
class _SampleState:
    when: float = -_SAMPLE_INTERVAL
    many: int = 0


@dataclass
class RunRecorder:
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
    _has_warned: bool = False
    _refusals: dict[str, str] = field(default_factory=dict)
    _sample_states: dict[str, _SampleState] = field(default_factory=dict)
    _caches: dict[str, dict[str, Json]] = field(default_factory=dict)
    _workers: dict[str, dict[str, int]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def start_record(self) -> None:
        """Open it, once: the build folder has to be ours, and locked. Older ones make room."""
        if self.begun or self.folder is None:
            return
        self.begun = True
        try:
            self._file = self._open_file(Path(self.folder))
        except OSError as error:
            self.warn_incomplete(error)
        facts = {"schema": RECORD_SCHEMA, "when": self.when.isoformat(timespec="seconds")}
        self._write_line(
            "begin", {**facts, "torchyard": __version__, "pid": os.getpid(), **self.head()}
        )
        voice.set_listener(_RecordingListener(voice.read_listener(), self))
        _active_recorders[:] = [self]

    @contextmanager
    def record_stage(self, name: str, reason: str) -> Iterator[StageOutcome]:
        """A stage at work, until the block ends in one way or another."""
        started, done = self._write_event("stage", stage=name, reason=reason), StageOutcome()
        try:
            yield done
        except BaseException as error:
            done.outcome, done.error = runevents.classify_error(error)
            done.diagnosis = getattr(error, "diagnosis", None)  # where a log was read
            raise
        finally:
            self._write_event(
                "done",
                stage=name,
                outcome=done.outcome,
                seconds=round(self.compute_elapsed() - started, 3),
                outputs=runevents.trim_manifest(done.outputs),
                cache=self._caches.pop(name, None),
                **self._pop_workers(name),
                error=done.error,
                diagnosis=convert_to_json(done.diagnosis),
                **({"healed": done.auto_fix} if done.auto_fix else {}),
            )

    def _pop_workers(self, stage: str) -> dict[str, Json]:
        by_host = self._workers.pop(stage, {})
        return {"workers": dict(by_host)} if by_host else {}

    def record_refusal(self, stage: str, why: str) -> None:
        """A stage could not even begin: told at the end, as there may be no folder to write in."""
        self._refusals.setdefault(stage, why.strip())

    def finish_record(self, outcome: str, code: int) -> None:
        """The run is over: "done", "failed" or "interrupted"."""
        for stage, why in self._refusals.items():
            error = {"what": why, "where": "", "todo": ""}
            self._write_event("done", stage=stage, outcome="failed", seconds=0.0, error=error)
        self._write_event("end", outcome=outcome, code=code)
        with self._lock:  # another thread may be about to write
            if self._file:
                self._file.close()
            self._file = None
        _active_recorders.clear()

    def record_message(self, kind: str, text: str) -> None:
        """A line that the stage at work said."""
        self._write_event("said", stage=voice.read_output_stage(), kind=kind, text=text)

    def record_sample(self, progress: Progress) -> None:
        """What the stage at work is at; now and then of all that are told."""
        stage, now = voice.read_output_stage(), self.compute_elapsed()
        with self._lock:
            last = self._sample_states.setdefault(stage, _SampleState())
            if now - last.when < _SAMPLE_INTERVAL * 2 ** (last.many // _SAMPLES_BEFORE_DOUBLING):
                return
            last.when, last.many = now, last.many + 1
        self._write_event("sample", stage=stage, **runevents.build_sample_event(progress))

    def record_edges(self, found: Iterable[Edge]) -> None:
        """What the stage at work made, by the steady clock."""
        told = [runevents.build_edge_entry(one, self.started) for one in found]
        for first in range(0, len(told), _EDGES_PER_LINE):
            self._write_event(
                "edges",
                stage=voice.read_output_stage(),
                edges=told[first : first + _EDGES_PER_LINE],
            )

    def record_cache(self, hits: int, misses: int) -> None:
        """What a compiler cache did for the stage at work."""
        self._caches[voice.read_output_stage()] = {"hits": hits, "misses": misses}

    def record_workers(self, by_host: Mapping[str, int]) -> None:
        """How many compilations which machine did for the stage at work."""
        self._workers[voice.read_output_stage()] = dict(by_host)

    def compute_elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.started

    def warn_incomplete(self, error: OSError) -> None:
        """Say once that it is not all there."""
        if not self._has_warned:
            self._has_warned = True
            voice.print_warning(
                f"the record of this run is not whole: {self.folder}: {error.strerror}"
            )

    def _open_file(self, folder: Path) -> FileIO:
        runrecords.prune_records(folder)
        folder.mkdir(parents=True, exist_ok=True)
        while (path := folder / f"{self.when:%Y%m%dT%H%M%SZ}-{os.getpid()}.jsonl").exists():
            self.when += datetime.timedelta(seconds=1)  # the clock was set back
        return FileIO(path, "x")

    def _write_event(self, event: str, **facts: Any) -> float:
        at = self.compute_elapsed()
        if event not in _DETAIL_EVENTS or self._size < _MAX_RECORD_BYTES:
            self._write_line(event, {"at": round(at, 3), **facts})
        return at

    def _write_line(self, event: str, facts: Mapping[str, Any]) -> None:
        """One call of the system: a signal comes before it or after it."""
        line = redact_secrets(json.dumps({"event": event, **facts}, ensure_ascii=False))
        data = f"{line}\n".encode("utf-8", "replace")
        with self._lock:
            if self._file is None:
                return
            try:
                _write_all_bytes(self._file, data)
                self._size += len(data)
            except OSError as error:
                with suppress(OSError):
                    self._file.truncate(self._size)
                    self._file.seek(self._size)
                self.warn_incomplete(error)


@dataclass(frozen=True)
class _RecordingListener:
    """Who listened still does, and what is said is in the record, too."""

    listener: OutputListener
    record: RunRecorder

    def print_line(self, text: str) -> None:
        self.listener.print_line(text)
        self.record.record_message("say", text)

    def print_report(self, text: str) -> None:
        self.listener.print_report(text)

    def print_warning(self, text: str) -> None:
        self.listener.print_warning(text)
        self.record.record_message("warn", text)

    def show_progress(self, text: str, progress: Progress | None = None) -> None:
        self.listener.show_progress(text, progress)
        if progress and progress.total:
            self.record.record_sample(progress)


def _write_all_bytes(file: FileIO, data: bytes) -> None:
    if file.write(data) != len(data):  # as much as the disk had room for
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


_active_recorders: list[RunRecorder] = []


def record_edges(found: Iterable[Edge]) -> None:
    """What the stage at work made, for the record of the run that is at work, if any. It is asked
    where a build may have failed, and must not hide why: whatever `found` raises is told.
    """
    try:
        for record in _active_recorders:
            record.record_edges(found)
    except Exception as error:  # noqa: BLE001 - a bug of ours, too
        why = f"{type(error).__name__}: {error}"
        voice.print_warning(f"what was made is not in the record of this run: {why}")


def record_cache(hits: int, misses: int) -> None:
    """What a compiler cache did for it."""
    for record in _active_recorders:
        record.record_cache(hits, misses)


def record_workers(by_host: Mapping[str, int]) -> None:
    """How many compilations which machine did for it."""
    for record in _active_recorders:
        record.record_workers(by_host)
