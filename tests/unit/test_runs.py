"""The line that each run leaves."""

from __future__ import annotations

from pathlib import Path

from tasks.effects import runs
from tasks.effects.ninjalog import Made
from tests.checkout import Heard

MADE = {"a.o": Made(1.0, 4.5, "1"), "CMakeFiles/install.util": Made(4.5, 4.6, "2")}


def test_what_was_made_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "records" / "compile.jsonl"
    runs.add(path, 5.0, runs.objects(MADE, {"a.o": 310}), jobs=4)
    (run,) = runs.read(path)
    assert run["objects"] == [{"output": "a.o", "seconds": 3.5, "peak_mib": 310}]
    assert runs.costs(runs.read(path)) == {"a.o": 3.5}
    assert runs.peaks(runs.read(path)) == {"a.o": 310}


def test_a_line_that_was_cut_short_takes_no_other_along(tmp_path: Path) -> None:
    path = tmp_path / "compile.jsonl"
    runs.add(path, 5.0, runs.objects(MADE, {}), jobs=4)
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"when": "20')
    runs.add(path, 1.0, (), jobs=2)
    assert [run["jobs"] for run in runs.read(path)] == [4, 2]


def test_a_compiler_that_was_killed_is_taken_for_twice_what_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "compile.jsonl"
    runs.add(path, 5.0, runs.objects(MADE, {"a.o": 310}), jobs=4)
    runs.add(path, 1.0, (), killed=["a.o", "b.o"])
    assert runs.peaks(runs.read(path)) == {"a.o": 620}


def test_what_cannot_be_written_is_told_and_hides_nothing(tmp_path: Path, heard: Heard) -> None:
    (tmp_path / "records").touch()  # where the folder would have to be
    runs.add(tmp_path / "records" / "compile.jsonl", 1.0, ())
    assert "this run is not in" in heard.text


def test_an_old_make_is_known_from_the_last_run() -> None:
    met: dict[str, object] = {"old_make": True}
    assert runs.old_make([{}, met])
    assert not runs.old_make([met, {"old_make": False}])
    assert not runs.old_make([])


def test_what_was_generated_took_no_time_of_its_own() -> None:
    assert runs.seconds({**MADE, "a.h": Made(0.0, 90.0, "3")}) == {"a.o": 3.5}
