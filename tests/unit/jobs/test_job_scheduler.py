"""How many go on after what went wrong, with a real pool and builds that are told what to say."""

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


class Ending:
    """A build that fails as often as it is given lines to say, and what each try was given; a
    `build` is run before that.
    """

    def __init__(self, *said: tuple[str, ...], build: Build | None = None) -> None:
        self.jobs: list[int | None] = []
        self.flags: list[str] = []
        self._said = list(said)
        self._build = build

    def __call__(self, jobs: int | None, env: Mapping[str, str], take: LineHandler) -> None:
        self.jobs.append(jobs)
        self.flags.append(env.get("MAKEFLAGS", ""))
        if self._build:
            assert self._build.start(dict(env)).wait() == 0
        if self._said:
            lines = self._said.pop(0)
            for line in lines:
                take(line)
            error = CommandFailedError("build failed", code=1)
            error.parsed_log = ParsedLog(RawLine(at, text) for at, text in enumerate(lines, 1))
            raise error


def crew(tmp_path: Path, jobs: int | None = None, most: int = 4) -> JobScheduler:
    return JobScheduler(jobs, tmp_path / "pool", {}, most)


def test_half_of_the_busiest_moment_go_on_though_nobody_looked(tmp_path: Path) -> None:
    one = crew(tmp_path, most=16)
    build = Ending(KILLED, build=Build(tmp_path / "b", 4, 0.8))
    one.run_build(build)
    assert build.jobs == [None, None]
    assert [flags.split()[0] for flags in build.flags] == ["-j16", "-j2"]
    assert (one.allowed, one.killed) == (2, ("a.o",))
    assert one.peaks.keys() == {"0.o", "1.o", "2.o", "3.o"}


def test_a_build_with_a_number_of_its_own_gets_one_of_ours(tmp_path: Path, heard: Heard) -> None:
    build = Ending(KILLED, KILLED)
    crew(tmp_path).run_build(build)
    assert build.jobs == [None, SAFE // 2, 1]
    assert "the compiler of a.o ran out of memory. Retrying with build.jobs: 3" in heard


@pytest.mark.parametrize(
    "said",
    [
        OLD_MAKE,
        "make: *** Interner Fehler: ungültige --jobserver-auth Angabe „fifo:/p/tokens“.  Schluss.",
        "make[1]: *** erreur interne : chaîne --jobserver-auth non valable « fifo:/p/tokens ».",
    ],
)
def test_with_an_old_make_in_it_a_build_goes_on_once_with_a_safe_number(
    tmp_path: Path, heard: Heard, said: str
) -> None:
    one, build = crew(tmp_path), Ending((said,))
    one.run_build(build)
    assert build.jobs == [None, SAFE]
    assert build.flags[0].split()[1].startswith("--jobserver-auth=")
    assert not build.flags[1]
    assert one.allowed == SAFE
    (told,) = heard
    assert "GNU make before 4.4" in told
    assert "Retrying with build.jobs: 6" in told
    assert one.old_make


def test_where_an_old_make_is_known_the_pool_is_not_tried(tmp_path: Path) -> None:
    build = Ending()
    JobScheduler(None, tmp_path / "pool", {}, 4, old_make=True).run_build(build)
    assert build.jobs == [SAFE]


def test_a_command_line_that_names_the_pool_is_no_old_make(tmp_path: Path) -> None:
    build = Ending(("*** MAKEFLAGS= -j4 --jobserver-auth=fifo:/p/tokens cc -c a.c failed",))
    with pytest.raises(CommandFailedError):
        crew(tmp_path).run_build(build)
    assert build.jobs == [None]


@pytest.mark.parametrize("jobs", [None, 4])
def test_an_old_make_that_a_number_does_not_help_is_an_error(
    tmp_path: Path, jobs: int | None
) -> None:
    build = Ending((OLD_MAKE,), (OLD_MAKE,))
    with pytest.raises(CommandFailedError, match="build failed"):
        crew(tmp_path, jobs).run_build(build)
    assert build.jobs == ([4] if jobs else [None, SAFE])


def test_after_three_times_it_is_an_error_with_the_cause(tmp_path: Path) -> None:
    build = Ending(*[KILLED] * 9)
    with pytest.raises(CommandFailedError) as caught:
        crew(tmp_path, 16).run_build(build)
    assert build.jobs == [16, 8, 4, 2]
    assert f"a.o needs more memory than is available ({MEMORY_SLUGS[os.name]})" in caught.value.hint


@pytest.mark.parametrize("jobs", [None, 4])
def test_what_is_killed_though_memory_is_not_short_gets_one_more_try_with_as_many(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch, jobs: int | None
) -> None:
    monkeypatch.setattr(ObservedMemory, "is_memory_short", lambda _: False)
    one, build = crew(tmp_path, jobs), Ending(KILLED)
    one.run_build(build)
    assert (build.jobs, one.allowed) == ([jobs, jobs], 4)
    assert (one.killed, one.expected) == ((), {})
    (message,) = heard
    assert message.startswith("the compiler of a.o was killed although memory was not short. ")


def test_what_is_killed_again_is_an_error_that_blames_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ObservedMemory, "is_memory_short", lambda _: False)
    build = Ending(KILLED, KILLED)
    with pytest.raises(CommandFailedError) as caught:
        crew(tmp_path, 4).run_build(build)
    assert (build.jobs, caught.value.hint) == ([4, 4], "")


@pytest.mark.parametrize(
    ("short", "said"), [(False, "cc1plus: out of memory allocating 9 bytes"), (None, "Killed")]
)
def test_a_compiler_that_says_memory_or_a_doubt_takes_half_the_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: bool | None, said: str
) -> None:
    monkeypatch.setattr(ObservedMemory, "is_memory_short", lambda _: short)
    one, build = crew(tmp_path, 4), Ending(("FAILED: a.o", said))
    one.run_build(build)
    assert (build.jobs, one.killed) == ([4, 2], ("a.o",))


def test_another_failure_is_tried_once(tmp_path: Path) -> None:
    build = Ending(("toy.c:1: error: nonsense",))
    with pytest.raises(CommandFailedError):
        crew(tmp_path).run_build(build)
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
    ("asked", "pool", "version", "launchers", "jobs"),
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
def test_the_pool_says_how_many_where_it_can(
    asked: int | None, pool: str, version: str, launchers: tuple[str, ...], jobs: int | None
) -> None:
    assert resolve_fixed_jobs(asked, PurePath(pool), NINJA, deps(version), launchers) == jobs


@pytest.mark.parametrize(
    ("limit", "slots", "most_and_local"),
    [(5, 0, (5, 0)), (4, 6, (4, 2)), (1, 6, (1, 0)), (9, 2, (4, 2))],
)
def test_number_of_jobs_is_an_upper_limit_below_which_memory_governs(
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
    build = Ending(build=Build(tmp_path / "b", 1))
    JobScheduler(None, tmp_path / "pool", {}, most=2, slots=slots, limit=limit).run_build(build)
    assert build.jobs == [None]
    pool = f"fifo:{tmp_path / 'pool' / str(limit)}/" if sys.platform != "win32" else "torchyard-"
    assert f"--jobserver-auth={pool}" in build.flags[0]
    assert {(view.most, view.local) for view in seen} == {most_and_local}


def test_fixed_number_below_the_limit_is_reported(tmp_path: Path, heard: Heard) -> None:
    build = Ending()
    JobScheduler(2, tmp_path / "pool", {}, 4, limit=6).run_build(build)
    JobScheduler(6, tmp_path / "pool", {}, 4, limit=6).run_build(build)
    assert build.jobs == [2, 6]
    (told,) = heard
    assert told.startswith(
        "running 2 instead of 6 jobs until the end of this build: the free memory"
    )
    assert "build.jobs_exact: true" in told


def test_a_ninja_that_is_nowhere_gets_a_number() -> None:
    assert resolve_fixed_jobs(None, PurePath("/yard"), "", deps("1.13.1"), ()) == SAFE


def test_with_other_machines_there_are_jobs_for_their_slots_and_places_for_those_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[BuildSnapshot] = []

    def decide(view: BuildSnapshot) -> GovernorDecision:
        seen.append(view)
        return GovernorDecision(view.most)

    monkeypatch.setattr("tasks.jobs.job_scheduler_io.decide_jobs", decide)
    at_work = JobScheduler(None, tmp_path / "pool", {}, most=2, slots=6)
    at_work.run_build(Ending(build=Build(tmp_path / "b", 1)))
    assert {(view.most, view.local) for view in seen} == {(8, 2)}
    assert at_work.allowed == 8
