"""Read Ninja's log and maintain the build history: append runs and merge old runs."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Any

from tasks.core.errors import redact_secrets
from tasks.core.model import Json
from tasks.diagnosis.log_io import LogTail
from tasks.system import manifests
from tasks.system.files import write_atomic
from tasks.system.output import print_warning

_FULL_BUILD_DECISIONS = ("configure", "wipe")  # the decisions that rebuild every object file
_MAX_OUTPUTS = 20_000  # limit for a merged run; a PyTorch build has 8,000 outputs


def _merge_old_runs(older: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Merge old runs into two: the last full build, and the newest values of all outputs."""
    for run in [run for run in older if run.get("decision") in _FULL_BUILD_DECISIONS][-1:]:
        objects = [{key: one[key] for key in one if key != "peak_mib"} for one in run["objects"]]
        yield {**run, "objects": objects, "killed": []}
    latest = dict.fromkeys(reversed([one["output"] for run in older for one in run["objects"]]))
    facts: dict[str, Mapping[str, float]]
    facts = {"seconds": collect_costs(older), "peak_mib": collect_peaks(older)}
    yield {
        "when": older[-1].get("when", ""),
        "seconds": 0.0,
        "decision": "put together",
        "runs": sum(run.get("runs", 1) for run in older),
        "objects": [
            {"output": output, **{name: by[output] for name, by in facts.items() if output in by}}
            for output in reversed(list(latest)[:_MAX_OUTPUTS])
        ],
    }


@dataclass(frozen=True)
class NinjaLogEntry:
    """One build of an output, from `began` to `ended` in seconds. `mark` identifies the build."""

    began: float
    ended: float
    mark: str

    @property
    def seconds(self) -> float:
        """Return the duration in seconds."""
        return self.ended - self.began


def read_ninja_log(folder: PurePath) -> dict[str, NinjaLogEntry]:
    """Return the entries of Ninja's log by output path, {} if `folder` has no readable log."""
    path = Path(folder) / ".ninja_log"
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError as error:  # must not hide why a build failed
        print_warning(f"cannot read {path}: {error.strerror}")
        return {}
    return dict(_parse_ninja_log(text.splitlines()))


def find_new_entries(
    before: Mapping[str, NinjaLogEntry], now: Mapping[str, NinjaLogEntry]
) -> dict[str, NinjaLogEntry]:
    """Return the entries of `now` that are new or differ from `before`."""
    return {name: entry for name, entry in now.items() if before.get(name) != entry}


class NinjaLogFollower:
    """A reader of `.ninja_log` while Ninja runs. `before` has the entries before the build."""

    def __init__(self, folder: PurePath, before: Mapping[str, NinjaLogEntry]) -> None:
        self._tail = LogTail(Path(folder) / ".ninja_log")
        self._before = before
        self._new_entries: dict[str, NinjaLogEntry] = {}

    def read_new_entries(self) -> Mapping[str, NinjaLogEntry]:
        """Return all entries so far that are new or differ from the entries before the build."""
        now = dict(_parse_ninja_log(self._tail.read_new_lines()))
        self._new_entries |= find_new_entries(self._before, now)
        return self._new_entries


def _parse_ninja_log(lines: Iterable[str]) -> Iterator[tuple[str, NinjaLogEntry]]:
    for parts in (line.split("\t") for line in lines if not line.startswith("#")):
        if len(parts) == 5:  # skips a line that an interrupted write truncated
            start, end, mtime, output, command = parts
            mark = f"{start} {mtime} {command}"
            yield output, NinjaLogEntry(int(start) / 1000, int(end) / 1000, mark)


MAX_HISTORY_BYTES = 8 * 2**20
# Excludes generated sources: Ninja logs each of them with the time of the whole generator
_COMPILED_OUTPUT = re.compile(r"\.(o|obj|a|lib|so(\.\d+)*|dll|dylib|pyd|exe)$")


def append_run(path: PurePath, seconds: float, objects: Iterable[Json], **facts: Json) -> None:
    """Append a run to the history, with `objects` as its outputs and `facts` as other fields."""
    start = {"when": manifests.format_current_time(), "seconds": round(seconds, 3)}
    run = {**start, **facts, "objects": list(objects)}
    line, file = redact_secrets(json.dumps(run, ensure_ascii=False)), Path(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab+") as stream:
            # Start a new line if a full disk or a kill truncated the last one
            if stream.seek(0, os.SEEK_END):
                stream.seek(-1, os.SEEK_END)
                line = line if stream.read() == b"\n" else f"\n{line}"
            stream.write(f"{line}\n".encode())
        _compact_history(file)
    except OSError as error:  # must not hide why a build failed
        print_warning(f"cannot add this run to the build history {path}: {error.strerror}")


def build_object_entries(
    built: Mapping[str, NinjaLogEntry], peaks: Mapping[str, int]
) -> Iterator[Json]:
    """Yield an entry for each compiled output in order of start, with its peak memory if known."""
    for output, one in sorted(select_compiled(built), key=lambda item: item[1].began):
        peak = {"peak_mib": peaks[output]} if output in peaks else {}
        yield {"output": output, "seconds": round(one.seconds, 3), **peak}


def build_peak_entries(peaks: Mapping[str, int]) -> Iterator[Json]:
    """Yield an entry without duration for each output of which only the peak memory is known."""
    for output in sorted(filter(_COMPILED_OUTPUT.search, peaks)):
        yield {"output": output, "peak_mib": peaks[output]}


def _compact_history(file: Path) -> None:
    # A history that is too large keeps the newest runs, up to a quarter of the limit
    if file.stat().st_size <= MAX_HISTORY_BYTES:
        return
    past = list(read_history(file))
    lengths = accumulate(len(json.dumps(run)) for run in reversed(past))
    # The last run is kept, whatever its size
    kept = max(1, sum(length <= MAX_HISTORY_BYTES // 4 for length in lengths))
    older = past[:-kept]
    runs = [*(_merge_old_runs(older) if older else ()), *past[-kept:]]
    write_atomic(file, "".join(f"{json.dumps(run, ensure_ascii=False)}\n" for run in runs))


def collect_durations(built: Mapping[str, NinjaLogEntry]) -> dict[str, float]:
    """Return the build duration of each compiled or linked output, in seconds."""
    return {output: one.seconds for output, one in select_compiled(built)}


def select_compiled(built: Mapping[str, NinjaLogEntry]) -> Iterable[tuple[str, NinjaLogEntry]]:
    """Return the path and log entry of each compiled or linked output."""
    return (item for item in built.items() if _COMPILED_OUTPUT.search(item[0]))


def collect_peaks(past: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the peak memory of each output in MiB, from the last run that measured it.

    A run with compiler cache hits can raise a peak but not lower it, because a hit uses little
    memory. After a compiler was killed, the peak of its output is doubled.
    """
    peaks: dict[str, int] = {}
    for run in past:
        measured = {one["output"]: one["peak_mib"] for one in run["objects"] if "peak_mib" in one}
        if run.get("cache", {}).get("hits"):
            measured = {name: max(peak, peaks.get(name, peak)) for name, peak in measured.items()}
        killed = [name for name in run.get("killed", ()) if name in peaks]
        peaks |= measured | {name: 2 * peaks[name] for name in killed}
    return peaks


def has_old_make(past: Iterable[Mapping[str, Any]]) -> bool:
    """Return True if the last run found a make without jobserver support."""
    return bool([run.get("old_make") for run in past][-1:] == [True])


def collect_costs(past: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the build duration of each output in seconds, from the last run that built it."""
    objects = (item for run in past for item in run["objects"])
    return {item["output"]: item["seconds"] for item in objects if "seconds" in item}


def read_history(path: PurePath) -> Iterator[Mapping[str, Any]]:
    """Yield the runs, oldest first. Lines that an interrupted write truncated are skipped."""
    file = Path(path)
    for line in file.read_text(encoding="utf-8").split("\n") if file.is_file() else ():
        try:
            run = json.loads(line)
        except ValueError:
            continue
        if isinstance(run, dict):
            yield run
