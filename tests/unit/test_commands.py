"""Arguments of commands: file paths are relative to the invocation directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.cli.commands import verify
from tasks.cli.running import doit_tasks
from tasks.cli.session import generate_command_tasks
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile


def commands() -> dict[str, dict[str, Any]]:
    subject = SelectedProfile(Project.of_checkout(Path("/checkout")), "p", None)
    return {one["basename"]: one for one in generate_command_tasks(subject)}


FILES = [
    (name, param["name"])
    for name, command in commands().items()
    for param in command["params"]
    if param["name"] in {"json", "out", "log", "wheel", "dest"}
]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the invocation directory; `doit -f` works in that of dodo.py."""
    monkeypatch.setattr(doit_tasks, "get_initial_workdir", lambda: str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("command", "name"), FILES)
def test_file_argument_is_relative_to_invocation_directory(
    started: Path, command: str, name: str
) -> None:
    (param,) = (one for one in commands()[command]["params"] if one["name"] == name)
    assert param["type"]("sub/file") == str(started / "sub" / "file")
    assert param["type"](str(started / "file")) == str(started / "file")
    assert param["type"]("") == ""


@pytest.mark.parametrize("typed", ["me@there:index", "cp -r {index} there"])
def test_remote_index_is_not_a_local_directory(started: Path, typed: str) -> None:
    (param,) = (one for one in commands()["publish"]["params"] if one["name"] == "dest")
    assert param["type"](typed) == typed


def test_hint_of_failed_command_names_the_profile(tmp_path: Path) -> None:
    (report,) = (
        one
        for one in generate_command_tasks(
            SelectedProfile(Project.of_checkout(tmp_path), "mine", None)
        )
        if one["basename"] == "report"
    )
    act, (run,) = report["actions"][0]
    assert (
        act(run, run="", against="", out="")
        .get_msg()
        .strip()
        .endswith("one: doit build profile=mine")
    )


def test_positional_wheels_are_relative_to_invocation_directory(
    started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(verify, "run", lambda _, **params: given.update(params))
    _, (report,) = commands()["verify"]["actions"][0]
    report(wheel="", wheels=["a.whl"])
    assert given["wheels"] == [str(started / "a.whl")]
