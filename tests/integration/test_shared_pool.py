"""Builds of two profiles at once, in processes of their own, share one pool of jobs."""

from __future__ import annotations

import pickle
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import pytest

from tasks.runlog import build_history_io
from tests.support.actionyard import make_yard, script
from tests.support.checkout import ROOT
from tests.support.sleepers import wait_for
from tests.support.toyextension import make_ninja_extension

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="a jobserver is a pipe here"),
]


LOGGED = """\
#!/bin/sh
# a compiler that says when it begins and when it ends
case "$*" in *" -c "*/toyext/* | *" -c "*/c10/* | *" -c "*/aten/*) ;; *) exec c++ "$@" ;; esac
echo 1 >> "{log}"
sleep 0.4
echo -1 >> "{log}"
exec c++ "$@"
"""
# Runs the action of the job in argv[1] on a machine of four cores
WORKS = """
import pickle, sys
from pathlib import Path
from tasks.system.hardware import capacity
capacity.count_usable_cores = lambda: 4
from tasks.stages.compile import run
from tasks.stages.compile.model import CompileJob
from tests.support.actionyard import built
job = pickle.loads(Path(sys.argv[1]).read_bytes())
run.run(job) if isinstance(job, CompileJob) else built(job)
"""


def works(job: object, note: Path) -> subprocess.Popen[bytes]:
    note.write_bytes(pickle.dumps(job))
    return subprocess.Popen([sys.executable, "-c", WORKS, str(note)], cwd=ROOT)


@pytest.mark.long
def test_compile_and_an_extension_of_two_profiles_share_one_pool(
    tmp_path: Path, venv: Path
) -> None:
    one, other = (make_yard(tmp_path, venv, profile=name) for name in ("one", "other"))
    extension = make_ninja_extension(tmp_path / "extension", parts=40)
    log = tmp_path / "log"
    program = script(tmp_path / "logged-c++", LOGGED.format(log=log))
    torch = one.job(jobs="auto", env={"CXX": program})
    assert works(torch, tmp_path / "torch").wait() == 0  # so that what is left is Ninja's
    for source in one.tree.glob("*/*.cpp"):
        source.touch()
    log.unlink()
    children = [works(other.extension(extension, CC=program), tmp_path / "toy")]
    wait_for(lambda: log.exists() and len(log.read_text().split()) >= 8)
    children.append(works(torch, tmp_path / "torch"))
    assert [child.wait() for child in children] == [0, 0]
    at_once = list(accumulate(map(int, log.read_text().split())))
    assert len(at_once) == 2 * (40 + 3)
    assert 2 <= max(at_once) <= 4 - 1 + 2
    for job in (torch, other.extension(extension)):
        assert [run["jobs"] for run in build_history_io.read_history(job.runs)][-1] == 4
