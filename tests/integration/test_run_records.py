"""What a run leaves on record with a real Ninja at work: edges on its clock, and a failure."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tasks.runlog import run_record_io
from tasks.runlog.run_record import Run, StageRun
from tests.integration.conftest import source_profile
from tests.support.toyextension import make_ninja_extension
from tests.support.yard import Yard, kill_when

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals"),
]
BROKEN = "#error broken on purpose\n"


def newest(yard: Yard) -> Run:
    return next(run_record_io.read_runs(yard.build / "records" / "runs"))


def made(stage: StageRun | None) -> set[str]:
    assert stage
    return {Path(edge.output).name for edge in stage.edges if not edge.failed}


@pytest.mark.long
def test_edges_of_torch_and_of_extensions_are_on_the_clock_of_the_run(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    extension = make_ninja_extension(tmp_path / "extension")
    yard.profile(**source_profile(tree, extension))
    yard.must("build")
    run = newest(yard)
    assert (run.outcome, run.profile, run.command) == ("done", "trial", ("build",))
    assert run.settings["torch.strategy"] == "source"
    assert run.resolution["torch"] == "2.6.0"
    after = {node.name: set(node.after) for node in run.graph}
    assert {"source", "deps", "env"} <= after["compile"]
    assert {"core.cpp.o", "text.cpp.o", "add.cpp.o"} <= made(run.find_stage("compile"))
    assert made(run.find_stage("extensions:toy")) == {"toy.o", "part1.o", "part2.o"}
    for name in ("compile", "extensions:toy"):
        stage = run.find_stage(name)
        assert stage
        for edge in stage.edges:
            assert stage.began <= edge.began <= edge.ended <= stage.began + stage.seconds
    source = tree / "c10" / "core.cpp"
    source.write_text(BROKEN, encoding="utf-8")
    assert yard.doit("build")[0] == 1
    stage = newest(yard).find_stage("compile")
    assert stage
    assert stage.outcome == "failed"
    assert [Path(edge.output).name for edge in stage.edges if edge.failed] == ["core.cpp.o"]
    assert "failed: compile" in yard.must("history")


@pytest.mark.long
def test_a_kill_is_told_as_a_run_that_was_cut_off(
    yard: Yard, extension: Path, tree: Path, tmp_path: Path
) -> None:
    yard.profile(**source_profile(tree, extension))
    yard.must("wheel")
    (tmp_path / "slow").touch()
    kill_when(yard.start("build"), tmp_path / "reached", signal.SIGKILL)
    assert newest(yard).outcome == ""
    assert "unfinished" in yard.must("history")
    (tmp_path / "slow").unlink()
    yard.must("build")
    assert newest(yard).outcome == "done"
