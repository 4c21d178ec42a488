"""`doit history` lists one run per line."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tasks.cli.commands import history
from tasks.cli.session import open_session
from tasks.core.errors import TorchyardError
from tasks.core.project import Project
from tasks.core.text_layout import measure_columns
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.system import files
from tests.support.checkout import Heard, write

WHEN = datetime.datetime(2026, 11, 22, 3, 40, 27, tzinfo=datetime.UTC)


def put(root: Path, minute: int, *events: dict[str, Any], **begin: Any) -> None:
    """Write a run record of the profile `mine`."""
    pid = begin.get("pid", 4_000_000)
    when = WHEN + datetime.timedelta(minutes=minute)
    head = {"event": "begin", "schema": 1, "when": when.isoformat(), "command": ["build"]}
    path = root / "build" / "mine" / "records" / "runs" / f"{when:%Y%m%dT%H%M%SZ}-{pid}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{**head, "pid": pid, **begin}, *events]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def stage(name: str, reason: str, outcome: str, at: float = 1.0) -> list[dict[str, Any]]:
    began = {"event": "stage", "at": at, "stage": name, "reason": reason}
    done = {"event": "done", "at": at + 1, "stage": name, "outcome": outcome, "seconds": 1.0}
    return [began, done]


def end(outcome: str, at: float, code: int = 0) -> dict[str, Any]:
    return {"event": "end", "at": at, "outcome": outcome, "code": code}


@pytest.fixture
def subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SelectedProfile:
    """Return a broken profile; its history is still available."""
    monkeypatch.setenv("COLUMNS", "80")
    problem = TorchyardError("it is broken", location="config")
    return SelectedProfile(Project.of_checkout(tmp_path), "mine", None, problem)


def local(minute: int) -> str:
    return f"{(WHEN + datetime.timedelta(minutes=minute)).astimezone():%Y-%m-%d %H:%M}"


def test_history_lists_one_run_per_line_newest_last(subject: SelectedProfile, heard: Heard) -> None:
    first = [*stage("deps", "new", "changed"), *stage("env", "new", "changed", 3.0)]
    put(subject.root, 1, *first, *stage("wheel", "x", "changed", 5.0), end("done", 372.0))
    put(subject.root, 2, end("done", 0.3))
    put(subject.root, 3, *stage("source", "looked at every time", "unchanged"), end("done", 2.4))
    looked = stage("source", "looked at every time", "changed")
    put(subject.root, 4, *looked, *stage("wheel", "new", "failed", 3.0), end("failed", 70.0, 1))
    put(subject.root, 5, *stage("wheel", "first time", "stopped"), end("interrupted", 9.0, 130))
    put(subject.root, 6, *stage("deps", "first time", "changed")[:1], command=["deps"])
    history.run(subject)
    assert heard == [
        f"{local(1)}  build  done           6 min 12 s  deps, env: new; wheel: x",
        f"{local(2)}  build  up to date     0.3 s",
        f"{local(3)}  build  up to date     2.4 s",
        f"{local(4)}  build  failed: wheel  1 min 10 s  source; wheel: new",
        f"{local(5)}  build  interrupted    9.0 s       wheel: first time",
        f"{local(6)}  deps   unfinished     1.0 s       deps: first time",
    ]


def test_auto_fix_is_shown_next_to_the_failure(subject: SelectedProfile, heard: Heard) -> None:
    began, done = stage("extensions:a", "new", "changed")
    put(subject.root, 1, began, {**done, "healed": "build.jobs: 2"}, end("done", 9.0))
    history.run(subject)
    assert heard[0].endswith("extensions:a: new; auto-fix: build.jobs: 2")


def test_active_run_is_marked_as_running(subject: SelectedProfile, heard: Heard) -> None:
    begun = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=90)
    result = stage("deps", "first time", "changed")[:1]
    put(subject.root, 1, *result, pid=os.getpid(), when=begun.isoformat())
    with files.lock_folder(subject.root / "build" / "mine"):
        history.run(subject)
    assert "  running  1 h 30 min  deps: first time" in heard[0]


def test_history_is_readable_at_eighty_columns(subject: SelectedProfile, heard: Heard) -> None:
    long = "extensions:diff-gaussian-rasterization"
    why = "build.flags.USE_FLASH_ATTENTION: now false, was true 変更"
    put(subject.root, 1, *stage(long, why, "failed"), end("failed", 99_000.0, 1), command=[long])
    history.run(subject)
    assert measure_columns(heard[0]) <= 80
    assert heard[0].startswith(f"{local(1)}  extensions:diff…  failed: extensions:diff…  27 h")


def test_complete_history_is_available_as_json(subject: SelectedProfile, heard: Heard) -> None:
    put(subject.root, 1, *stage("wheel", "first time", "failed"), end("failed", 70.0, 1))
    history.run(subject, json=str(subject.root / "out.json"))
    found = json.loads((subject.root / "out.json").read_text(encoding="utf-8"))
    assert found["profile"] == "mine"
    (one,) = found["runs"]
    assert one["outcome"] == "failed: wheel"
    assert (one["code"], one["seconds"], one["command"]) == (1, 70.0, ["build"])
    assert one["record"] == "20261122T034127Z-4000000.jsonl"
    assert [stage["reason"] for stage in one["stages"]] == ["first time"]


def test_history_without_runs_shows_what_to_do(subject: SelectedProfile, heard: Heard) -> None:
    history.run(subject)
    assert heard == ["no run of profile mine is recorded; start one: doit build profile=mine"]


def test_history_of_broken_profile_is_shown(yard: Path) -> None:
    write(yard, "tagret: {}\n")
    opened = open_session(Project.of_checkout(yard), "mine", {}, ["history"])
    assert "history" in {task["basename"] for task in opened.tasks()}
