"""Retries after failures, with a real jobserver and builds that print given lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath

import pytest

from tasks.core.build_activity import BuildSnapshot, GovernorDecision
from tasks.core.deps_model import DepsManifest, Program
from tasks.core.errors import CommandFailedError
from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.log_lines import RawLine
from tasks.jobs.job_scheduler_io import JobScheduler, LineHandler, resolve_fixed_jobs
from tasks.jobs.out_of_memory import MEMORY_SLUGS
from tasks.runlog.memory_monitor_io import ObservedMemory
from tasks.system.hardware import capacity
from tests.support.checkout import Heard
from tests.support.sleepers import Build
from tests.support.systems import posix_only

SAFE = 6
OLD_MAKE = "  make: *** internal error: invalid --jobserver-auth string `fifo:/p/tokens'.  Stop."
KILLED = ("FAILED: [code=137] a.o", "cc -c a.c -o a.o")
NINJA = "/venv/bin/ninja"


@pytest.fixture(autouse=True)
def safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "compute_safe_jobs", lambda *_: SAFE)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObservedMemory, "is_memory_short", lambda _: True)


class FailingBuild:
    """A build that fails once for each tuple of output lines, after it ran `build`.

    Records the job count and MAKEFLAGS of each attempt.
    """

    def __init__(self, *output: tuple[str, ...], build: Build | None = None) -> None:
        self.jobs: list[int | None] = []
        self.flags: list[str] = []
        self._output = list(output)
        self._build = build

    def __call__(self, jobs: int | None, env: Mapping[str, str], take: LineHandler) -> None:
        self.jobs.append(jobs)
        self.flags.append(env.get("MAKEFLAGS", ""))
        if self._build:
            assert self._build.start(dict(env)).wait() == 0
        if self._output:
            lines = self._output.pop(0)
            for line in lines:
                take(line)
            error = CommandFailedError("build failed", code=1)
            error.parsed_log = ParsedLog(RawLine(at, text) for at, text in enumerate(lines, 1))
            raise error


def create_scheduler(tmp_path: Path, jobs: int | None = None, most: int = 4) -> JobScheduler:
    return JobScheduler(jobs, tmp_path / "pool", {}, most)


def test_retry_after_kill_runs_half_of_peak_jobs(tmp_path: Path) -> None:
    scheduler = create_scheduler(tmp_path, most=16)
    build = FailingBuild(KILLED, build=Build(tmp_path / "b", 4, 0.8))
    scheduler.run_build(build)
    assert build.jobs == [None, None]
    assert [flags.split()[0] for flags in build.flags] == ["-j16", "-j2"]
    assert (scheduler.allowed, scheduler.killed) == (2, ("a.o",))
    assert scheduler.peaks.keys() == {"0.o", "1.o", "2.o", "3.o"}


def test_retry_without_observed_jobs_uses_fixed_job_count(tmp_path: Path, heard: Heard) -> None:
    build = FailingBuild(KILLED, KILLED)
    create_scheduler(tmp_path).run_build(build)
    assert build.jobs == [None, SAFE // 2, 1]
    assert "the compiler of a.o ran out of memory. Retrying with build.jobs: 3" in heard


@pytest.mark.parametrize(
    "line",
    [
        OLD_MAKE,
        "make: *** Interner Fehler: ungültige --jobserver-auth Angabe „fifo:/p/tokens“.  Schluss.",
        "make[1]: *** erreur interne : chaîne --jobserver-auth non valable « fifo:/p/tokens ».",
    ],
)
def test_build_with_old_make_is_retried_once_with_safe_job_count(
    tmp_path: Path, heard: Heard, line: str
) -> None:
    scheduler, build = create_scheduler(tmp_path), FailingBuild((line,))
    scheduler.run_build(build)
    assert build.jobs == [None, SAFE]
    assert build.flags[0].split()[1].startswith("--jobserver-auth=")
    assert not build.flags[1]
    assert scheduler.allowed == SAFE
    (message,) = heard
    assert "GNU make older than 4.4" in message
    assert "Retrying with build.jobs: 6" in message
    assert scheduler.old_make


def test_known_old_make_skips_jobserver(tmp_path: Path) -> None:
    build = FailingBuild()
    JobScheduler(None, tmp_path / "pool", {}, 4, old_make=True).run_build(build)
    assert build.jobs == [SAFE]


def test_command_line_with_jobserver_is_not_taken_for_old_make(tmp_path: Path) -> None:
    build = FailingBuild(("*** MAKEFLAGS= -j4 --jobserver-auth=fifo:/p/tokens cc -c a.c failed",))
    with pytest.raises(CommandFailedError):
        create_scheduler(tmp_path).run_build(build)
    assert build.jobs == [None]


@pytest.mark.parametrize("jobs", [None, 4])
def test_old_make_that_fails_with_fixed_job_count_is_error(
    tmp_path: Path, jobs: int | None
) -> None:
    build = FailingBuild((OLD_MAKE,), (OLD_MAKE,))
    with pytest.raises(CommandFailedError, match="build failed"):
        create_scheduler(tmp_path, jobs).run_build(build)
    assert build.jobs == ([4] if jobs else [None, SAFE])


def test_third_failed_retry_is_error_with_cause(tmp_path: Path) -> None:
    build = FailingBuild(*[KILLED] * 9)
    with pytest.raises(CommandFailedError) as caught:
        create_scheduler(tmp_path, 16).run_build(build)
    assert build.jobs == [16, 8, 4, 2]
    assert f"a.o needs more memory than is available ({MEMORY_SLUGS[os.name]})" in caught.value.hint


@pytest.mark.parametrize("jobs", [None, 4])
def test_kill_without_memory_shortage_is_retried_with_same_job_count(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch, jobs: int | None
) -> None:
    monkeypatch.setattr(ObservedMemory, "is_memory_short", lambda _: False)
    scheduler, build = create_scheduler(tmp_path, jobs), FailingBuild(KILLED)
    scheduler.run_build(build)
    assert (build.jobs, scheduler.allowed) == ([jobs, jobs], 4)
    assert (scheduler.killed, scheduler.expected) == ((), {})
    (message,) = heard
    assert message.startswith("the compiler of a.o was killed, but not for lack of memory. ")


def test_second_kill_without_memory_shortage_does_not_blame_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ObservedMemory, "is_memory_short", lambda _: False)
    build = FailingBuild(KILLED, KILLED)
    with pytest.raises(CommandFailedError) as caught:
        create_scheduler(tmp_path, 4).run_build(build)
    assert (build.jobs, caught.value.hint) == ([4, 4], "")


@pytest.mark.parametrize(
    ("short", "line"), [(False, "cc1plus: out of memory allocating 9 bytes"), (None, "Killed")]
)
def test_out_of_memory_or_uncertain_kill_halves_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: bool | None, line: str
) -> None:
    monkeypatch.setattr(ObservedMemory, "is_memory_short", lambda _: short)
    scheduler, build = create_scheduler(tmp_path, 4), FailingBuild(("FAILED: a.o", line))
    scheduler.run_build(build)
    assert (build.jobs, scheduler.killed) == ([4, 2], ("a.o",))


def test_other_failure_is_not_retried(tmp_path: Path) -> None:
    build = FailingBuild(("toy.c:1: error: nonsense",))
    with pytest.raises(CommandFailedError):
        create_scheduler(tmp_path).run_build(build)
    assert build.jobs == [None]


def deps(version: str) -> DepsManifest:
    program = Program("", "")
    return DepsManifest(
        *("", "3.12.0", "1", None, "", None, None),
        cc=program,
        cxx=program,
        cmake=program,
        ninja=Program(NINJA, version),
        git=None,
    )


@pytest.mark.parametrize(
    ("requested", "pool", "version", "launchers", "jobs"),
    [
        (None, "/yard/build/.jobs", "1.13.1", ("", "ccache"), None),
        (5, "/yard/build/.jobs", "1.13.1", (), None),
        (5, "/yard/build/.jobs", "1.12.0", (), 5),
        (9, "/yard/build/.jobs", "1.12.0", (), SAFE),
        pytest.param(None, "/my yard/build/.jobs", "1.13.1", (), SAFE, marks=posix_only),
        (None, "/yard/build/.jobs", "1.12.0", (), SAFE),
        (None, "/yard/build/.jobs", "1.13.1", ("/usr/bin/sccache", "gcc"), SAFE),
    ],
)
def test_jobserver_sets_job_count_where_supported(
    requested: int | None, pool: str, version: str, launchers: tuple[str, ...], jobs: int | None
) -> None:
    assert resolve_fixed_jobs(requested, PurePath(pool), NINJA, deps(version), launchers) == jobs


@pytest.mark.parametrize(
    ("limit", "slots", "most_and_local"),
    [(5, 0, (5, 0)), (4, 6, (4, 2)), (1, 6, (1, 0)), (9, 2, (4, 2))],
)
def test_job_count_is_upper_limit_for_governor(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    slots: int,
    most_and_local: tuple[int, int],
) -> None:
    seen: list[BuildSnapshot] = []

    def decide(view: BuildSnapshot) -> GovernorDecision:
        seen.append(view)
        return GovernorDecision(1)

    monkeypatch.setattr("tasks.jobs.job_scheduler_io.decide_jobs", decide)
    build = FailingBuild(build=Build(tmp_path / "b", 1))
    JobScheduler(None, tmp_path / "pool", {}, most=2, slots=slots, limit=limit).run_build(build)
    assert build.jobs == [None]
    pool = f"fifo:{tmp_path / 'pool' / str(limit)}/" if sys.platform != "win32" else "torchyard-"
    assert f"--jobserver-auth={pool}" in build.flags[0]
    assert {(view.most, view.local) for view in seen} == {most_and_local}


def test_fixed_job_count_below_limit_is_reported(tmp_path: Path, heard: Heard) -> None:
    build = FailingBuild()
    JobScheduler(2, tmp_path / "pool", {}, 4, limit=6).run_build(build)
    JobScheduler(6, tmp_path / "pool", {}, 4, limit=6).run_build(build)
    assert build.jobs == [2, 6]
    (message,) = heard
    assert message.startswith(
        "running 2 instead of 6 jobs until the end of this build: the free memory"
    )
    assert "build.jobs_exact: true" in message


def test_missing_ninja_gets_fixed_job_count() -> None:
    assert resolve_fixed_jobs(None, PurePath("/yard"), "", deps("1.13.1"), ()) == SAFE


def test_workers_add_jobs_beyond_local_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[BuildSnapshot] = []

    def decide(view: BuildSnapshot) -> GovernorDecision:
        seen.append(view)
        return GovernorDecision(view.most)

    monkeypatch.setattr("tasks.jobs.job_scheduler_io.decide_jobs", decide)
    running_scheduler = JobScheduler(None, tmp_path / "pool", {}, most=2, slots=6)
    running_scheduler.run_build(FailingBuild(build=Build(tmp_path / "b", 1)))
    assert {(view.most, view.local) for view in seen} == {(8, 2)}
    assert running_scheduler.allowed == 8
