"""The folder of the jobserver in the user's cache: shared by projects, private, and optional."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.core.build_activity import GovernorDecision
from tasks.core.deps_model import Program
from tasks.core.model import Layout
from tasks.core.project import Project
from tasks.jobs import job_scheduler_io, jobserver_io
from tests.support.checkout import ROOT, Heard
from tests.support.sleepers import wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a jobserver is a pipe here")

# Takes a token of the jobserver in argv[1] and returns it at the end of the input
TAKER = """
import sys
from pathlib import Path
from tasks.jobs.posix_tokens_io import open_tokens
with open_tokens(Path(sys.argv[1])) as (tokens, _):
    print(tokens.take_tokens(1), flush=True)
    sys.stdin.read()
    tokens.return_tokens(1)
"""


def layout(tmp_path: Path, name: str) -> Layout:
    project = Project.of_folder(tmp_path / name, ROOT, tmp_path / "user" / "cache")
    return Layout(project, "mine", tmp_path / name / "wheelhouse")


def test_two_projects_share_tokens_in_a_private_folder(tmp_path: Path) -> None:
    one, other = (layout(tmp_path, name) for name in ("one", "other"))
    assert one.build != other.build
    folder = Path(one.jobserver)
    with jobserver_io.join_jobserver(folder, 4, lambda _: GovernorDecision(4), {}) as jobserver:
        wait_for(lambda: jobserver.tokens.count_tokens() == 3)
        argv = [sys.executable, "-c", TAKER, str(other.jobserver)]
        with subprocess.Popen(
            argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "1\n"
            assert jobserver.tokens.count_tokens() == 2
        assert jobserver.tokens.count_tokens() == 3
    modes = {path: path.stat().st_mode & 0o077 for path in (tmp_path / "user").rglob("*")}
    assert len(modes) == 5
    assert set(modes.values()) == {0}


@pytest.mark.parametrize("state", ["writable", "a file", "read-only", "of another user"])
def test_folder_that_cannot_be_written_gives_a_fixed_number_of_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard, state: str
) -> None:
    folder = Path(layout(tmp_path, "one").jobserver)
    locked = folder.parents[1] if state == "read-only" else folder / "tokens"
    if state == "a file":
        folder.parent.mkdir(parents=True)
        folder.write_text("", encoding="utf-8")
    elif state != "writable":
        folder.mkdir(parents=True)
        locked.touch()
        monkeypatch.setattr("os.access", lambda path, _: path != locked)  # also for root
    if state == "read-only":
        folder.rmdir()
        folder.parent.rmdir()
    ninja = Program("/usr/bin/ninja", "1.13.2")
    deps: Any = SimpleNamespace(ninja=ninja)
    fixed = job_scheduler_io.resolve_fixed_jobs(2, folder, ninja.path, deps, ())
    assert (fixed is None) == (state == "writable")
    assert ("TORCHYARD_CACHE_DIR" in heard.text) == (state != "writable")
