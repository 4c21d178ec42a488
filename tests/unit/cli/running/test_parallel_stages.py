"""Parallel stages as run by doit itself: concurrency, dependencies and failures."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from doit.exceptions import TaskFailed

from tasks.cli.running import execute
from tasks.cli.running.execute import ParallelStages
from tasks.core.errors import InterruptedRunError, TorchyardError
from tasks.core.model import Command, Stage
from tasks.system import shell
from tasks.system.hardware import capacity
from tasks.system.output import print_line
from tests.unit.cli.running.test_graph import Bench

PATIENCE = 120.0  # seconds until a hang is assumed


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(capacity, "count_usable_cores", lambda: 2)
    return Bench(tmp_path, monkeypatch)


def extensions(bench: Bench, *names: str, after: dict[str, str] | None = None) -> None:
    order = after or {}
    bench.more = tuple(
        bench.stage(
            f"extensions:{name}", "wheel", *([f"extensions:{order[name]}"] if name in order else ())
        )
        for name in names
    )


def meeting(*names: str) -> dict[str, Callable[[], str]]:
    """Return actions that finish only if all of them run at the same time."""
    there = threading.Barrier(len(names))

    def act() -> str:
        there.wait(PATIENCE)
        return "same"

    return {f"extensions:{name}": act for name in names}


def failing() -> str:
    raise TorchyardError("it does not compile", location="x.log:3", hint="mend it")


def test_independent_extensions_run_in_parallel(bench: Bench) -> None:
    extensions(bench, "a", "b")
    bench.acts = meeting("a", "b")
    assert bench.doit() == 0
    assert bench.doit() == 0
    assert bench.ran == []
    assert "Up to date" in bench.out.getvalue()


def test_dependent_extension_finds_outputs_of_its_dependency(bench: Bench) -> None:
    extensions(bench, "a", "b", "c", after={"b": "a"})
    left = bench.layout.compute_manifest_path("extensions:a")
    seen: list[bool] = []

    def look() -> str:
        seen.append(Path(left).is_file())
        return "same"

    bench.acts = {"extensions:b": look}
    assert bench.doit() == 0
    assert seen == [True]
    assert bench.ran.index("extensions:a") < bench.ran.index("extensions:b")


def test_dependent_extension_starts_as_soon_as_its_dependency_ends(bench: Bench) -> None:
    extensions(bench, "a", "slow", "b", after={"b": "a"})
    bench.acts = meeting("slow", "b")  # doit reaches b only after slow has finished
    assert bench.doit() == 0


def test_failed_extension_does_not_stop_others(bench: Bench) -> None:
    extensions(bench, "a", "b", "c", after={"c": "a"})
    bench.acts = {"extensions:a": failing}
    assert bench.doit() == 1
    assert "extensions:b" in bench.ran
    assert "extensions:c" not in bench.ran
    output = bench.out.getvalue()
    assert output.count("Failed extensions:a") == 1
    assert "x.log:3: it does not compile\n  → mend it" in output
    assert "extensions:c" not in output
    bench.acts = {}
    assert bench.doit() == 0
    assert sorted(bench.ran) == ["extensions:a", "extensions:c"]


def test_failure_is_reported_immediately(bench: Bench) -> None:
    extensions(bench, "slow", "a")
    result = threading.Event()

    def slow() -> str:
        while "it does not compile" not in bench.out.getvalue():
            assert not result.wait(0.01)
        return "same"

    bench.acts = {"extensions:slow": slow, "extensions:a": failing}
    assert bench.doit() == 1


def test_only_requested_extension_and_its_dependencies_run(bench: Bench) -> None:
    extensions(bench, "a", "b", "c", after={"c": "a"})
    assert bench.doit("extensions:c") == 0
    assert bench.ran == ["deps", "wheel", "extensions:a", "extensions:c"]


def test_parallel_output_lines_are_prefixed_with_the_stage(bench: Bench) -> None:
    extensions(bench, "a", "b")
    there, result = threading.Barrier(2), threading.Barrier(2)

    def act(text: str) -> Callable[[], str]:
        def run() -> str:
            there.wait(PATIENCE)
            print_line(text)
            result.wait(PATIENCE)
            return "same"

        return run

    bench.acts = {"extensions:a": act("one"), "extensions:b": act("two")}
    assert bench.doit() == 0
    assert "a: one\n" in bench.out.getvalue()
    assert "b: two\n" in bench.out.getvalue()


def test_internal_error_in_one_extension_exits_2_and_others_finish(bench: Bench) -> None:
    extensions(bench, "a", "b")

    def bug() -> str:
        raise ZeroDivisionError

    bench.acts = {"extensions:a": bug}
    assert bench.doit() == 2
    assert "extensions:b" in bench.ran


@dataclass
class Interrupt:
    """A run of two commands that the user interrupts while both are running."""

    stopped: bool = False


def stage(name: str) -> Stage:
    return Stage(name, "extensions", "", None, {}, (PurePosixPath(f"/b/{name}.json"),))


@pytest.mark.skipif(sys.platform == "win32", reason="not run: there is no alarm")
def test_interrupt_ends_all_stages_and_starts_no_other(tmp_path: Path) -> None:
    run, ended, ready = Interrupt(), list[str](), list[int]()
    both = threading.Barrier(3)

    def act(one: Stage) -> TaskFailed | None:
        command = Command(("sh", "-c", "echo up; exec sleep 600"), shell.build_host_env(), one.name)
        try:
            shell.run_command(command, lambda _: ready.append(both.wait(PATIENCE)))
        except InterruptedRunError:
            ended.append(one.name)
        return None

    stages = tuple(map(stage, "abc"))
    together = ParallelStages(stages, act, lambda _: True, lambda: run.stopped, most=2)

    def interrupt(*_: Any) -> None:
        from tasks.system import process_group  # noqa: PLC0415 - as the reporter does it

        run.stopped = True
        process_group.interrupt_all()
        raise SystemExit(130)

    before = signal.signal(signal.SIGALRM, interrupt)
    beside = threading.Thread(target=lambda: (both.wait(PATIENCE), signal.alarm(1)))
    beside.start()
    try:
        with pytest.raises(SystemExit):
            together.wait_for_stage(stages[0])
    finally:
        signal.signal(signal.SIGALRM, before)
        beside.join()
    assert sorted(ended) == ["a", "b"]


def test_number_of_parallel_stages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "count_usable_cores", lambda: 64)
    at_work, most = 0, 0
    lock, two = threading.Lock(), threading.Barrier(2)

    def act(_: Stage) -> TaskFailed | None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        two.wait(PATIENCE)
        with lock:
            at_work -= 1
        return None

    stages = tuple(stage(str(number)) for number in range(12))
    together = ParallelStages(
        stages, act, lambda _: True, lambda: False, most=execute._MAX_PARALLEL
    )
    for one in stages:
        together.wait_for_stage(one)
    assert 1 < most <= execute._MAX_PARALLEL
