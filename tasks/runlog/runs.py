"""How each run of a build went: one line of JSON a run, added to a file. One that gets large has
its oldest lines put together: what they tell of costs and peaks stays (`tasks.runlog.past`).

This is one of compile; an extension's has no `decision`, and its objects have no `seconds`.

{"when": "2026-11-21T14:00:00+00:00", "seconds": 12.3, "configure_seconds": 0.0,
     "ninja_seconds": 11.9, "decision": "reuse", "changes": [],
 "objects": [{"output": "c10/CMakeFiles/c10.dir/core/Allocator.cpp.o", "seconds": 4.2,
              "peak_mib": 310}]}
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from tasks.core.errors import redact_secrets
from tasks.core.model import Json
from tasks.runlog.ninjalog import NinjaLogEntry
from tasks.runlog.past import find_first_kept, merge_old_runs
from tasks.system import clock
from tasks.system.files import write_atomic
from tasks.system.voice import print_warning

MAX_HISTORY_BYTES = 8 * 2**20
# not the thousands of sources that are generated, each logged with the time of all
_COMPILED_OUTPUT = re.compile(r"\.(o|obj|a|lib|so(\.\d+)*|dll|dylib|pyd|exe)$")


def append_run(path: PurePath, seconds: float, objects: Iterable[Json], **facts: Json) -> None:
    """Add a run that took so long, with what came of its objects and whatever else is told of
    it.
    """
    told = {
        "when": clock.format_current_time(),
        "seconds": round(seconds, 3),
        **facts,
        "objects": list(objects),
    }
    try:
        _append_line(Path(path), redact_secrets(json.dumps(told, ensure_ascii=False)))
        _compact_history(Path(path))
    except OSError as error:  # it decides nothing, and must not hide why a build failed
        print_warning(f"this run is not in {path}: {error.strerror}")


def build_object_entries(
    made: Mapping[str, NinjaLogEntry], peaks: Mapping[str, int]
) -> Iterator[Json]:
    """What Ninja compiled, in the order in which it began, with MiB at the most where they were
    seen.
    """
    for output, one in sorted(select_compiled(made), key=lambda item: item[1].began):
        peak = {"peak_mib": peaks[output]} if output in peaks else {}
        yield {"output": output, "seconds": round(one.seconds, 3), **peak}


def build_peak_entries(peaks: Mapping[str, int]) -> Iterator[Json]:
    """What was compiled where only the pool saw it: MiB at the most, no seconds."""
    for output in sorted(filter(_COMPILED_OUTPUT.search, peaks)):
        yield {"output": output, "peak_mib": peaks[output]}


def _append_line(file: Path, line: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab+") as stream:
        stream.seek(0, os.SEEK_END)
        # A line that a full disk or a kill cut short is not to take this one along
        if stream.tell():
            stream.seek(-1, os.SEEK_END)
            line = line if stream.read() == b"\n" else f"\n{line}"
        stream.write(f"{line}\n".encode())


def _compact_history(file: Path) -> None:
    """The lines that are kept as they are take a quarter of what there may be at the most."""
    if file.stat().st_size <= MAX_HISTORY_BYTES:
        return
    past = list(read_history(file))
    first = find_first_kept(past, MAX_HISTORY_BYTES // 4)
    older = past[:first]
    found = [*merge_old_runs(older, collect_costs(older), collect_peaks(older)), *past[first:]]
    write_atomic(file, "".join(f"{json.dumps(run, ensure_ascii=False)}\n" for run in found))


def collect_durations(made: Mapping[str, NinjaLogEntry]) -> dict[str, float]:
    """What took how long, by output."""
    return {output: one.seconds for output, one in select_compiled(made)}


def select_compiled(made: Mapping[str, NinjaLogEntry]) -> Iterable[tuple[str, NinjaLogEntry]]:
    """What compilers and linkers made, by output."""
    return (item for item in made.items() if _COMPILED_OUTPUT.search(item[0]))


def collect_peaks(past: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """MiB by output, at the most, of the last run that measured it.

    Where a compiler cache served a run, what was seen is the cache's own memory: no peak gets less
    by that. One that was killed needs more than was seen, and is taken for twice that.
    """
    found: dict[str, int] = {}
    for run in past:
        seen = {item["output"]: item["peak_mib"] for item in run["objects"] if "peak_mib" in item}
        if run.get("cache", {}).get("hits"):
            seen = {name: max(peak, found.get(name, peak)) for name, peak in seen.items()}
        found |= seen | {name: 2 * found[name] for name in run.get("killed", ()) if name in found}
    return found


def has_old_make(past: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the last run met a make that knows no pool."""
    return bool([run.get("old_make") for run in past][-1:] == [True])


def collect_costs(past: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds by output, of the last run that made it."""
    objects = (item for run in past for item in run["objects"])
    return {item["output"]: item["seconds"] for item in objects if "seconds" in item}


def read_history(path: PurePath) -> Iterator[Mapping[str, Any]]:
    """The runs, the oldest first; a line that an interruption cut is left out."""
    file = Path(path)
    for line in file.read_text(encoding="utf-8").split("\n") if file.is_file() else ():
        try:
            run = json.loads(line)
        except ValueError:
            continue
        if isinstance(run, dict):
            yield run
