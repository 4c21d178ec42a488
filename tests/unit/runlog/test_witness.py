"""What is seen of the memory while a stage is at work, with a /proc that the test writes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tasks.diagnosis.run_facts import RunFacts
from tasks.runlog import memory_monitor_io
from tasks.runlog.memory_monitor_io import MemoryMonitor
from tests.support.sleepers import wait_for


def proc(folder: Path, available: int, kills: int | None = None) -> Path:
    meminfo = f"MemTotal: {24_000 * 1024} kB\nMemAvailable: {available * 1024} kB\n"
    (folder / "meminfo").write_text(meminfo, encoding="ascii")
    if kills is not None:
        (folder / "vmstat").write_text(f"nr_free 1\noom_kill {kills}\n", encoding="ascii")
    return folder


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "compile.log"
    path.parent.mkdir()
    path.write_text("Killed\n", encoding="utf-8")
    return path


def test_the_least_memory_and_the_kills_meanwhile_are_told(tmp_path: Path, log: Path) -> None:
    monitor = MemoryMonitor(proc(tmp_path, 20_000, kills=7))
    with monitor.observe_memory() as seen:
        proc(tmp_path, 300)
        monitor.read_memory()
        proc(tmp_path, 22_000, kills=9)
        monitor.read_memory()
    facts = seen.collect_facts(log)
    assert (facts.kills, facts.lowest_mib, facts.limit_mib) == (2, 300, 24_000)
    assert facts.size == log.stat().st_size
    assert facts.free_mib


@pytest.mark.parametrize(
    ("available", "kills", "short"), [(20_000, 7, False), (20_000, 8, True), (9_000, None, None)]
)
def test_whether_memory_was_short_is_told_at_any_time(
    tmp_path: Path, available: int, kills: int | None, short: bool | None
) -> None:
    monitor = MemoryMonitor(proc(tmp_path, available, kills=None if kills is None else 7))
    with monitor.observe_memory() as seen:
        proc(tmp_path, available, kills)
        assert seen.is_memory_short() is short


def test_where_nobody_counts_the_kills_are_not_known(tmp_path: Path, log: Path) -> None:
    with MemoryMonitor(proc(tmp_path, 20_000)).observe_memory() as seen:
        assert seen.collect_facts(log).kills is None


def test_it_looks_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_monitor_io, "_POLL_INTERVAL", 0.01)
    monitor = MemoryMonitor(proc(tmp_path, 20_000))
    with monitor.observe_memory() as seen:
        proc(tmp_path, 5)
        wait_for(lambda: seen.lowest_mib == 5)


def test_one_thread_measures_for_all_and_a_new_observer_sees_what_is_there_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_monitor_io, "_POLL_INTERVAL", 60.0)
    monitor = MemoryMonitor(proc(tmp_path, 300))
    with monitor.observe_memory() as stage:
        proc(tmp_path, 20_000)
        with monitor.observe_memory() as build:
            proc(tmp_path, 9_000)
            assert [thread.name for thread in threading.enumerate()].count("memory") == 1
            assert monitor.read_memory(60).available_mib == 20_000
            assert monitor.read_memory().available_mib == 9_000
    assert (stage.lowest_mib, build.lowest_mib) == (300, 9_000)
    wait_for(lambda: "memory" not in {thread.name for thread in threading.enumerate()})
    proc(tmp_path, 8_000)
    assert monitor.read_memory(60).available_mib == 8_000, "nobody observes: measured directly"


def test_facts_are_kept_for_the_log_as_it_is(log: Path) -> None:
    facts = RunFacts(log.stat().st_size, 3, -9, 1, 2, 3, 4, 8, "/usr/bin/g++ 13.2")
    memory_monitor_io.write_facts(log, facts)
    assert memory_monitor_io.read_facts(log) == facts
    log.write_text("another run\n", encoding="utf-8")
    assert memory_monitor_io.read_facts(log) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"size": "x"}'])
def test_facts_that_cannot_be_read_are_none(log: Path, text: str) -> None:
    log.with_suffix(".facts.json").write_text(text, encoding="utf-8")
    assert memory_monitor_io.read_facts(log) is None
