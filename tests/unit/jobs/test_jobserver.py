"""Tests of the jobserver with a real pipe and a real Ninja."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest

from tasks.core.build_activity import BuildSnapshot, GovernorDecision
from tasks.jobs import job_processes_io, jobserver_io
from tasks.settings.compile_workers import DISTRIBUTE_VARIABLE
from tasks.system import process_group
from tests.support.checkout import Heard
from tests.support.sleepers import NINJA, Build, at_once_in, wait_for, watching
from tests.support.systems import linux_only, posix_only

TICK = 0.05


@pytest.mark.parametrize(
    ("version", "is_usable"),
    [
        ("1.13.0", True),
        ("1.13.2.git.kitware.jobserver-pipe-1", True),
        ("2.0", True),
        ("1.12.1", False),
        ("1.9", False),
        ("ninja", False),
    ],
)
def test_ninja_supports_jobserver_from_1_13(version: str, is_usable: bool) -> None:
    assert jobserver_io.is_supported_ninja(version) == is_usable


def test_installed_ninja_supports_jobserver() -> None:
    version = subprocess.run([NINJA, "--version"], capture_output=True, text=True, check=True)
    assert jobserver_io.is_supported_ninja(version.stdout.strip())


@posix_only
def test_regenerating_build_ninja_leaks_no_token(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 8)
    own = build.folder / "build.ninja"
    names = [f"part{number}.txt" for number in range(3)]
    for name in names:  # like PyTorch's code generation, on which its build.ninja depends
        (build.folder / name).touch()
    lines = ["rule make", f"  command = sleep {12 * TICK}; touch $out", "  restat = 1"]
    lines += [f"build {name}: make seed" for name in names]
    lines += ["rule own", "  command = touch $out", "  generator = 1"]
    lines += [f"build build.ninja: own {' '.join(names)}", "default " + " ".join(build.objects)]
    own.write_text(own.read_text(encoding="utf-8") + "\n".join(lines) + "\n", encoding="utf-8")
    time.sleep(0.02)
    (build.folder / "seed").touch()
    with jobserver_io.join_jobserver(
        tmp_path / "pool", 2, lambda _: GovernorDecision(2), {}, tick=TICK
    ) as pool:
        assert build.start(pool.build_environment()).wait() == 0
        with watching(tmp_path / "pool") as watch:
            assert watch.count_tokens() == 1
    assert build.at_once().count(2) >= 4  # at least the pairs that start together


def test_allowed_jobs_run_in_parallel_and_no_more(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 16)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", 4, lambda _: GovernorDecision(4), {}, tick=TICK
    ) as pool:
        assert build.start(pool.build_environment()).wait() == 0
        wait_for(lambda: pool.in_use == 0)
    assert max(build.at_once()) == 4
    assert pool.peak_jobs == 4


def test_jobs_withheld_from_start_do_not_run(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 12)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", 8, lambda _: GovernorDecision(3), {}, tick=TICK
    ) as pool:
        assert pool.withheld_jobs == 5
        assert build.start(pool.build_environment()).wait() == 0
    assert max(build.at_once()) == 3


def test_tokens_are_taken_back_from_running_build(tmp_path: Path) -> None:
    build, allowed = Build(tmp_path / "b", 800, 0.2), [8]  # more objects than will be built
    with jobserver_io.join_jobserver(
        tmp_path / "pool", 8, lambda _: GovernorDecision(allowed[0]), {}, tick=TICK
    ) as pool:
        ninja = build.start(pool.build_environment())
        wait_for(lambda: max(build.at_once(), default=0) == 8)
        allowed[0] = 2
        wait_for(lambda: pool.withheld_jobs == 6 and build.at_once()[-1] <= 2)
        already = len(build.steps())
        wait_for(lambda: len(build.steps()) > already + 10)
        assert max(build.at_once()[already:]) == 2
        allowed[0] = 8
        wait_for(lambda: max(build.at_once()[already:]) > 2)
        ninja.terminate()
        ninja.wait()


def test_governor_sees_memory_use_of_jobs(tmp_path: Path) -> None:
    build, seen = Build(tmp_path / "b", 2, 0.6, mib=80), []

    def decide(view: BuildSnapshot) -> GovernorDecision:
        seen.append(view)
        return GovernorDecision(view.most)

    with jobserver_io.join_jobserver(tmp_path / "pool", 2, decide, {"1.o": 70}, tick=TICK) as pool:
        assert build.start(pool.build_environment()).wait() == 0
    jobs = {job.output: job for view in seen for job in view.running}
    assert jobs["1.o"].expected_mib == 70
    assert 80 <= jobs["0.o"].peak_mib < 130
    assert seen[-1].available_mib > 0
    assert pool.peaks.keys() == {"0.o", "1.o"}
    assert 80 <= pool.peaks["1.o"] < 130


def test_running_jobs_can_be_queried_during_build(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 2, 0.6, mib=80)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", 2, lambda _: GovernorDecision(2), {}, tick=TICK
    ) as pool:
        assert pool.at_work == ()
        ninja = build.start(pool.build_environment())
        seen: dict[str, int] = {}

        def see_both_jobs() -> bool:
            for job in pool.at_work:
                seen[job.output] = max(job.resident_mib, seen.get(job.output, 0))
            return seen.keys() >= {"0.o", "1.o"} and min(seen["0.o"], seen["1.o"]) >= 80

        wait_for(see_both_jobs)
        ninja.wait()
        wait_for(lambda: pool.at_work == ())


def test_peaks_exclude_jobs_of_other_runs(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 2)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", 2, lambda _: GovernorDecision(2), {}, tick=TICK
    ) as pool:
        build.start(pool.build_environment(), run="1-another").wait()
    assert pool.peaks == {}


def test_interrupted_build_does_not_lower_peaks(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 2, 0.6, mib=80)
    membership = jobserver_io.join_jobserver(
        tmp_path / "pool", 2, lambda _: GovernorDecision(2), {"0.o": 900}, tick=TICK
    )
    pool = membership.__enter__()
    build.start(pool.build_environment()).wait()
    interrupt = SystemExit(130)
    assert not membership.__exit__(SystemExit, interrupt, None)
    assert pool.peaks["0.o"] == 900
    assert pool.peaks["1.o"] < 130


def test_ninja_with_explicit_job_count_is_not_governed(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 4)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", 2, lambda _: GovernorDecision(1), {}, tick=TICK
    ) as pool:
        env = {
            **os.environ,
            **pool.build_environment(),
            process_group.RUN_VARIABLE: process_group.RUN_ID,
        }
        subprocess.run([NINJA, "-j3", "-C", str(build.folder)], env=env, check=True)
    assert max(build.at_once()) == 3
    assert pool.peaks == {}


@posix_only
def test_nested_ninja_joins_jobserver(tmp_path: Path) -> None:
    inner = Build(tmp_path / "inner", 6, 0.4)
    outer = Build(tmp_path / "outer", 1, command=f"{NINJA} -C {inner.folder}")

    def decide(view: BuildSnapshot) -> GovernorDecision:
        """Pause all but one job; the outer job must not count as the one left running."""
        return GovernorDecision(view.most, frozenset(job.pid for job in view.running[1:]))

    with jobserver_io.join_jobserver(tmp_path / "pool", 3, decide, {}, tick=TICK) as pool:
        assert outer.start(pool.build_environment()).wait() == 0
    assert 2 <= max(inner.at_once()) <= 3
    assert pool.peaks.keys() == {f"{number}.o" for number in range(6)}


def test_two_ninja_builds_share_one_jobserver(tmp_path: Path) -> None:
    builds = [Build(tmp_path / name, 30, 0.2, log=tmp_path / "log") for name in "ab"]
    with jobserver_io.join_jobserver(
        tmp_path / "pool", 4, lambda _: GovernorDecision(4), {}, tick=TICK
    ) as pool:
        children = [build.start(pool.build_environment()) for build in builds]
        assert [child.wait() for child in children] == [0, 0]
        with watching(tmp_path / "pool") as watch:
            wait_for(lambda: watch.count_tokens() == 3)
    assert 3 <= max(at_once_in(*builds)) <= 4 - 1 + 2


def test_two_participants_share_one_governor(tmp_path: Path) -> None:
    with (
        jobserver_io.join_jobserver(
            tmp_path, 6, lambda _: GovernorDecision(2), {}, tick=TICK
        ) as first,
        jobserver_io.join_jobserver(
            tmp_path, 6, lambda _: GovernorDecision(6), {}, tick=TICK
        ) as second,
    ):
        assert first.build_environment() == second.build_environment()
        wait_for(lambda: first.withheld_jobs == second.withheld_jobs == 4)
        time.sleep(10 * TICK)
        assert first.withheld_jobs == second.withheld_jobs == 4


def test_governor_exception_does_not_stop_build(tmp_path: Path, heard: Heard) -> None:
    build, calls = Build(tmp_path / "b", 12), []

    def decide(view: BuildSnapshot) -> GovernorDecision:
        calls.append(view)
        if len(calls) > 4:
            raise ZeroDivisionError("of ours")
        return GovernorDecision(1)

    with jobserver_io.join_jobserver(tmp_path / "pool", 4, decide, {}, tick=TICK) as pool:
        assert build.start(pool.build_environment()).wait() == 0
    assert max(build.at_once()) > 1
    assert len(calls) == 5
    assert len(heard) == 1
    assert "ZeroDivisionError: of ours" in heard[0]


def test_exception_at_start_withholds_no_jobs(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> set[int]:
        raise ValueError("of ours")

    monkeypatch.setattr(job_processes_io, "list_pids", fail)
    build = Build(tmp_path / "b", 8)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", 4, lambda _: GovernorDecision(1), {}, tick=TICK
    ) as pool:
        assert build.start(pool.build_environment()).wait() == 0
    assert max(build.at_once()) == 4
    assert len(heard) == 1


@posix_only
def test_refused_leader_lock_does_not_stop_build(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> bool:
        raise PermissionError("of a build with higher rights")

    monkeypatch.setattr("tasks.jobs.posix_tokens_io.FileLeaderLock.acquire_lead", refuse)
    build = Build(tmp_path / "b", 4)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", 4, lambda _: GovernorDecision(4), {}, tick=TICK
    ) as pool:
        assert build.start(pool.build_environment()).wait() == 0
    assert "no longer adapts the number of jobs to the memory" in heard.text


@linux_only
def test_no_descriptor_or_thread_is_leaked(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 4)

    def decide(view: BuildSnapshot) -> GovernorDecision:
        return GovernorDecision(4, frozenset(job.pid for job in view.running[1:] if not job.waits))

    with jobserver_io.join_jobserver(tmp_path / "warm", 4, decide, {}, tick=TICK):
        pass
    fds, threads = set(Path("/proc/self/fd").iterdir()), threading.active_count()
    with jobserver_io.join_jobserver(tmp_path / "pool", 4, decide, {}, tick=TICK) as pool:
        assert build.start(pool.build_environment()).wait() == 0
    assert set(Path("/proc/self/fd").iterdir()) == fds
    assert threading.active_count() == threads


@linux_only
def test_psutil_and_proc_report_same_process_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["sleep", "30"], env={"NAME": "value"})
    wait_for(lambda: job_processes_io.read_arguments(child.pid) == ("sleep", "30"))
    asleep = psutil.STATUS_SLEEPING  # so all its pages are resident
    wait_for(lambda: psutil.Process(child.pid).status() == asleep)

    def read_facts() -> list[object]:
        readers = (
            job_processes_io.find_parent_pid,
            job_processes_io.read_program_name,
            job_processes_io.read_arguments,
            job_processes_io.read_resident_bytes,
        )
        return [
            *(read(child.pid) for read in readers),
            job_processes_io.read_variable(child.pid, "NAME"),
        ]

    by_proc = read_facts()
    monkeypatch.setattr(job_processes_io, "HAS_PROC", False)
    assert read_facts() == by_proc
    assert child.pid in job_processes_io.list_pids()
    child.kill()
    child.wait()
    assert read_facts() == [0, "", (), 0, ""]


@linux_only
def test_job_is_remote_until_local_compiler_runs(
    tmp_path: Path,
) -> None:
    compiler = tmp_path / "cc1plus"
    shutil.copy(Path("/bin/sleep").resolve(), compiler)
    sent = Build(tmp_path / "sent", 1, command="echo -c a.cpp >/dev/null; sleep 1")
    here = Build(tmp_path / "here", 1, command=f"echo -c a.cpp >/dev/null; {compiler} 1")
    kinds: dict[str, set[str]] = {}
    expected = {"0.o": 900}
    for build in (sent, here):
        seen: list[BuildSnapshot] = []

        def decide(view: BuildSnapshot, seen: list[BuildSnapshot] = seen) -> GovernorDecision:
            seen.append(view)
            return GovernorDecision(2)

        with jobserver_io.join_jobserver(tmp_path / "pool", 2, decide, expected, tick=TICK) as pool:
            assert (
                build.start({**pool.build_environment(), DISTRIBUTE_VARIABLE: "distcc"}).wait() == 0
            )
        jobs = [job for view in seen for job in view.running if job.output]
        kinds[build.folder.name] = {job.kind for job in jobs}
        assert all(job.expected_mib == 0 for job in jobs if job.kind == "remote")
        assert bool(pool.peaks) == (build is here), "a peak was recorded for a remote job"
    assert kinds["sent"] == {"remote"}
    assert jobs[-1].kind == "c++"
    assert jobs[-1].expected_mib == 900
