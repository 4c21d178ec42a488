"""However a build or its governor ends, all tokens are back and every paused job goes on."""

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

# Governs the pool in argv[1] with the verdict in argv[2] until it is killed
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


def make_at_work(folder: Path, pool: jobserver_io.Jobserver) -> subprocess.Popen[bytes]:
    """By its name a make, and in the pool."""
    make = shutil.copy(shutil.which("sleep") or "sleep", folder / "make")
    return subprocess.Popen(["sleep", "60"], executable=make, env=pool.build_environment())


def require_kept(watch: Any, child: subprocess.Popen[bytes]) -> None:
    """Two tokens are out as long as the make is at work, and back once it has ended."""
    time.sleep(20 * TICK)  # longer than the audit takes
    assert watch.count_tokens() == MOST - 1 - 2
    child.kill()
    child.wait()
    wait_for(lambda: watch.count_tokens() == MOST - 1)


def test_tokens_are_back_after_success(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 8)
    with jobserver_io.join_jobserver(
        tmp_path / "pool", MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    ) as pool:
        assert build.start(pool.build_environment()).wait() == 0
        with watching(tmp_path / "pool") as watch:
            assert watch.count_tokens() == MOST - 1


@pytest.mark.parametrize("number", ENDS)
def test_tokens_are_back_however_ninja_ends(tmp_path: Path, number: signal.Signals) -> None:
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


def test_what_a_governor_withheld_is_back_at_its_end(tmp_path: Path) -> None:
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
def test_what_a_make_without_ninja_holds_is_not_made_anew(tmp_path: Path) -> None:
    with jobserver_io.join_jobserver(
        tmp_path / "pool", MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    ) as pool:
        child = make_at_work(tmp_path, pool)
        with watching(tmp_path / "pool") as watch:
            assert watch.take_tokens(2) == 2
            require_kept(watch, child)


@posix_only
def test_who_governs_next_makes_nothing_anew_of_what_a_make_holds(tmp_path: Path) -> None:
    first, _ = govern(tmp_path / "pool", "lambda _: GovernorDecision(4)")
    with jobserver_io.join_jobserver(
        tmp_path / "pool", MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    ) as pool:
        child = make_at_work(tmp_path, pool)
        with watching(tmp_path / "pool") as watch:
            wait_for(lambda: watch.take_tokens(2) == 2)
            time.sleep(4 * TICK)  # until the make is seen
            kill(first)
            require_kept(watch, child)


@posix_only
def test_what_a_make_holds_is_not_withheld_from_others(tmp_path: Path) -> None:
    granted, looks = [MOST], list[BuildSnapshot]()  # and then no more than there are

    def decide(view: BuildSnapshot) -> GovernorDecision:
        looks.append(view)
        return GovernorDecision(max(view.idle, granted[0]))

    def look() -> None:
        """A moment that began after now."""
        before = len(looks)
        wait_for(lambda: len(looks) > before + 1)

    with jobserver_io.join_jobserver(tmp_path / "pool", MOST, decide, {}, tick=TICK) as pool:
        child = make_at_work(tmp_path, pool)
        look()
        with watching(tmp_path / "pool") as watch:
            assert watch.take_tokens(2) == 2
            granted[0] = 0
            look()
            look()
            left = (watch.count_tokens(), pool.withheld_jobs)
            child.kill()
            child.wait()
    assert left == (MOST - 1 - 2, 0)


def test_another_governs_when_one_is_killed(tmp_path: Path) -> None:
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
        # whether the one at work holds a token can be told only at its end
        assert max(build.at_once()) >= MOST - 1
        with watching(tmp_path / "pool") as watch:
            wait_for(lambda: watch.count_tokens() == MOST - 1)


def test_a_pool_where_all_were_killed_is_whole_again(tmp_path: Path) -> None:
    first, _ = govern(tmp_path / "pool", "lambda _: GovernorDecision(1)")
    kill(first)
    pool = jobserver_io.join_jobserver(
        tmp_path / "pool", MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    )
    with pool, watching(tmp_path / "pool") as watch:
        assert watch.count_tokens() == MOST - 1


def test_jobs_that_run_on_after_a_kill_count(tmp_path: Path) -> None:
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
def test_paused_jobs_stop_and_go_on(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", 8, command=until(tmp_path / "go"))
    with jobserver_io.join_jobserver(tmp_path / "pool", MOST, pausing, {}, tick=TICK) as pool:
        ninja = build.start(pool.build_environment())
        wait_for(lambda: stopped(build.folder) >= MOST - 1)
        (tmp_path / "go").touch()
        assert ninja.wait() == 0
    assert build.made() == 8


@linux_only
def test_paused_jobs_go_on_when_the_pool_is_left(tmp_path: Path) -> None:
    build = Build(tmp_path / "b", MOST, command=until(tmp_path / "go"))
    with jobserver_io.join_jobserver(tmp_path / "pool", MOST, pausing, {}, tick=TICK) as pool:
        ninja = build.start(pool.build_environment())
        wait_for(lambda: stopped(build.folder) >= MOST - 1)
    assert stopped(build.folder) == 0
    (tmp_path / "go").touch()
    assert ninja.wait() == 0


@linux_only
def test_paused_jobs_go_on_when_their_governor_is_killed(tmp_path: Path) -> None:
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
def test_a_build_with_paused_jobs_ends_at_once_when_told_to(
    tmp_path: Path, number: signal.Signals
) -> None:
    build = Build(tmp_path / "b", MOST, 600.0)
    with jobserver_io.join_jobserver(tmp_path / "pool", MOST, pausing, {}, tick=TICK) as pool:
        ninja = build.start(pool.build_environment())
        wait_for(lambda: stopped(build.folder) >= MOST - 1)
        os.kill(ninja.pid, number)
        assert ninja.wait(120) != 0
    assert stopped(build.folder) == 0
