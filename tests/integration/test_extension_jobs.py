"""How many compilers of an extension are at work: with a real pip, Ninja and make."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.core.build_activity import GovernorDecision
from tasks.core.errors import CommandFailedError
from tasks.jobs import jobserver_io
from tasks.jobs.job_scheduler_io import JOB_COUNT_VARIABLES
from tasks.jobs.posix_tokens_io import TokenPipe
from tasks.runlog import build_history_io
from tasks.runlog.memory_monitor_io import ObservedMemory
from tasks.stages.compile import run as action
from tasks.stages.extensions.model import ExtensionJob
from tasks.system.hardware import capacity, toolchain
from tests.support.actionyard import Yard, built, make_yard, script
from tests.support.rows import long_but
from tests.support.sleepers import wait_for
from tests.support.toyextension import environments_of, make_ninja_extension

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="a jobserver is a pipe here"),
]
MOST = capacity.count_usable_cores()

SLOW = """\
#!/bin/sh
# a compiler that is at work long enough to be seen
case "$*" in *" -c "*) sleep 0.7 ;; esac
exec cc "$@"
"""


@pytest.fixture
def memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compilers here end themselves, and what they would need is there."""
    monkeypatch.setattr(ObservedMemory, "is_memory_short", lambda _: True)


CROWDED = """\
#!/bin/sh
# a compiler that the kernel kills where another one is at work
case "$*" in *" -c "*) ;; *) exec cc "$@" ;; esac
mkdir "{place}" 2>/dev/null || {{ sleep 0.7; kill -9 $$; }}
sleep 1
cc "$@"
code=$?
rmdir "{place}"
exit $code
"""
ALONE = """\
#!/bin/sh
case "$*" in *" -c "*) sleep 0.7; kill -9 $$ ;; esac
exec cc "$@"
"""
MAKES = """\
#!/bin/sh
# as where a part of it is built by make, which is told no number
case "$*" in *" -c "*) make -f "{place}" >&2 || exit 2 ;; esac
exec cc "$@"
"""


@pytest.fixture
def yard(tmp_path: Path, venv: Path) -> Yard:
    return make_yard(tmp_path, venv)


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    return make_ninja_extension(tmp_path / "extension")


def compiler(folder: Path, text: str) -> str:
    return script(folder / "cc-of-ours", text.format(place=folder / "place"))


def last_run(job: ExtensionJob) -> Mapping[str, Any]:
    *_, run = build_history_io.read_history(job.runs)
    return run


def names(run: Mapping[str, Any]) -> set[str]:
    return {Path(item["output"]).name for item in run["objects"]}


def test_an_extension_takes_its_jobs_from_the_pool_of_all_builds(
    yard: Yard, extension: Path, tmp_path: Path
) -> None:
    job = yard.extension(extension, CC=compiler(tmp_path, SLOW))
    with jobserver_io.join_jobserver(
        Path(job.layout.jobserver), MOST, lambda _: GovernorDecision(MOST), {}
    ) as pool:
        assert built(job).name.startswith("toyext-1.0")
        assert pool.peak_jobs == min(MOST, 3)
        watch = TokenPipe(Path(job.layout.jobserver) / "tokens")
        wait_for(lambda: watch.count_tokens() == MOST - 1)
        watch.close()
    (env,) = environments_of(extension)
    assert env["MAKEFLAGS"].endswith(f"--jobserver-auth=fifo:{yard.layout.jobserver / 'tokens'}")
    assert not env.keys() & set(JOB_COUNT_VARIABLES)


def test_what_its_objects_came_to_is_known_the_next_time(
    yard: Yard, extension: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = yard.extension(extension, CC=compiler(tmp_path, SLOW))
    built(job)
    run = last_run(job)
    assert (run["jobs"], run["killed"]) == (MOST, [])
    assert names(run) == {"toy.o", "part1.o", "part2.o"}
    assert all(item["peak_mib"] > 0 for item in run["objects"])
    given, pool = [], jobserver_io.join_jobserver

    def spied(*args: Any) -> Any:
        given.append(args[3])
        return pool(*args)

    monkeypatch.setattr(jobserver_io, "join_jobserver", spied)
    built(job)
    assert given == [{item["output"]: item["peak_mib"] for item in run["objects"]}]
    assert names(last_run(job)) == names(run)  # by the same names


@pytest.mark.parametrize(
    ("jobs", "own", "told"),
    [
        (3, {}, 3),
        ("auto", {"MAX_JOBS": "2"}, 2),
        (3, {"MAX_JOBS": "5"}, 5),
    ],
)
def test_number_of_jobs_limits_the_jobserver_or_is_exact(
    yard: Yard, extension: Path, jobs: object, own: dict[str, str], told: int
) -> None:
    job = yard.extension(extension, jobs, **own)
    built(job)
    exact = replace(job, jobs_exact=True)
    built(exact)
    governed, fixed = environments_of(extension)
    assert governed["MAKEFLAGS"].split()[0] == f"-j{told}"
    assert not governed.keys() & set(JOB_COUNT_VARIABLES)
    assert [fixed[name] for name in JOB_COUNT_VARIABLES] == [str(told)] * 2
    assert "MAKEFLAGS" not in fixed
    assert [run["jobs"] for run in build_history_io.read_history(job.runs)] == [told, told]


@pytest.mark.long
def test_where_a_checkout_has_a_space_in_its_path_the_number_is_fixed(
    extension: Path, tmp_path: Path, venv: Path
) -> None:
    job = make_yard(tmp_path / "a checkout", venv).extension(extension)
    built(job)
    (env,) = environments_of(extension)
    assert "MAKEFLAGS" not in env
    assert env["MAX_JOBS"].isdecimal()


@pytest.mark.skipif(MOST < 2, reason="not run: with one core there is no half")
@pytest.mark.parametrize("jobs", long_but(["auto"], ["auto", 2]))
@pytest.mark.usefixtures("memory_is_short")
def test_after_a_compiler_was_killed_it_goes_on_with_half_as_many(
    yard: Yard, extension: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], jobs: object
) -> None:
    job = yard.extension(extension, jobs, CC=compiler(tmp_path, CROWDED))
    built(job)
    assert ".o ran out of memory. Retrying with build.jobs: 1" in capsys.readouterr().out
    run = last_run(job)
    assert run["jobs"] == 1
    assert run["killed"]
    assert len(environments_of(extension)) >= 2


@pytest.mark.usefixtures("memory_is_short")
@pytest.mark.long
def test_what_was_compiled_before_a_kill_is_not_compiled_again(
    yard: Yard, extension: Path, tmp_path: Path
) -> None:
    (extension / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools"]\n')
    job = yard.extension(extension, 2, CC=compiler(tmp_path, CROWDED))
    built(job)
    (log,) = (Path(job.work) / "tree").rglob(".ninja_log")
    lines = log.read_text(encoding="utf-8").splitlines()[1:]
    assert len(lines) == len(build_history_io.read_ninja_log(log.parent)) == 3


@pytest.mark.usefixtures("memory_is_short")
@pytest.mark.long
def test_a_compiler_that_is_killed_alone_is_given_up_with_its_cause(
    yard: Yard, extension: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = yard.extension(extension, CC=compiler(tmp_path, ALONE))
    with pytest.raises(CommandFailedError, match="Killed") as caught:
        built(job)
    assert "needs more memory than is available (oom-killed)" in caught.value.hint
    assert "Retrying with build.jobs: 1" in capsys.readouterr().out
    run = last_run(job)
    assert run["killed"]


def old_make() -> None:
    """Skips where there is none."""
    make = toolchain.find_program("make")
    if not make or tuple(map(int, make.version.split(".")[:2])) >= (4, 4):
        pytest.skip("not run: no GNU make before 4.4")


@pytest.mark.long
def test_a_build_with_an_old_make_in_it_goes_on_with_a_number(
    yard: Yard, extension: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old_make()
    (tmp_path / "place").write_text("all:\n\t@true\n")
    job = yard.extension(extension, CC=compiler(tmp_path, MAKES))
    built(job)
    assert "this build runs a GNU make older than 4.4" in capsys.readouterr().out
    first, then = environments_of(extension)
    assert "fifo" in first["MAKEFLAGS"]
    assert "MAKEFLAGS" not in then
    assert last_run(job)["jobs"] == int(then["MAX_JOBS"])


def test_compile_with_an_old_make_in_it_goes_on_with_a_number(
    yard: Yard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old_make()
    (tmp_path / "place").write_text("all:\n\t@true\n")
    text = MAKES.replace('*" -c "*', '*" -c "*/aten/*').replace("exec cc", "exec c++")
    job = yard.job(jobs="auto", env={"CXX": compiler(tmp_path, text)})
    action.run(job)
    assert "this build runs a GNU make older than 4.4" in capsys.readouterr().out
    (run,) = build_history_io.read_history(job.runs)
    assert 1 <= run["jobs"] <= MOST
