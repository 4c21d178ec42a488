"""The line that each run leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.cli.decisions import estimate_compile_seconds
from tasks.runlog import build_history_io
from tasks.runlog.build_history_io import NinjaLogEntry
from tests.support.checkout import Heard

MADE = {
    "a.o": NinjaLogEntry(1.0, 4.5, "1"),
    "CMakeFiles/install.util": NinjaLogEntry(4.5, 4.6, "2"),
}


def test_what_was_made_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "records" / "compile.jsonl"
    build_history_io.append_run(
        path, 5.0, build_history_io.build_object_entries(MADE, {"a.o": 310}), jobs=4
    )
    (run,) = build_history_io.read_history(path)
    assert run["objects"] == [{"output": "a.o", "seconds": 3.5, "peak_mib": 310}]
    assert build_history_io.collect_costs(build_history_io.read_history(path)) == {"a.o": 3.5}
    assert build_history_io.collect_peaks(build_history_io.read_history(path)) == {"a.o": 310}


def test_a_line_that_was_cut_short_takes_no_other_along(tmp_path: Path) -> None:
    path = tmp_path / "compile.jsonl"
    build_history_io.append_run(path, 5.0, build_history_io.build_object_entries(MADE, {}), jobs=4)
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"when": "20')
    build_history_io.append_run(path, 1.0, (), jobs=2)
    assert [run["jobs"] for run in build_history_io.read_history(path)] == [4, 2]


def test_a_compiler_that_was_killed_is_taken_for_twice_what_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "compile.jsonl"
    build_history_io.append_run(
        path, 5.0, build_history_io.build_object_entries(MADE, {"a.o": 310}), jobs=4
    )
    build_history_io.append_run(path, 1.0, (), killed=["a.o", "b.o"])
    assert build_history_io.collect_peaks(build_history_io.read_history(path)) == {"a.o": 620}


def test_what_cannot_be_written_is_told_and_hides_nothing(tmp_path: Path, heard: Heard) -> None:
    (tmp_path / "records").touch()  # where the folder would have to be
    build_history_io.append_run(tmp_path / "records" / "compile.jsonl", 1.0, ())
    assert "cannot add this run to" in heard.text


def test_an_old_make_is_known_from_the_last_run() -> None:
    met: dict[str, object] = {"old_make": True}
    assert build_history_io.has_old_make([{}, met])
    assert not build_history_io.has_old_make([met, {"old_make": False}])
    assert not build_history_io.has_old_make([])


def test_what_was_generated_took_no_time_of_its_own() -> None:
    assert build_history_io.collect_durations({**MADE, "a.h": NinjaLogEntry(0.0, 90.0, "3")}) == {
        "a.o": 3.5
    }


def past(count: int) -> list[dict[str, object]]:
    """Runs of a build: a first one of everything, then a few outputs at a time."""
    first = [{"output": f"{n}.o", "seconds": n / 8, "peak_mib": 100 + n} for n in range(300)]
    runs_of_all: list[dict[str, object]] = [{"decision": "configure", "objects": first}]
    for number in range(1, count):
        some = [
            {"output": f"{n}.o", "seconds": number + n / 8, "peak_mib": 90 + (number * n) % 50}
            for n in range(number % 7, 300, 7)
        ]
        hits = {"hits": 3} if number % 3 == 0 else {}
        killed = [f"{number % 300}.o"] if number % 5 == 0 else []
        run = {"decision": "reuse", "cache": hits, "killed": killed, "objects": some}
        runs_of_all.append({**run, "old_make": number % 2 == 1})
    return runs_of_all


@pytest.mark.parametrize("count", [2, 40, 41])
def test_lines_that_are_put_together_tell_the_same_costs_and_peaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(build_history_io, "MAX_HISTORY_BYTES", 60_000)
    path, all_of_them = tmp_path / "compile.jsonl", []
    for run in past(count):
        facts = {name: value for name, value in run.items() if name != "objects"}
        build_history_io.append_run(path, 12.5, run["objects"], **facts)  # type: ignore[arg-type]
        all_of_them.append({**run, "seconds": 12.5})
        kept = list(build_history_io.read_history(path))
        assert build_history_io.collect_costs(kept) == build_history_io.collect_costs(all_of_them)
        assert build_history_io.collect_peaks(kept) == build_history_io.collect_peaks(all_of_them)
        assert build_history_io.has_old_make(kept) == build_history_io.has_old_make(all_of_them)
        assert estimate_compile_seconds(kept, 30) == estimate_compile_seconds(all_of_them, 30)
        assert kept[-1]["objects"] == run["objects"]
        assert path.stat().st_size <= build_history_io.MAX_HISTORY_BYTES
    assert count == 2 or any(one.get("runs", 1) > 1 for one in kept)


def test_of_an_extensions_runs_the_peaks_stay_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_history_io, "MAX_HISTORY_BYTES", 2_000)
    path = tmp_path / "toy.jsonl"
    for number in range(100):
        build_history_io.append_run(
            path,
            1.0,
            build_history_io.build_peak_entries({"a.o": 100 + number, f"{number % 9}.o": number}),
        )
    assert build_history_io.collect_peaks(build_history_io.read_history(path)) == {"a.o": 199} | {
        f"{number}.o": 99 - (99 - number) % 9 for number in range(9)
    }
    assert path.stat().st_size <= 2_000


def test_a_log_of_ninja_that_cannot_be_read_ends_nothing(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> str:
        raise OSError(5, "Input/output error")

    log = tmp_path / ".ninja_log"
    log.touch()
    monkeypatch.setattr(Path, "read_text", gone)
    assert build_history_io.read_ninja_log(tmp_path) == {}
    assert heard == [f"cannot read {log}: Input/output error"]
