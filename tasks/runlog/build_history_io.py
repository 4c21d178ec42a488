"""Read Ninja's log, and keep the build history: append runs, and merge old ones.

Merging keeps the newest cost and peak of each output.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from tasks.core.errors import redact_secrets
from tasks.core.model import Json
from tasks.diagnosis.log_io import LogTail
from tasks.system import manifests
from tasks.system.files import write_atomic
from tasks.system.output import print_warning

_FULL_BUILD_DECISIONS = ("configure", "wipe")  # decisions that rebuild every object
_MAX_OUTPUTS = 20_000  # in a merged run; a PyTorch build has 8,000


def find_first_kept(past: Sequence[Mapping[str, Any]], most: int) -> int:
    """Return the index of the first run that is kept unchanged.

    The newest runs are kept while their JSON takes at most `most` characters. The last run is
    always kept.
    """
    length = 0
    for index in range(len(past) - 1, -1, -1):
        length += len(json.dumps(past[index]))
        if length > most and index < len(past) - 1:
            return index + 1
    return 0


def merge_old_runs(
    older: Sequence[Mapping[str, Any]], cost: Mapping[str, float], peak: Mapping[str, int]
) -> Iterator[Mapping[str, Any]]:
    """Yield the runs that replace `older`, oldest first.

    The last full build comes first: its duration predicts how long a full build takes. A merged run
    with the newest cost and peak of each output follows.
    """
    if not older:
        return
    full_builds = [run for run in older if run.get("decision") in _FULL_BUILD_DECISIONS][-1:]
    yield from map(_strip_peaks, full_builds)
    latest = dict.fromkeys(reversed([one["output"] for run in older for one in run["objects"]]))
    outputs = reversed(list(latest)[:_MAX_OUTPUTS])
    yield {
        "when": older[-1].get("when", ""),
        "seconds": 0.0,
        "decision": "put together",
        "runs": sum(run.get("runs", 1) for run in older),
        "objects": [_build_merged_entry(output, cost, peak) for output in outputs],
    }


def _strip_peaks(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the run without its peaks: the merged run has them."""
    entries = [
        {name: entry[name] for name in entry if name != "peak_mib"} for entry in run["objects"]
    ]
    return {**run, "objects": entries, "killed": []}


def _build_merged_entry(
    output: str, cost: Mapping[str, float], peak: Mapping[str, int]
) -> dict[str, Any]:
    seconds = {"seconds": cost[output]} if output in cost else {}
    return {"output": output, **seconds, **({"peak_mib": peak[output]} if output in peak else {})}


@dataclass(frozen=True)
class NinjaLogEntry:
    """One build of an output: start and end in seconds, and a mark that identifies the build."""

    began: float
    ended: float
    mark: str

    @property
    def seconds(self) -> float:
        """Return the duration in seconds."""
        return self.ended - self.began


def read_ninja_log(folder: PurePath) -> dict[str, NinjaLogEntry]:
    """Return the outputs in `.ninja_log` by path, {} if Ninja never ran in the directory.

    An unreadable log is only a warning: it must not hide why a build failed.
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
    """Return the entries of `now` that are new or differ from `before`."""
    return {name: entry for name, entry in now.items() if before.get(name) != entry}


class NinjaLogFollower:
    """The outputs built in a directory since `before`, read while Ninja writes its log."""

    def __init__(self, folder: PurePath, before: Mapping[str, NinjaLogEntry]) -> None:
        self._tail = LogTail(Path(folder) / ".ninja_log")
        self._before = before
        self._new_entries: dict[str, NinjaLogEntry] = {}

    def read_new_entries(self) -> Mapping[str, NinjaLogEntry]:
        """Return all new entries so far."""
        self._new_entries |= find_new_entries(
            self._before, dict(_parse_ninja_log(self._tail.read_new_lines()))
        )
        return self._new_entries


def _parse_ninja_log(lines: Iterable[str]) -> Iterator[tuple[str, NinjaLogEntry]]:
    for parts in (line.split("\t") for line in lines if not line.startswith("#")):
        if len(parts) == 5:  # skip a line that an interruption truncated
            start, end, mtime, output, command = parts
            yield (
                output,
                NinjaLogEntry(int(start) / 1000, int(end) / 1000, f"{start} {mtime} {command}"),
            )


MAX_HISTORY_BYTES = 8 * 2**20
# Not the thousands of generated sources: each is logged with the time of all of them
_COMPILED_OUTPUT = re.compile(r"\.(o|obj|a|lib|so(\.\d+)*|dll|dylib|pyd|exe)$")


def append_run(path: PurePath, seconds: float, objects: Iterable[Json], **facts: Json) -> None:
    """Append a run with its duration, its outputs and further facts to the history."""
    run = {
        "when": manifests.format_current_time(),
        "seconds": round(seconds, 3),
        **facts,
        "objects": list(objects),
    }
    try:
        _append_line(Path(path), redact_secrets(json.dumps(run, ensure_ascii=False)))
        _compact_history(Path(path))
    except OSError as error:  # must not hide why a build failed
        print_warning(f"this run is not in {path}: {error.strerror}")


def build_object_entries(
    made: Mapping[str, NinjaLogEntry], peaks: Mapping[str, int]
) -> Iterator[Json]:
    """Yield an entry for each compiled output, in order of start.

    The peak in MiB is included if it was measured.
    """
    for output, one in sorted(select_compiled(made), key=lambda item: item[1].began):
        peak = {"peak_mib": peaks[output]} if output in peaks else {}
        yield {"output": output, "seconds": round(one.seconds, 3), **peak}


def build_peak_entries(peaks: Mapping[str, int]) -> Iterator[Json]:
    """Yield the peak in MiB of each output that only the jobserver measured; no seconds."""
    for output in sorted(filter(_COMPILED_OUTPUT.search, peaks)):
        yield {"output": output, "peak_mib": peaks[output]}


def _append_line(file: Path, line: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab+") as stream:
        stream.seek(0, os.SEEK_END)
        # Start a new line after one that a full disk or a kill truncated
        if stream.tell():
            stream.seek(-1, os.SEEK_END)
            line = line if stream.read() == b"\n" else f"\n{line}"
        stream.write(f"{line}\n".encode())


def _compact_history(file: Path) -> None:
    """Merge old runs when the history is too large.

    The runs that are kept unchanged take at most a quarter of the limit.
    """
    if file.stat().st_size <= MAX_HISTORY_BYTES:
        return
    past = list(read_history(file))
    first = find_first_kept(past, MAX_HISTORY_BYTES // 4)
    older = past[:first]
    runs = [*merge_old_runs(older, collect_costs(older), collect_peaks(older)), *past[first:]]
    write_atomic(file, "".join(f"{json.dumps(run, ensure_ascii=False)}\n" for run in runs))


def collect_durations(made: Mapping[str, NinjaLogEntry]) -> dict[str, float]:
    """Return the seconds of each compiled or linked output."""
    return {output: one.seconds for output, one in select_compiled(made)}


def select_compiled(made: Mapping[str, NinjaLogEntry]) -> Iterable[tuple[str, NinjaLogEntry]]:
    """Return the entries of compiled or linked outputs."""
    return (item for item in made.items() if _COMPILED_OUTPUT.search(item[0]))


def collect_peaks(past: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the peak in MiB of each output, from the last run that measured it.

    If a compiler cache served a run, the measured memory is that of the cache: a peak does not
    decrease because of such a run. A process that was killed needs more than was measured: its peak
    is doubled.
    """
    peaks: dict[str, int] = {}
    for run in past:
        measured = {
            item["output"]: item["peak_mib"] for item in run["objects"] if "peak_mib" in item
        }
        if run.get("cache", {}).get("hits"):
            measured = {name: max(peak, peaks.get(name, peak)) for name, peak in measured.items()}
        peaks |= measured | {
            name: 2 * peaks[name] for name in run.get("killed", ()) if name in peaks
        }
    return peaks


def has_old_make(past: Iterable[Mapping[str, Any]]) -> bool:
    """Return True if the last run found a make without jobserver support."""
    return bool([run.get("old_make") for run in past][-1:] == [True])


def collect_costs(past: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the seconds of each output, from the last run that built it."""
    objects = (item for run in past for item in run["objects"])
    return {item["output"]: item["seconds"] for item in objects if "seconds" in item}


def read_history(path: PurePath) -> Iterator[Mapping[str, Any]]:
    """Yield the runs, oldest first, without lines that an interruption truncated."""
    file = Path(path)
    for line in file.read_text(encoding="utf-8").split("\n") if file.is_file() else ():
        try:
            run = json.loads(line)
        except ValueError:
            continue
        if isinstance(run, dict):
            yield run
