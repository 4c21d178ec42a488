"""The command line of `torchyard`, without running a stage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tasks.cli import front, help_pages
from tasks.core.project import Project
from tasks.system import invocation
from tests.support.checkout import ROOT
from torchyard import doit_commands

SETTINGS = """\
target: {gpus: ["12.0"]}
extensions: [{name: mine, path: "{torchyard}/templates/smoke"}]
profiles: {debug: {build: {type: Debug}}}
"""


@pytest.fixture(autouse=True)
def in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a subfolder of a project, whose torchyard.yaml is above."""
    monkeypatch.setattr(doit_commands, "_by_torchyard", [False])
    (tmp_path / "torchyard.yaml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    return tmp_path


def run(*argv: str, code: Path = ROOT) -> int:
    return front.run_command_line(argv, code)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["biuld"], "did you mean build?"),
        (["debug"], "To build it: torchyard build --profile debug"),
        (["rtx5090"], "To build it: torchyard build --profile rtx5090"),
        (["xyzzy"], "List the commands: torchyard --help"),
        (["diagnose", "--lgo"], "Did you mean '--log'?"),
        (["build", "--lgo"], "torchyard build --help"),
        (["-C", "nowhere", "build"], "-C nowhere: "),
        (["--profile", "debgu", "build"], 'there is no profile "debgu"; did you mean "debug"?'),
        (["build", "extensions:mien"], "torchyard build extensions:mine"),
        (["build", "rtx5090"], "torchyard build --profile rtx5090"),
        (["help", "biuld"], "did you mean build?"),
    ],
)
def test_wrong_arguments_are_explained(
    argv: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(*argv) == 3
    assert message in capfd.readouterr().err


@pytest.mark.parametrize("argv", [["settings"], ["explain", "--profile", "debug"], ["list"]])
def test_commands_run_from_a_subfolder(
    argv: list[str], in_project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(*argv) == 0
    assert "doit " not in capfd.readouterr().out
    assert Path.cwd() == in_project  # as doit does with the folder of dodo.py
    assert not (in_project / "sub" / ".torchyard").exists()


def test_options_before_and_after_the_command_choose_the_profile(
    in_project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for argv in (["-p", "debug", "settings"], ["settings", "--profile", "debug"]):
        monkeypatch.chdir(in_project.parent)
        assert run("-C", str(in_project / "sub"), *argv) == 0
        assert '"Debug"   # torchyard.yaml:3' in capfd.readouterr().out


def test_help_is_that_of_the_pages(capfd: pytest.CaptureFixture[str]) -> None:
    names = [page.name for page in (*help_pages.STAGE_PAGES, *help_pages.COMMAND_PAGES)]
    names = [name for name in names if name not in {"check", "refresh"}]
    for name in names:
        assert run(name, "--help") == 0
        out = capfd.readouterr().out
        assert out.startswith(f"Usage: torchyard {name} ")
        assert "--profile NAME" in out
        assert "doit" not in out.replace("make doit forget", "")
        assert run("help", name) == 0
        assert capfd.readouterr().out == out
    for argv in ([], ["--help"], ["help"]):
        assert run(*argv) == 0
        out = capfd.readouterr().out
        assert all(name in out for name in names)


def test_help_works_with_a_broken_file(in_project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (in_project / "torchyard.yaml").write_text("a: [", encoding="utf-8")
    assert run("build", "--help") == 0
    for argv in (["build"], ["build", "--profile", "cpu"]):
        assert run(*argv) == 3
        assert "torchyard.yaml:2: not valid YAML" in capfd.readouterr().err
    assert run("history") == 0  # works with broken settings


def test_a_checkout_is_its_own_project(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT / "tests")
    assert run("settings") == 0
    project = invocation.read_project()
    assert project is not None
    assert project.root == ROOT
    assert project.is_checkout
    assert "config/default.yaml" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("torchyard bui", {"build"}),
        ("torchyard build --profile deb", {"debug", "debian-trixie-cpu", "debian-trixie-cuda"}),
        ("torchyard build ext", {"extensions", "extensions:mine"}),
        ("torchyard diagnose --l", {"--log"}),
        ("torchyard completion z", {"zsh"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(words: str, expected: set[str], shell: str) -> None:
    *before, last = words.split()
    count = str(len(before)) if shell != "fish" else last
    env = {"_TORCHYARD_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": count}
    found = CliRunner().invoke(
        front._GROUP, [], prog_name="torchyard", env=env, obj=front._Globals(ROOT)
    )
    lines = found.output.split("\n")
    assert expected <= {word for line in lines for word in (line, *line.split(","))} | {
        line.partition("\t")[0].partition(",")[2] for line in lines
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("completion", shell) == 0
    assert f"{shell}_complete" in capfd.readouterr().out


def test_an_argument_with_an_equals_sign_is_a_file(
    in_project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("verify", "a=b.whl") == 1
    assert f"{in_project / 'sub' / 'a=b.whl'}" in capfd.readouterr().out


def test_a_closed_pipe_is_no_error() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    argv = f"{sys.executable} -m torchyard settings | head -1"
    done = subprocess.run(argv, shell=True, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""


def test_the_project_is_part_of_no_message_for_doit() -> None:
    text = "doit build profile=x: see docs/matrix.md and config/local.yaml"
    assert invocation.adapt_message(text) == text
    invocation.set_invocation(Project.of_folder(Path("/p"), Path("/code"), Path("/c")), "default")
    assert invocation.adapt_message(text) == (
        "torchyard build --profile x: see /code/docs/matrix.md and torchyard.yaml"
    )
