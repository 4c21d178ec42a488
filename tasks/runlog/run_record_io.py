"""Read and write the run records of a profile: one file per run in `build/PROFILE/records/runs`."""

import datetime
import errno
import json
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from tasks import __version__
from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import redact_secrets
from tasks.core.model import Json
from tasks.core.ninja_progress import Progress
from tasks.runlog import run_record
from tasks.runlog.run_record import RECORD_SCHEMA, Edge, Run, parse_run
from tasks.system import output
from tasks.system.files import read_lock_holder
from tasks.system.output import OutputListener, print_warning

MAX_RUNS, MAX_RECORDS_BYTES = 50, 64 * 2**20
_RESERVED_BYTES = 9 * 2**20  # kept free for the next record
_ALWAYS_KEPT = 3
_COMPILED_MARK, _CHANGED_MARK = b'"event": "edges"', b'"outcome": "changed"'  # as in the file
# The seconds between two samples of a stage; they double after each 1000 samples
_SAMPLE_INTERVAL, _SAMPLES_BEFORE_DOUBLING = 2.0, 1000
_EDGES_PER_LINE = 1000
_MAX_RECORD_BYTES = 8 * 2**20  # beyond this size, detail events are omitted
_DETAIL_EVENTS = {"sample", "said", "edges"}
_RECORD_NAME = re.compile(r"\d{8}T\d{6}Z-\d+\.jsonl(\.corrupt)?")


def read_runs(folder: PurePath) -> Iterator[Run]:
    """Yield the runs in `folder`, newest first. Unreadable records cause a warning."""
    for path in _list_records(Path(folder)):
        if not path.name.endswith(".jsonl"):
            continue
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
            yield parse_run(filter(None, lines))  # splitlines would split at U+2028
        except OSError as error:
            print_warning(f"cannot read {path}: {error.strerror}")
        except ValueError as error:
            # A live process may not have written the whole first line yet
            if _is_process_alive(int(path.stem.rpartition("-")[2])):
                continue
            try:
                renamed = path.replace(path.with_name(f"{path.name}.corrupt"))
            except OSError:
                print_warning(f"{path} is not a valid run record and cannot be renamed: {error}")
            else:
                print_warning(f"renamed an invalid run record to {renamed}: {error}")


def is_run_active(folder: PurePath, run: Run) -> bool:
    """Return True if the process of `run` is alive and holds the lock of the profile."""
    holder = read_lock_holder(Path(folder).parents[1]).partition("-")[0]
    return not run.outcome and holder == str(run.pid) and _is_process_alive(run.pid)


def prune_records(folder: PurePath) -> None:
    """Remove old records to save space, runs without results first. The profile must be locked."""
    known = _list_records(Path(folder))
    sizes = {path: _read_time_and_size(path)[1] for path in known}
    if _fits_limits(sizes.values()):
        return
    marks = {path: _read_marks(path) for path in known}
    compiled = [path for path in known if _COMPILED_MARK in marks[path]]
    # Without `compiled`, many quick failures would displace a build that took hours
    retained = {*known[:_ALWAYS_KEPT], *compiled[:_ALWAYS_KEPT]}
    removable = [path for path in reversed(known) if path not in retained]
    # First records without results, oldest first; then the others, oldest first
    for path in sorted(removable, key=lambda path: bool(marks[path])):
        with suppress(OSError):  # an unremovable record must not prevent the next one
            path.unlink()
        del sizes[path]
        if _fits_limits(sizes.values()):
            return


def _fits_limits(sizes: Collection[int]) -> bool:
    return len(sizes) < MAX_RUNS and sum(sizes) <= MAX_RECORDS_BYTES - _RESERVED_BYTES


def _read_marks(path: Path) -> set[bytes]:
    # Parsing up to 64 MiB of records would be slow
    with suppress(OSError):
        text = path.read_bytes() if path.suffix == ".jsonl" else b""
        return {kind for kind in (_COMPILED_MARK, _CHANGED_MARK) if kind in text}
    return set()


def _list_records(folder: Path) -> list[Path]:
    # Records of the same second are sorted by modification time
    try:
        records = [path for path in folder.iterdir() if _RECORD_NAME.fullmatch(path.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(records, key=lambda one: (one.name[:16], _read_time_and_size(one)), reverse=True)


def _read_time_and_size(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:  # another process removed or renamed the record
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _is_process_alive(pid: int) -> bool:
    import psutil  # noqa: PLC0415 - only for a record without an end

    return psutil.pid_exists(pid)


@dataclass
class StageOutcome:
    """The outcome of a stage, set in the `with` block of `record_stage` or by its exception."""

    outcome: str = ""
    outputs: Any = None
    auto_fix: str = ""
    error: dict[str, Json] | None = None
    diagnosis: Mapping[str, Any] | None = None


@dataclass
class RunRecorder:
    """The writer of a run record; without `folder` it writes nothing."""

    folder: PurePath | None = None
    head: Callable[[], Mapping[str, Json]] = dict
    when: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    started: float = field(default_factory=time.monotonic)
    begun: bool = False
    caches: dict[str, dict[str, Json]] = field(default_factory=dict)
    workers: dict[str, dict[str, int]] = field(default_factory=dict)
    _file: FileIO | None = None
    _size: int = 0
    _has_warned: bool = False
    _refusals: dict[str, str] = field(default_factory=dict)
    _samples: dict[str, tuple[float, int]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def start_record(self) -> None:
        """Prune old records and open the new one. The profile must be locked."""
        if self.begun or self.folder is None:
            return
        self.begun = True
        try:
            prune_records(self.folder)
            (folder := Path(self.folder)).mkdir(parents=True, exist_ok=True)
            while (path := folder / f"{self.when:%Y%m%dT%H%M%SZ}-{os.getpid()}.jsonl").exists():
                self.when += datetime.timedelta(seconds=1)  # the clock was set back
            self._file = FileIO(path, "x")
        except OSError as error:
            self.warn_incomplete(error)
        facts = {"schema": RECORD_SCHEMA, "when": self.when.isoformat(timespec="seconds")}
        facts |= {"torchyard": __version__, "pid": os.getpid()}
        self._write_line("begin", {**facts, **self.head()})
        output.set_listener(_RecordingListener(output.read_listener(), self))
        _active_recorders[:] = [self]

    @contextmanager
    def record_stage(self, name: str, reason: str) -> Iterator[StageOutcome]:
        """Record the start of a stage, and its end when the `with` block ends or raises."""
        started, done = self._write_event("stage", stage=name, reason=reason), StageOutcome()
        try:
            yield done
        except BaseException as error:
            done.outcome, done.error = run_record.classify_error(error)
            done.diagnosis = getattr(error, "diagnosis", None)  # exists if a log was diagnosed
            raise
        finally:
            optional = {"workers": self.workers.pop(name, None), "auto_fix": done.auto_fix}
            self._write_event(
                "done",
                stage=name,
                outcome=done.outcome,
                seconds=round(self.compute_elapsed() - started, 3),
                outputs=run_record.trim_manifest(done.outputs),
                cache=self.caches.pop(name, None),
                error=done.error,
                diagnosis=convert_to_json(done.diagnosis),
                **{key: value for key, value in optional.items() if value},
            )

    def record_refusal(self, stage: str, why: str) -> None:
        """Remember why a stage could not start, until `finish_record` writes it."""
        self._refusals.setdefault(stage, why.strip())

    def finish_record(self, outcome: str, code: int) -> None:
        """Record the end and close the record. `outcome` is "done", "failed" or "interrupted"."""
        for stage, why in self._refusals.items():
            error = {"what": why, "where": "", "todo": ""}
            self._write_event("done", stage=stage, outcome="failed", seconds=0.0, error=error)
        self._write_event("end", outcome=outcome, code=code)
        with self._lock:  # another thread may write
            if self._file:
                self._file.close()
            self._file = None
        _active_recorders.clear()

    def record_message(self, kind: str, text: str) -> None:
        """Record a line of output of the running stage."""
        self._write_event("said", stage=output.read_output_stage(), kind=kind, text=text)

    def record_sample(self, progress: Progress) -> None:
        """Record the progress of the running stage, at most once per sample interval."""
        stage, now = output.read_output_stage(), self.compute_elapsed()
        with self._lock:
            last, count = self._samples.get(stage, (-_SAMPLE_INTERVAL, 0))
            if now - last < _SAMPLE_INTERVAL * 2 ** (count // _SAMPLES_BEFORE_DOUBLING):
                return
            self._samples[stage] = now, count + 1
        self._write_event("sample", stage=stage, **run_record.build_sample_event(progress))

    def record_edges(self, found: Iterable[Edge]) -> None:
        """Record edges of the running stage, with times of the monotonic clock."""
        entries = (run_record.build_edge_entry(one, self.started) for one in found)
        while part := list(islice(entries, _EDGES_PER_LINE)):
            self._write_event("edges", stage=output.read_output_stage(), edges=part)

    def compute_elapsed(self) -> float:
        """Return the seconds since the start of the run."""
        return time.monotonic() - self.started

    def warn_incomplete(self, error: OSError) -> None:
        """Warn, only once, that the record is incomplete."""
        if not self._has_warned:
            self._has_warned = True
            print_warning(f"the record of this run is incomplete: {self.folder}: {error.strerror}")

    def _write_event(self, event: str, **facts: Any) -> float:
        at = self.compute_elapsed()
        if event not in _DETAIL_EVENTS or self._size < _MAX_RECORD_BYTES:
            self._write_line(event, {"at": round(at, 3), **facts})
        return at

    def _write_line(self, event: str, facts: Mapping[str, Any]) -> None:
        """Write an event as one line, in a single system call."""
        line = redact_secrets(json.dumps({"event": event, **facts}, ensure_ascii=False))
        data = f"{line}\n".encode("utf-8", "replace")
        with self._lock:
            if self._file is None:
                return
            try:
                if self._file.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301
                self._size += len(data)
            except OSError as error:
                with suppress(OSError):
                    self._file.truncate(self._size)
                    self._file.seek(self._size)
                self.warn_incomplete(error)


@dataclass(frozen=True)
class _RecordingListener:
    """A listener that forwards all output, and records messages and progress."""

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


_active_recorders: list[RunRecorder] = []


def record_edges(found: Iterable[Edge]) -> None:
    """Record Ninja edges of the running stage in the active record. If this fails, only warn."""
    try:
        for record in _active_recorders:
            record.record_edges(found)
    except Exception as error:  # noqa: BLE001 - may be a bug in torchyard
        reason = f"{type(error).__name__}: {error}"
        print_warning(f"the build succeeded, but its record lacks the outputs of a stage: {reason}")


def record_cache(hits: int, misses: int) -> None:
    """Record the compiler cache hits and misses of the running stage in the active record."""
    for record in _active_recorders:
        record.caches[output.read_output_stage()] = {"hits": hits, "misses": misses}


def record_workers(by_host: Mapping[str, int]) -> None:
    """Record how many compilations each machine ran for the running stage."""
    for record in _active_recorders:
        record.workers[output.read_output_stage()] = dict(by_host)
