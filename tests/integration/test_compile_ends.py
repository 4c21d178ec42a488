"""However compile or its Ninja ends, another build of the checkout has all tokens of the pool, no
compiler stays behind, and the next run finishes.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psutil
import pytest

from tasks.core.build_activity import BuildSnapshot, GovernorDecision
from tasks.core.model import Layout
from tasks.jobs import jobserver_io
from tasks.jobs.posix_tokens_io import TokenPipe
from tasks.system.find_project import open_checkout
from tests.integration.conftest import commit, git, source_profile
from tests.support.rows import long_but
from tests.support.sleepers import stopped, wait_for
from tests.support.smallsources import add_small_sources, set_value
from tests.support.toytree import make_tree
from tests.support.yard import Yard, processes_with

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="jobs are paused on Linux"),
]

TICK = 0.05
MOST = 4

SLOW = """\
#!/bin/sh
# a compiler that is at work for long while there is a file of that name
case "$*" in *" -c "*/many/*) test ! -e "{slow}" || sleep 600 ;; esac
exec cc "$@"
"""
# in doit itself, whose children get no PYTHONPATH: this machine may have one core
CORES = f"import os\nos.sched_getaffinity = lambda _: set(range({MOST}))\n"
TO_DOIT = [("doit", number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)]
TO_NINJA = [("ninja", number) for number in (signal.SIGTERM, signal.SIGKILL)]
ENDS = [*TO_DOIT, *TO_NINJA]


@dataclass(frozen=True)
class Site:
    """A yard whose compilers are slow as long as the file `slow` is there."""

    yard: Yard
    tree: Path
    slow: Path
    pool: Path
    env: dict[str, str]
    values: Iterator[int]
    begun: list[subprocess.Popen[str]]

    def jobs(self) -> int:
        """Compilers at work."""
        return len([line for line in processes_with(str(self.tree)) if line == "sleep 600"])

    def processes(self) -> list[str]:
        return processes_with(str(self.yard.folder.parent))

    def ninja(self) -> psutil.Process:
        (found,) = (
            process
            for process in psutil.process_iter(["name", "cwd"])
            if process.info["name"] == "ninja" and process.info["cwd"] == str(self.tree / "build")
        )
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    tree = make_tree(folder / "pytorch")
    add_small_sources(tree)
    git(tree, "init", "-q", "-b", "main")
    commit(tree, "first")
    compiler, slow = folder / "slow-cc", folder / "slow"
    compiler.write_text(SLOW.format(slow=slow), encoding="utf-8")
    compiler.chmod(0o755)
    (folder / "cores").mkdir()
    (folder / "cores" / "sitecustomize.py").write_text(CORES, encoding="utf-8")
    yard = Yard(folder / "checkout")
    yard.profile(**source_profile(tree), build={"env": {"CC": str(compiler)}})
    yard.must("compile")
    pool = Path(
        Layout(
            open_checkout(yard.folder, {"TORCHYARD_CACHE_DIR": str(yard.folder / "build")}),
            "trial",
            folder,
        ).jobserver
    )
    env = {"PYTHONPATH": str(folder / "cores")}
    return Site(yard, tree, slow, pool, env, count(2), [])


@pytest.fixture(autouse=True)
def _nobody_is_left(site: Site) -> Iterator[None]:
    """By a test that failed: the others have the place for themselves."""
    yield
    site.slow.unlink(missing_ok=True)
    at_work = [child for child in site.begun if child.poll() is None]
    site.begun.clear()
    for child in at_work:
        child.kill()
        child.communicate()
        site.yard.doit("compile", env=site.env)


@pytest.mark.parametrize(("whom", "number"), long_but([TO_DOIT[0]], ENDS))
def test_tokens_and_compilers_are_back_when_a_build_that_governs_is_ended(
    site: Site, whom: str, number: signal.Signals
) -> None:
    child = begin(site)
    wait_for(lambda: site.jobs() == MOST)
    with jobserver_io.join_jobserver(
        site.pool, MOST, lambda _: GovernorDecision(MOST), {}, tick=TICK
    ):
        end(site, child, whom, number)
        finish(site)


@pytest.mark.long
@pytest.mark.parametrize(("whom", "number"), long_but([TO_NINJA[-1]], ENDS))
def test_tokens_and_compilers_are_back_when_a_build_whose_jobs_are_paused_is_ended(
    site: Site, whom: str, number: signal.Signals
) -> None:
    at_work = threading.Event()  # one that is stopped before it sleeps would never be counted

    def pausing(view: BuildSnapshot) -> GovernorDecision:
        stop = view.running[1:] if at_work.is_set() and site.slow.exists() else ()
        return GovernorDecision(MOST, frozenset(job.pid for job in stop))

    with jobserver_io.join_jobserver(site.pool, MOST, pausing, {}, tick=TICK):
        child = begin(site)
        wait_for(lambda: site.jobs() == MOST)
        at_work.set()
        wait_for(lambda: stopped(site.tree / "build") >= MOST - 1)
        end(site, child, whom, number)
        finish(site)


def begin(site: Site) -> subprocess.Popen[str]:
    """A compile that has everything to make, and takes its time."""
    site.slow.touch()
    set_value(site.tree, next(site.values))
    site.begun.append(site.yard.start("compile", env=site.env))
    return site.begun[-1]


def end(site: Site, child: subprocess.Popen[str], whom: str, number: signal.Signals) -> None:
    """Send the signal; whoever could end in order leaves nobody, and all tokens are in the pipe."""
    if whom == "doit":
        child.send_signal(number)
    else:
        site.ninja().send_signal(number)
    out, _ = child.communicate(timeout=120)
    assert "Traceback" not in out
    site.slow.unlink()
    if (whom, number) != ("doit", signal.SIGKILL):
        assert child.returncode == (1 if whom == "ninja" else 128 + number), out
        assert site.processes() == []
        whole(site)


def finish(site: Site) -> None:
    """The next run finishes, and leaves nothing."""
    code, out = site.yard.doit("compile", env=site.env)
    assert code == 0, out
    assert site.processes() == []
    whole(site)


def whole(site: Site) -> None:
    """Every token is in the pipe, and stays there for longer than an audit takes."""
    watch = TokenPipe(site.pool / "tokens")
    wait_for(lambda: watch.count_tokens() == MOST - 1)
    time.sleep(12 * TICK)
    assert watch.count_tokens() == MOST - 1
    watch.close()
