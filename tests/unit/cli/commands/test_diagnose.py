"""`doit diagnose` for a given log and for the last failure."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.cli.commands import diagnose, doctor
from tasks.core.errors import TorchyardError
from tasks.core.model import Stage
from tasks.core.project import Project
from tasks.diagnosis.run_facts import RunFacts
from tasks.doctor.check_result import CheckResult, report_problem
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog import memory_monitor_io
from tests.support.checkout import ROOT, opened, write
from tests.support.systems import needs_links, posix_only

ARCH = "k.cu\nnvcc fatal   : Unsupported gpu architecture 'compute_120'\nninja: build stopped: x.\n"


@pytest.fixture(autouse=True)
def gate(monkeypatch: pytest.MonkeyPatch) -> list[CheckResult]:
    """Findings of the doctor; initially none."""
    found: list[CheckResult] = []
    monkeypatch.setattr(doctor, "run_host_checks", lambda *_: tuple(found))
    return found


def broken() -> SelectedProfile:
    problem = TorchyardError("it is broken", location="config")
    return SelectedProfile(Project.of_checkout(ROOT), "nothing", None, problem)


def written(folder: Path, name: str, text: str, time: int = 1) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (time, time))
    return path


def test_diagnosis_shows_first_error_cause_remedy_and_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path, "a.log", ARCH)
    diagnose.run(broken(), log=str(log))
    said = capsys.readouterr().out
    places = [said.index(word) for word in ("first error  nvcc fatal", "line 2 of the log")]
    places += [said.index(word) for word in ("cause        ", "to do", str(log))]
    assert places == sorted(places)


@pytest.mark.parametrize(("columns", "widest"), [(60, 60), (300, 100), (1, 40)])
def test_output_lines_fit_terminal_up_to_a_maximum_width(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    widest: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    diagnose.run(broken(), log=str(written(tmp_path, "a.log", "words " * 9 + "Killed\n" + ARCH)))
    lines = [line for line in capsys.readouterr().out.splitlines() if " " in line[13:].strip()]
    assert widest - 15 < max(map(len, lines)) <= widest


def test_diagnosis_is_available_as_json(tmp_path: Path) -> None:
    log = written(tmp_path, "a.log", "a.cpp:7:1: fatal error: glm/a.hpp: No such file or directory")
    diagnose.run(broken(), log=str(log), json=str(tmp_path / "out.json"))
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert found["cause"] == "missing-submodule-headers"
    assert found["candidates"] == ["missing-submodule-headers"]
    assert found["first_error"]["file"] == "a.cpp"
    assert found["first_error"]["line"] == 7
    assert found["first_error"]["text"].startswith("a.cpp:7:1: fatal error")
    assert found["remedy"]
    assert found["evidence"].startswith("unverified: as in pytorch/pytorch#25002")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.cpp:7:1: error: expected ';'\n", "cause        the compiler "),
        ("[1/1] Linking a.so\n", "no failure found: the log contains no error"),
    ],
)
def test_uncertain_cause_is_reported_as_uncertain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    diagnose.run(broken(), log=str(written(tmp_path, "a.log", text)))
    assert said in capsys.readouterr().out


def test_machine_of_foreign_log_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"/usr/lib/python3.10/site-packages/torch\n/usr/local/cuda-11.8/bin/nvcc\n{ARCH}"
    log = written(tmp_path, "a.log", text)
    diagnose.run(broken(), log=str(log), json=str(tmp_path / "out.json"))
    assert capsys.readouterr().out.startswith("log of       Linux, Python 3.10, CUDA 11.8\n")
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert found["machine"] == {"system": "Linux", "Python": "3.10", "CUDA": "11.8"}


def test_log_of_successful_build_has_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "a.cpp:3: warning: x\nerror: invalid command 'x'\nSuccessfully installed a-1.0\n"
    diagnose.run(broken(), log=str(written(tmp_path, "a.log", text)))
    said = capsys.readouterr().out
    assert said.startswith("result       no failure found: the log contains no error")
    assert "to do" not in said


def subject_of(root: Path, *named: tuple[str, str]) -> SelectedProfile:
    """Return a profile whose stages have these names and logs."""
    shutil.copytree(ROOT / "config", root / "config", ignore=shutil.ignore_patterns("local*"))
    write(root, "target: {gpus: ['12.0']}\n", "p")
    subject = opened(root, "p")
    build = root / "build" / "p"
    assert subject.opened is not None
    stages = tuple(
        Stage(
            name=name,
            kind=name,
            doc="",
            job=SimpleNamespace(log=build / "logs" / log, tree=build / "src"),
            fingerprint={},
            outputs=(build / f"{name}.json",),
        )
        for name, log in named
    )
    plan = replace(subject.opened.plan, stages=stages)
    return replace(subject, opened=replace(subject.opened, plan=plan))


def test_default_log_is_that_of_last_failed_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = tmp_path / "build" / "p"
    written(build, "logs/compile.log", "Killed\n", time=10)
    written(build, "logs/wheel.log", "a: No space left on device\n", time=20)
    written(build, "wheel.json", "{}")
    diagnose.run(subject_of(tmp_path, ("compile", "compile.log"), ("wheel", "wheel.log")))
    said = capsys.readouterr().out
    assert "memory ran out, and" in said
    assert str(build / "logs" / "compile.log") in said


@needs_links
def test_default_log_of_broken_profile_is_the_newest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "build/p/logs/deps.log", "Killed\n", time=10)
    written(tmp_path, "build/p/logs/wheel.log", "a: No space left on device\n", time=20)
    (tmp_path / "config").symlink_to(ROOT / "config")
    problem = TorchyardError("it is broken", location="config")
    diagnose.run(SelectedProfile(Project.of_checkout(tmp_path), "p", None, problem))
    assert "a disk is full" in capsys.readouterr().out


def recorded(build: Path, *stages: dict[str, Any]) -> None:
    """Write the record of the newest run, in which these stages failed."""
    lines = [{"event": "begin", "schema": 1, "when": "2026-11-22T03:40:27+00:00", "pid": 4_000_000}]
    lines += [{"event": "done", "at": 1.0, "outcome": "failed", **one} for one in stages]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    written(build, "records/runs/20261122T034027Z-4000000.jsonl", text)


def test_stage_that_failed_without_log_is_diagnosed_from_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"what": "3 GiB are free", "where": "/yard/build", "todo": "free some room"}
    recorded(tmp_path / "build" / "p", {"stage": "deps", "error": error})
    diagnose.run(subject_of(tmp_path, ("deps", "deps.log")), json=str(tmp_path / "out.json"))
    assert capsys.readouterr().out.splitlines() == [
        "stage        deps",
        "error        3 GiB are free",
        "where        /yard/build",
        "to do        free some room",
    ]
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (found["cause"], found["remedy"]) == (None, "free some room")


def test_failed_stages_of_newest_run_take_precedence_over_newer_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = tmp_path / "build" / "p"
    written(build, "logs/deps.log", "a: No space left on device\n", time=20)
    log = written(build, "logs/compile.log", "Killed\n", time=10)
    ended = {"what": "it failed", "where": f"{log}:1", "todo": "as it was said"}
    refused = {"error": {"what": "no git", "where": "", "todo": "install it"}}
    recorded(
        build,
        {"stage": "compile", "error": ended, "diagnosis": {"log": str(log)}},
        {"stage": "extensions:a", **refused},
        {"stage": "extensions:b", **refused},
    )
    diagnose.run(subject_of(tmp_path, ("deps", "deps.log"), ("compile", "compile.log")))
    said = capsys.readouterr().out
    assert "memory ran out, and" in said
    assert "to do        as it was said" in said
    assert "stage        extensions:a, extensions:b\nerror        no git\n" in said
    assert "deps.log" not in said


def test_problems_that_prevent_a_build_are_reported_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gate: list[CheckResult]
) -> None:
    gate.append(report_problem("disk", "3 GiB are free", "  free some room"))
    subject = subject_of(tmp_path, ("compile", "compile.log"))
    diagnose.run(subject)
    said = capsys.readouterr().out
    assert said == "doctor       disk: 3 GiB are free\nto do        free some room\n"
    written(tmp_path / "build" / "p", "logs/compile.log", "Killed\n")
    diagnose.run(subject)
    then = capsys.readouterr().out
    assert then.startswith(said)
    assert "memory ran out, and" in then


def test_broken_settings_are_reported_before_an_old_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").symlink_to(ROOT / "config")
    error = TorchyardError(
        "no such card", location="config/local.yaml: target.gpus", hint="name one"
    )
    diagnose.run(SelectedProfile(Project.of_checkout(tmp_path), "p", None, error))
    assert capsys.readouterr().out.splitlines() == [
        "settings     config/local.yaml: target.gpus: no such card",
        "to do        name one",
    ]


def test_recorded_memory_facts_show_who_killed_the_compiler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path / "build" / "p", "logs/compile.log", "FAILED: a.o\nKilled\n")
    subject = subject_of(tmp_path, ("compile", "compile.log"))
    size = log.stat().st_size
    memory_monitor_io.write_facts(
        log, RunFacts(size=size, kills=0, lowest_mib=20_000, limit_mib=24_000, jobs=8)
    )
    diagnose.run(subject)
    assert "a user or a time limit interrupted" in capsys.readouterr().out
    memory_monitor_io.write_facts(
        log, RunFacts(size=size, kills=2, lowest_mib=100, limit_mib=24_000, jobs=8)
    )
    diagnose.run(subject)
    said = " ".join(capsys.readouterr().out.split())
    assert "memory ran out, and" in said
    assert "the kernel killed 2 programs because memory ran out" in said
    assert "in config/profiles/p.yaml: 8 jobs ran at once with" in said
    log.write_text("FAILED: a.o\nKilled\nKilled\n", encoding="utf-8")
    diagnose.run(subject)  # the facts belong to another log now
    assert "only the log, which" in capsys.readouterr().out


def test_no_failure_is_reported_with_searched_locations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = subject_of(tmp_path, ("wheel", "wheel.log"))
    diagnose.run(subject, json=str(tmp_path / "out.json"))
    said = capsys.readouterr().out
    assert "no failed run" in said
    for folder in (subject.build / "records" / "runs", subject.build / "logs"):
        assert str(folder) in said
    assert "doit diagnose --log FILE" in said
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (found["cause"], found["log"]) == (None, None)
    assert found["where"] == "no failed run"


@posix_only
def test_log_is_read_from_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=(ARCH,), daemon=True)
    writing.start()
    diagnose.run(broken(), log=str(pipe))
    writing.join()
    said = capsys.readouterr().out
    assert "cause        " in said
    assert "".join(said.split()).endswith(f"wholelog{pipe}")


@posix_only
def test_log_path_is_relative_to_invocation_directory(tmp_path: Path) -> None:
    log = written(tmp_path / "here", "a.log", ARCH)
    shutil.copytree(ROOT / "config", tmp_path / "config")
    dodo = shutil.copy(ROOT / "dodo.py", tmp_path)
    found = subprocess.run(
        [sys.executable, "-m", "doit", "-f", dodo, "diagnose", "--log", log.name],
        cwd=log.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TORCHYARD_PROFILE": "no-such-profile"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "cause        " in found.stdout
    assert str(log) in "".join(found.stdout.split())
