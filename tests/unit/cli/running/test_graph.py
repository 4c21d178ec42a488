"""The graph as run by doit itself, including the pitfalls of doit 0.37."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain

from tasks.cli.running import doit_adapter, execute, rebuild_reason
from tasks.cli.running.doit_adapter import build_reporter_class
from tasks.cli.running.doit_tasks import generate_stage_tasks
from tasks.cli.running.execute import Session
from tasks.cli.running.run_boundaries import finalize_run
from tasks.core.errors import TorchyardError
from tasks.core.model import Layout, Plan, Stage
from tasks.core.project import Project
from tasks.runlog.run_record_io import RunRecorder
from tasks.settings.schema import Notify
from tasks.system import files, manifests
from tasks.system.console import Console
from tests.support.plugins import PLUGINS


@dataclass(frozen=True)
class Output:
    """Output of a stage in these tests."""

    value: str


class Bench:
    """A plan of two dependent stages whose actions come from the test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.layout = Layout(Project.of_checkout(folder), "trial", folder / "wheelhouse")
        self.ran: list[str] = []
        self.acts: dict[str, Callable[[], Any]] = {}
        self.inputs: dict[str, Any] = {"flag": "A"}
        self.asks: Literal["", "always", "stale"] = ""
        self.moved = False
        self.more: tuple[Stage, ...] = ()
        self.gate: Callable[[], None] = lambda: None
        self.notify = Notify()
        self.healed = ""
        self.records = self.layout.build / "records" / "runs"
        monkeypatch.setattr(execute, "load_stage_module", self._load_module)
        monkeypatch.setattr(rebuild_reason, "load_stage_module", self._load_module)
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        self.out = io.StringIO()

    def _load_module(self, stage: Stage, _: str) -> Any:
        def run(_: Any) -> tuple[Output, ...]:
            self.ran.append(stage.name)
            return (Output(self.acts.get(stage.name, lambda: "same")()),)

        return SimpleNamespace(run=run, is_stale=lambda _: self.moved)

    def stage(self, name: str, *reads: str) -> Stage:
        paths = tuple(self.layout.compute_manifest_path(read) for read in reads)
        asks: Literal["", "always", "stale"] = self.asks if name == "deps" else ""
        room = name.partition(":")[0]
        inputs = self.inputs if name == "deps" else {}
        leaves = (self.layout.compute_manifest_path(name),)
        return Stage(name, room, f"{name}!", None, inputs, leaves, paths, (), asks)

    def doit(self, *argv: str) -> int:
        stages = (self.stage("deps"), self.stage("wheel", "deps"), *self.more)
        absent = {"source": "it has none", "compile": "it has none"}
        plan = Plan(stages, self.stage("validate"), (("profile", "trial"),), absent)
        self.out = io.StringIO()
        console, selected = Console(plan, self.out), set[str]()
        graph = [{"name": stage.name, "after": []} for stage in stages]
        record = RunRecorder(
            self.records,
            lambda: {"command": sorted(selected), "profile": "trial", "stages": graph},
        )
        yard = Session(plan, self.layout, console, lambda: None, self.gate)
        yard.attempt = lambda stage, run: (run(stage.job), self.healed)
        yard.selected, yard.record, yard.notify = selected, record, self.notify

        def task_all() -> Iterator[dict[str, Any]]:
            yield from generate_stage_tasks(yard)

        self.ran.clear()
        config = {
            "default_tasks": ["build"],
            "backend": "sqlite3",
            "dep_file": str(Path(self.layout.root) / "db"),
            "reporter": build_reporter_class(
                console, selected, lambda code: finalize_run(yard, code)
            ),
            "verbosity": 2,
            "continue": True,
        }
        tasks = {"task_all": task_all, "DOIT_CONFIG": config}
        try:
            doit = DoitMain(ModuleTaskLoader(tasks), extra_config=PLUGINS)
            return int(doit.run(list(argv)) or 0)
        finally:
            yard.lock_stack.close()

    def text(self, name: str) -> str:
        return Path(self.layout.compute_manifest_path(name)).read_text()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_second_run_does_nothing_and_reports_it(bench: Bench) -> None:
    assert bench.doit() == 0
    assert bench.ran == ["deps", "wheel"]
    assert bench.doit("build") == 0
    assert bench.ran == []
    assert "Up to date" in bench.out.getvalue()


def test_plain_doit_builds_and_validate_builds_nothing(bench: Bench) -> None:
    assert bench.doit() == 0
    assert bench.ran == ["deps", "wheel"]
    bench.inputs = {"flag": "B"}
    assert bench.doit("validate") == 0
    assert bench.ran == ["validate"]


def test_validate_without_a_build_creates_no_build_directory(bench: Bench) -> None:
    def no_torch() -> None:
        raise TorchyardError("profile trial has no torch yet", hint="doit build profile=trial")

    bench.acts["validate"] = no_torch
    assert bench.doit("validate") == 1
    assert "profile trial has no torch yet" in bench.out.getvalue()
    assert not Path(bench.layout.build).exists()
    bench.doit("build")
    assert bench.doit("validate") == 1
    assert (Path(bench.layout.build) / "CACHEDIR.TAG").exists()


def test_run_header_is_written_once_before_any_work(bench: Bench) -> None:
    bench.doit()
    lines = bench.out.getvalue().splitlines()
    assert lines[0].split() == ["profile", "trial"]
    assert bench.out.getvalue().count("profile trial") == 1


def test_changed_input_causes_rerun_and_is_reported_as_reason(bench: Bench) -> None:
    bench.doit()
    bench.inputs = {"flag": "B"}
    bench.doit()
    assert bench.ran == ["deps"]
    assert "flag: now B, was A" in bench.out.getvalue()


def test_new_token_for_same_index_causes_no_rebuild(bench: Bench) -> None:
    bench.inputs = {"index": "https://index.example/simple?token=hunter2"}
    bench.doit()
    bench.inputs = {"index": "https://index.example/simple?token=hunter3"}
    bench.ran.clear()
    bench.doit()
    assert bench.ran == []


def test_identical_outputs_stop_downstream_rebuild(bench: Bench) -> None:
    bench.doit()
    bench.inputs = {"flag": "B"}
    bench.acts["deps"] = lambda: "same"
    bench.doit()
    assert bench.ran == ["deps"]
    bench.inputs = {"flag": "C"}
    bench.acts["deps"] = lambda: "other"
    bench.doit()
    assert bench.ran == ["deps", "wheel"]
    assert "deps.json changed" in bench.out.getvalue()


def test_interrupted_rebuild_is_stale_even_with_old_settings_restored(
    bench: Bench,
) -> None:
    bench.doit()

    def interrupted() -> str:
        raise SystemExit(143)

    bench.inputs = {"flag": "B"}
    bench.acts["deps"] = interrupted
    with pytest.raises(SystemExit):
        bench.doit()
    assert not Path(bench.layout.compute_manifest_path("deps")).exists()
    bench.inputs = {"flag": "A"}
    bench.acts["deps"] = lambda: "same"
    assert bench.doit() == 0
    assert bench.ran == ["deps"]


def test_expected_failure_exits_with_1_and_no_traceback(bench: Bench) -> None:
    def fail() -> str:
        raise TorchyardError("the wheel is wrong", location="a.log:3", hint="do this")

    bench.acts["wheel"] = fail
    assert bench.doit() == 1
    shown = bench.out.getvalue()
    assert "a.log:3: the wheel is wrong" in shown
    assert "→ do this" in shown
    assert "Traceback" not in shown
    assert bench.text("deps")


def test_hint_with_profile_is_shown_and_recorded(bench: Bench) -> None:
    def fail() -> str:
        raise TorchyardError("the wheel is wrong", hint="doit clean wheel, then doit build")

    bench.acts["wheel"] = fail
    assert bench.doit() == 1
    todo = "doit clean wheel profile=trial, then doit build profile=trial"
    assert f"→ {todo}" in " ".join(bench.out.getvalue().split())
    (record,) = Path(bench.records).iterdir()
    assert todo in record.read_text(encoding="utf-8")


def test_gate_failure_hint_names_the_profile(bench: Bench) -> None:
    def stop() -> None:
        raise TorchyardError("it cannot be built here", hint="doit doctor --accept")

    bench.gate = stop
    assert bench.doit() == 1
    assert "→ doit doctor --accept profile=trial" in bench.out.getvalue()


def test_second_run_reports_busy_once_and_fails_no_stage(bench: Bench) -> None:
    bench.doit()
    bench.inputs = {"flag": "B"}
    bench.acts["deps"] = lambda: "other"
    bench.more = (bench.stage("extensions:toy"),)
    with files.lock_folder(bench.layout.build):
        assert bench.doit() == 1
    shown = bench.out.getvalue()
    assert bench.ran == []
    assert "Failed" not in shown
    assert [line.split() for line in shown.splitlines() if "Busy" in line] == [["Busy", "trial"]]
    assert shown.count("is using this folder") == 1
    assert f"end process {os.getpid()}; then run the same command again" in shown


def test_stage_runs_without_an_optional_manifest_and_the_run_fails(bench: Bench) -> None:
    good, bad, after = (bench.stage(f"extensions:{name}") for name in ("good", "bad", "after"))
    after = replace(after, inputs=bad.outputs)
    may_lack = (*good.outputs, *bad.outputs, *after.outputs)
    reads = (bench.layout.compute_manifest_path("wheel"), *may_lack)
    install = replace(bench.stage("install"), job=SimpleNamespace(into="x"), inputs=reads)
    bench.more = (good, bad, after, replace(install, optional_inputs=may_lack))

    def fail() -> str:
        raise TorchyardError("it does not compile")

    bench.acts["extensions:bad"] = fail
    for command in ("build", "install"):
        assert bench.doit(command) == 1
        assert bench.ran[-1] == "install"
        assert "extensions:after" not in bench.ran
        assert bench.out.getvalue().count("it does not compile") == 1
        assert bench.text("install")
    bench.acts["extensions:bad"] = lambda: "better"
    assert bench.doit("install") == 0
    assert bench.ran == ["extensions:bad", "extensions:after", "install"]
    assert "bad.json" in bench.out.getvalue()
    assert bench.doit() == 0
    assert bench.ran == []
    bench.acts["extensions:good"] = lambda: "other"
    Path(good.outputs[0]).unlink()
    assert bench.doit() == 0
    assert bench.ran == ["extensions:good", "install"]


def test_internal_error_exits_with_2_and_keeps_traceback(bench: Bench) -> None:
    def bug() -> str:
        raise ZeroDivisionError("ours")

    bench.acts["wheel"] = bug
    assert bench.doit() == 2
    assert "ZeroDivisionError" in bench.out.getvalue()


def test_full_disk_is_reported_as_such(bench: Bench) -> None:
    def full() -> str:
        raise OSError(28, "No space left on device", "/somewhere")

    bench.acts["wheel"] = full
    assert bench.doit() == 1
    assert "the disk is full" in bench.out.getvalue()


def test_unwritable_directory_is_reported_as_such(bench: Bench) -> None:
    def locked() -> str:
        raise OSError(30, "Read-only file system", "/wheelhouse/x.whl")

    bench.acts["wheel"] = locked
    assert bench.doit() == 1
    assert "/wheelhouse/x.whl: read-only file system" in bench.out.getvalue()
    assert "Traceback" not in bench.out.getvalue()


def test_always_run_stage_causes_no_downstream_rerun(bench: Bench) -> None:
    bench.asks = "always"
    bench.doit()
    bench.doit()
    assert bench.ran == ["deps"]
    assert "Unchanged deps" in " ".join(bench.out.getvalue().split())
    assert "Up to date" in bench.out.getvalue()


def test_stage_with_uptodate_check_runs_only_on_change(bench: Bench) -> None:
    bench.asks = "stale"
    bench.doit()
    bench.doit()
    assert bench.ran == []
    bench.moved = True
    bench.doit()
    assert bench.ran == ["deps"]


def test_lost_database_causes_a_rerun_and_no_other_loss(bench: Bench) -> None:
    bench.doit()
    (Path(bench.layout.root) / "db").unlink()
    assert bench.doit() == 0
    assert bench.ran == ["deps", "wheel"]


def test_clean_removes_only_manifests(bench: Bench) -> None:
    bench.doit()
    kept = Path(bench.layout.build) / "work"
    kept.write_text("hours")
    assert bench.doit("clean") == 0
    assert not Path(bench.layout.compute_manifest_path("wheel")).exists()
    assert kept.exists()


def test_stage_absent_from_strategy_explains_why(bench: Bench) -> None:
    assert bench.doit("compile") == 0
    assert "not part of this profile: it has none" in bench.out.getvalue()


def test_record_holds_reason_and_duration_but_manifest_does_not(bench: Bench) -> None:
    bench.doit()
    record = json.loads(
        Path(manifests.build_record_path(bench.layout.compute_manifest_path("wheel"))).read_text()
    )
    assert record["reason"] == "first time"
    assert record["seconds"] >= 0
    assert set(json.loads(bench.text("wheel"))) == {"value"}


def test_task_names_do_not_clash_with_doit_commands(bench: Bench) -> None:
    taken = set(DoitMain(ModuleTaskLoader({})).get_cmds().to_dict())
    stages = {"deps", "source", "env", "compile", "wheel", "extensions", "validate"}
    assert not taken & (stages | {"build", "doctor", "settings", "purge", "check"})


def test_extensions_group_is_built_and_cleaned_together(bench: Bench) -> None:
    bench.more = (bench.stage("extensions:a", "wheel"), bench.stage("extensions:b", "wheel"))
    assert bench.doit("extensions") == 0
    assert bench.ran[:2] == ["deps", "wheel"]
    assert set(bench.ran[2:]) == {"extensions:a", "extensions:b"}  # doit does not keep their order
    assert bench.doit("clean", "extensions") == 0
    assert not Path(bench.layout.compute_manifest_path("extensions:a")).exists()
    assert Path(bench.layout.compute_manifest_path("wheel")).exists()
    assert bench.doit("extensions:b") == 0
    assert bench.ran == ["extensions:b"]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGHUP")
def test_closed_terminal_ends_run_unless_under_nohup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)
    assert signal.SIGHUP in doit_adapter.list_exit_signals()
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    assert signal.SIGHUP not in doit_adapter.list_exit_signals()


def test_signal_after_the_run_is_ignored(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, object] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    bench.acts["deps"] = lambda: str(signal.SIG_IGN in handlers.values())
    assert bench.doit() == 0
    assert "False" in bench.text("deps")
    assert {handlers[number] for number in doit_adapter.list_exit_signals()} == {signal.SIG_IGN}


def test_doctor_problem_stops_build_and_writes_nothing(bench: Bench, tmp_path: Path) -> None:
    def stop() -> None:
        raise TorchyardError("1 problem: disk", hint="doctor.ignore: [disk]")

    bench.gate = stop
    assert bench.doit("build") == 1
    assert bench.ran == []
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} <= {"db", "db-wal"}
    assert "1 problem: disk" in bench.out.getvalue()
    assert "doctor.ignore: [disk]" in bench.out.getvalue()


def test_doctor_findings_are_reported_once_for_all_blocked_stages(bench: Bench) -> None:
    requested: list[str] = []

    def stop() -> None:
        requested.append("now")
        raise TorchyardError("1 problem: disk", hint="doctor.ignore: [disk]")

    bench.gate = stop
    bench.more = (bench.stage("source"), bench.stage("env"))
    assert bench.doit("build") == 1
    assert bench.ran == []
    assert bench.out.getvalue().count("1 problem: disk") == 1
    assert requested == ["now"]


def test_up_to_date_build_does_not_run_doctor(bench: Bench) -> None:
    requested: list[str] = []
    bench.gate = lambda: requested.append("now")
    bench.doit()
    assert requested == ["now"], "once, whatever the number of stages"
    bench.doit()
    assert requested == ["now"]
    bench.inputs = {"flag": "B"}
    bench.doit()
    assert requested == ["now", "now"]


def test_read_only_stage_does_not_run_doctor(bench: Bench) -> None:
    requested: list[str] = []
    bench.gate = lambda: requested.append("now")
    bench.asks = "always"
    bench.doit()
    assert requested == ["now"], "the first time it makes what it looks at later"
    bench.doit()
    bench.doit("validate")
    assert requested == ["now"]
