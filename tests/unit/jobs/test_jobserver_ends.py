"""Tokens return and paused jobs resume, however a build or its governor ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tasks.core.build_activity import BuildSnapshot, GovernorDecision
from tasks.jobs import jobserver_io
from tests.support.checkout import ROOT
from tests.support.sleepers import Build, stopped, until, wait_for, watching
from tests.support.systems import linux_only, posix_only

ENDS = [number for name in ("SIGINT", "SIGTERM", "SIGKILL") if (number := getattr(signal, name, 0))]
TICK = 0.05
MOST = 4

# Govern the jobserver in argv[1] with the decision function in argv[2] until killed
GOVERN = """
import sys, time
from pathlib import Path
from tasks.jobs import jobserver_io
from tasks.core.build_activity import GovernorDecision
decide = eval(sys.argv[2])
with jobserver_io.join_jobserver(Path(sys.argv[1]), 4, decide, {}, tick=0.05) as pool:
    print(pool.build_environment()["MAKEFLAGS"], flush=True)
    time.sleep(60)
"""
PAUSES = "lambda view: GovernorDecision(4, frozenset(job.pid for job in view.running[1:]))"


def pausing(view: BuildSnapshot) -> GovernorDecision:
    return GovernorDecision(MOST, frozenset(job.pid for job in view.running[1:]))


def govern(folder: Path, decide: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", GOVERN, str(folder), decide],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    return child, {"MAKEFLAGS": child.stdout.readline().rstrip("\n")}


def kill(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def start_make(folder: Path, pool: jobserver_io.Jobserver) -> subprocess.Popen[bytes]:
    """Start a process named make that belongs to the jobserver."""
    make = shutil.copy(shutil.which("sleep") or "sleep", folder / "make")
    return subprocess.Popen(["sleep", "60"], executable=make, env=pool.build_environment())


def require_tokens_in_use(watch: Any, child: subprocess.Popen[bytes]) -> None:
    """Check that two tokens stay in use while make runs, and return when it ends."""
    time.sleep(20 * TICK)  # longer than the audit takes
    assert watch.count_tokens() == MOST - 1 - 2
    child.kill()
    child.wait()
    wait_for(lambda: watch.count_tokens() == MOST - 1)


def test_tokens_are_returned_after_success(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 8)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    ) as pool:
        assert build.start(pool.build_environment()).wait() == 0
        with watching(tmp_path / "pool") as watch:
            assert watch.count_tokens() == MOST - 1


@pytest.mark.parametrize("number", ENDS)
def test_tokens_are_returned_when_ninja_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    build = Build(tmp_path / "b", 400, 0.3)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    ) as pool:
        ninja = build.start(pool.build_environment())
        wait_for(lambda: max(build.at_once(), default=0) == MOST)
        os.kill(ninja.pid, number)
        assert ninja.wait() != 0
        with watching(tmp_path / "pool") as watch:
            wait_for(lambda: watch.count_tokens() == MOST - 1)
            time.sleep(12 * TICK)  # longer than the audit takes
            assert watch.count_tokens() == MOST - 1


def test_withheld_tokens_are_returned_when_governor_leaves(tmp_path: Path) -> None:
    with ExitStack() as at_work:
        sharing = jobserver_io.join_jobserver(
            tmp_path / "pool", MOST, lambda _: GovernorDecision(1), {}, tick=TICK
        )
        at_work.enter_context(sharing)
        with watching(tmp_path / "pool") as watch:
            assert watch.count_tokens() == 0
            at_work.close()
            assert watch.count_tokens() == MOST - 1


@posix_only
def test_tokens_used_by_make_are_not_recreated(tmp_path: Path) -> None:
    with jobserver_io.join_jobserver(
        tmp_path / "pool", MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    ) as pool:
        child = start_make(tmp_path, pool)
        with watching(tmp_path / "pool") as watch:
            assert watch.take_tokens(2) == 2
            require_tokens_in_use(watch, child)


@posix_only
def test_next_governor_does_not_recreate_tokens_used_by_make(tmp_path: Path) -> None:
    first, _ = govern(tmp_path / "pool", "lambda _: GovernorDecision(4)")
    with jobserver_io.join_jobserver(
        tmp_path / "pool", MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    ) as pool:
        child = start_make(tmp_path, pool)
        with watching(tmp_path / "pool") as watch:
            wait_for(lambda: watch.take_tokens(2) == 2)
            time.sleep(4 * TICK)  # until make is noticed
            kill(first)
            require_tokens_in_use(watch, child)


@posix_only
def test_tokens_used_by_make_are_not_withheld_from_others(tmp_path: Path) -> None:
    granted, snapshots = [MOST], list[BuildSnapshot]()  # later limited to the idle jobs

    def decide(view: BuildSnapshot) -> GovernorDecision:
        snapshots.append(view)
        return GovernorDecision(max(view.idle, granted[0]))

    def wait_for_cycle() -> None:
        """Wait for a governor cycle that began after this call."""
        before = len(snapshots)
        wait_for(lambda: len(snapshots) > before + 1)

    with jobserver_io.join_jobserver(tmp_path / "pool", MOST, decide, {}, tick=TICK) as pool:
        child = start_make(tmp_path, pool)
        wait_for_cycle()
        with watching(tmp_path / "pool") as watch:
            assert watch.take_tokens(2) == 2
            granted[0] = 0
            wait_for_cycle()
            wait_for_cycle()
            left = (watch.count_tokens(), pool.withheld_jobs)
            child.kill()
            child.wait()
    assert left == (MOST - 1 - 2, 0)


def test_killed_governor_is_replaced(tmp_path: Path) -> None:
    first, _ = govern(tmp_path / "pool", "lambda _: GovernorDecision(1)")
    build = Build(tmp_path / "b", 40)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    ) as pool:
        wait_for(lambda: pool.withheld_jobs == MOST - 1)
        ninja = build.start(pool.build_environment())
        wait_for(lambda: build.made() > 1)
        assert max(build.at_once()) == 1
        kill(first)
        assert ninja.wait() == 0
        # whether the running job holds a token is known only when it ends
        assert max(build.at_once()) >= MOST - 1
        with watching(tmp_path / "pool") as watch:
            wait_for(lambda: watch.count_tokens() == MOST - 1)


def test_jobserver_recovers_after_all_participants_were_killed(tmp_path: Path) -> None:
    first, _ = govern(tmp_path / "pool", "lambda _: GovernorDecision(1)")
    kill(first)
    pool = jobserver_io.join_jobserver(
        tmp_path / "pool", MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    )
    with pool, watching(tmp_path / "pool") as watch:
        assert watch.count_tokens() == MOST - 1


def test_jobs_that_outlive_killed_governor_count(tmp_path: Path) -> None:
    first, environment = govern(tmp_path / "pool", "lambda _: GovernorDecision(4)")
    build = Build(tmp_path / "b", 4, 2.0, command=until(tmp_path / "go"))
    ninja = build.start(environment)
    wait_for(lambda: max(build.at_once(), default=0) == MOST)
    kill(first)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    ) as pool:
        assert pool.in_use == MOST
        (tmp_path / "go").touch()
        assert ninja.wait() == 0


@linux_only
def test_paused_jobs_stop_and_resume(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 8, command=until(tmp_path / "go"))
    with jobserver_io.join_jobserver(tmp_path / "pool", MOST, pausing, {}, tick=TICK) as pool:
        ninja = build.start(pool.build_environment())
        wait_for(lambda: stopped(build.folder) >= MOST - 1)
        (tmp_path / "go").touch()
        assert ninja.wait() == 0
    assert build.made() == 8


@linux_only
def test_paused_jobs_resume_when_jobserver_is_left(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", MOST, command=until(tmp_path / "go"))
    with jobserver_io.join_jobserver(tmp_path / "pool", MOST, pausing, {}, tick=TICK) as pool:
        ninja = build.start(pool.build_environment())
        wait_for(lambda: stopped(build.folder) >= MOST - 1)
    assert stopped(build.folder) == 0
    (tmp_path / "go").touch()
    assert ninja.wait() == 0


@linux_only
def test_paused_jobs_resume_when_governor_is_killed(tmp_path: Path) -> None:
    first, environment = govern(tmp_path / "pool", PAUSES)
    build = Build(tmp_path / "b", MOST, command=until(tmp_path / "go"))
    ninja = build.start(environment)
    wait_for(lambda: stopped(build.folder) >= MOST - 1)
    kill(first)
    wait_for(lambda: stopped(build.folder) == 0)
    (tmp_path / "go").touch()
    assert ninja.wait() == 0


@linux_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_build_with_paused_jobs_ends_at_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    build = Build(tmp_path / "b", MOST, 600.0)
    with jobserver_io.join_jobserver(tmp_path / "pool", MOST, pausing, {}, tick=TICK) as pool:
        ninja = build.start(pool.build_environment())
        wait_for(lambda: stopped(build.folder) >= MOST - 1)
        os.kill(ninja.pid, number)
        assert ninja.wait(120) != 0
    assert stopped(build.folder) == 0
