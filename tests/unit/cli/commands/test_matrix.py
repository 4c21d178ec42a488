"""`doit matrix` lists every entry with its own plan and build state."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path, PurePath

import pytest

from tasks.cli.commands import matrix
from tasks.cli.commands.matrix import EntryStatus, list_entry_statuses
from tasks.cli.session import open_profile
from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.model import Host, Stage
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog import stage_record_io
from tasks.system import manifests
from tasks.system.hardware import host_probe
from tests.support.checkout import Heard, write

MATRIX = """\
matrix:
  torch: ["2.15.0", "2.6.0"]
  gpus: ["12.0", []]
torch: {strategy: prebuilt}
"""


def subject(yard: Path, name: str = "mine") -> SelectedProfile:
    return SelectedProfile(Project.of_checkout(yard), name, None)


def first_stage(yard: Path, profile: str) -> Stage:
    return open_profile(Project.of_checkout(yard), profile, {}).plan.stages[0]


def finished(stage: Stage) -> None:
    """Write the manifests as if the stage had run."""
    for path in stage.outputs:
        manifests.write_manifest(path, {"came": "out"})
    for path in map(Path, stage.extra_outputs):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    stage_record_io.write_stage_record(stage, "first time", 1.0, "0.1.0")


def rows(yard: Path) -> dict[str, EntryStatus]:
    return {one.cell: one for one in list_entry_statuses(Project.of_checkout(yard), "mine")}


def test_impossible_entry_is_listed_with_reason(yard: Path, heard: Heard) -> None:
    write(yard, MATRIX)
    matrix.run(subject(yard))
    told = {line.split()[0]: line for line in heard if line.strip().startswith("torch2")}
    assert list(told) == [
        "torch2.15.0-sm120",
        "torch2.15.0-cpu",
        "torch2.6.0-sm120",
        "torch2.6.0-cpu",
    ]
    assert told["torch2.15.0-sm120"].split(maxsplit=1)[1] == "not built"
    assert "impossible" in told["torch2.6.0-sm120"]
    assert "newest arch is 9.0" in heard.text


def test_profile_that_cannot_be_planned_still_has_a_matrix(yard: Path, heard: Heard) -> None:
    write(yard, MATRIX + "python: /nowhere/python\n")
    matrix.run(subject(yard))
    assert heard.text.count("impossible") == 4
    heard.clear()
    write(yard, MATRIX + "python: /nowhere/python\n".replace("/nowhere/python", "auto"))
    matrix.run(subject(yard, "mine@torch2.15.0-cpu"))
    assert heard.text.count("not built") == 3


def test_profile_without_matrix_shows_where_to_add_one(yard: Path) -> None:
    with pytest.raises(SettingsError, match=r'the profile "mine" has no matrix') as told:
        matrix.run(subject(yard))
    assert "docs/matrix.md" in str(told.value)


def test_partial_or_outdated_build_is_stale_with_reason(
    yard: Path,
) -> None:
    write(yard, MATRIX)
    deps = first_stage(yard, "mine@torch2.15.0-cpu")
    finished(deps)
    found = rows(yard)
    assert found["torch2.15.0-cpu"].state == "stale"
    assert found["torch2.15.0-cpu"].why.startswith("deps: ")
    assert found["torch2.6.0-cpu"].state == "not built"
    assert (yard / "build" / "mine.torch2.15.0-cpu").is_dir()


def test_unfinished_stage_is_listed_with_diagnose_command(yard: Path) -> None:
    write(yard, MATRIX)
    plan = open_profile(Project.of_checkout(yard), "mine@torch2.15.0-cpu", {}).plan
    finished(plan.stages[0])
    log = Path(plan.stages[1].job.log)
    log.parent.mkdir(parents=True)
    log.write_text("error\n", encoding="utf-8")
    found = rows(yard)["torch2.15.0-cpu"]
    assert found.state == "failed"
    assert found.why.endswith("doit diagnose profile=mine@torch2.15.0-cpu")


def test_cleaned_build_is_stale_not_failed(yard: Path) -> None:
    write(yard, MATRIX)
    deps = first_stage(yard, "mine@torch2.15.0-cpu")
    log = Path(deps.job.log)
    log.parent.mkdir(parents=True)
    log.write_text("fine\n", encoding="utf-8")
    finished(deps)
    os.utime(log, ns=(time.time_ns() - 10**10,) * 2)
    manifests.remove_manifests(*deps.outputs)
    assert rows(yard)["torch2.15.0-cpu"].state == "stale"


def test_matrix_table_is_written_to_a_file(yard: Path, heard: Heard) -> None:
    write(yard, MATRIX)
    matrix.run(subject(yard), json=str(yard / "out.json"))
    found = json.loads((yard / "out.json").read_text(encoding="utf-8"))
    assert found["profile"] == "mine"
    assert found["cells"][0] == {
        "cell": "torch2.15.0-sm120",
        "profile": "mine@torch2.15.0-sm120",
        "state": "not built",
        "why": "",
    }


def test_interpreter_is_searched_once_for_all_entries(
    yard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(yard, MATRIX)
    asked = []
    real = host_probe.read_host

    def host(question: host_probe.HostQuery, pin: PurePath) -> Host:
        asked.append(question)
        return real(question, pin)

    monkeypatch.setattr(host_probe, "read_host", host)
    assert len(rows(yard)) == 4
    assert len(asked) == 1


def test_unfinished_entries_are_listed_with_hints() -> None:
    done = EntryStatus("a", "p@a", "up to date")
    matrix.require_all_done([done, EntryStatus("b", "p@b", "built")])
    with pytest.raises(TorchyardError) as told:
        matrix.require_all_done(
            [
                done,
                EntryStatus("b", "p@b", "failed"),
                EntryStatus("c", "p@c", "impossible"),
                EntryStatus("d", "p@d", "unpublished"),
            ]
        )
    assert str(told.value) == (
        "matrix: 3 of 4 builds of the matrix are not finished: b, c, d\n"
        "  → doit diagnose profile=p@b; add the impossible builds to matrix.exclude; "
        "doit publish profile=p@d"
    )
