"""What a person types before anything is built: help, list, completion, the first settings."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

from tests.support.rows import long_but
from tests.support.torchyardcommand import ARGV
from tests.support.yard import Yard

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
INIT = """
torchyard init --card "RTX 5090" --way auto --extensions simple-knn,diff-gaussian-rasterization
"""
FULL = "error: cannot write to standard output: No space left on device\n"
installed = pytest.mark.skipif(
    "torchyard.doit_commands:Run" not in {one.value for one in entry_points(group="doit.COMMAND")},
    reason="not run: installed before these entry points were there: pip install -e .",
)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    yard = Yard(tmp_path / "checkout")
    yard.profile(target={"gpus": ["12.0"]})
    return yard


def doit(folder: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    """As Yard has it, without a profile being named."""
    return subprocess.run(
        [sys.executable, "-m", "doit", *argv],
        cwd=folder,
        env={**os.environ, "CI": "true", **env},
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
        encoding=env.get("PYTHONIOENCODING", "utf-8"),
    )  # fmt: skip


@installed
def test_help_says_what_to_type_when(yard: Yard) -> None:
    done = doit(yard.folder, "help", PYTHONUTF8="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "the first build"
    assert "pydoit.org" not in done.stdout


@installed
def test_help_as_an_option_shows_the_page(yard: Yard) -> None:
    asked, meant = (doit(yard.folder, *words) for words in (("init", "--help"), ("help", "init")))
    assert (asked.returncode, asked.stderr, asked.stdout) == (0, "", meant.stdout)


@installed
def test_in_another_folder_help_is_doits_own(tmp_path: Path) -> None:
    assert "pydoit.org" in doit(tmp_path, "help").stdout
    (tmp_path / "dodo.py").touch()
    assert "Must be a command, task" in doit(tmp_path, "biuld").stderr


@installed
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["biuld"], '; did you mean "build"?\n  → doit build;'),
        (["build", "trial"], '"trial" is a profile, not a task\n  → doit build profile=trial\n'),
        (["build", "--profile", "trial"], "choose a profile with profile=NAME"),
        (["--profile", "trial", "build"], "→ doit build profile=trial\n"),
        (["build", "profile", "trial"], "→ doit build profile=trial\n"),
        (["info", "biuld"], "→ doit info build;"),
        (["list", "--profile", "trial"], "→ doit list profile=trial\n"),
    ],
)
def test_what_doit_refuses_is_told_with_what_was_meant(
    yard: Yard, words: list[str], told: str
) -> None:
    done = doit(yard.folder, *words, PYTHONUTF8="1")
    assert (done.returncode, done.stdout) == (3, "")
    assert told in done.stderr
    assert done.stderr.startswith("ERROR: ")
    assert not (yard.folder / "build").exists()


@installed
@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("list >&-", 0, ""),
        ("list 2>&1 | true", 0, ""),
        ("help >/dev/full", 1, FULL),
        ("settings >/dev/full 2>&1", 1, ""),
        ("validate >/dev/full", 1, FULL),
    ],
)
def test_closed_or_full_output_causes_no_traceback(
    yard: Yard, command: str, code: int, told: str
) -> None:
    doit = f"{shlex.quote(sys.executable)} -m doit {command}"
    done = subprocess.run(
        ["bash", "-c", f"{doit}; exit ${{PIPESTATUS[0]}}"],
        cwd=yard.folder, env={**os.environ, "CI": "true"}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (code, "", told)


def test_clean_lists_the_files_it_removes(yard: Yard) -> None:
    yard.build.mkdir(parents=True)
    manifest = yard.build / "deps.json"
    manifest.write_text("{}")
    assert yard.must("clean", "-n").splitlines() == [
        f"would remove the results of deps: {manifest}",
        "nothing was removed",
    ]
    assert yard.must("clean").splitlines() == [
        f"removed the results of deps: {manifest}",
        (
            "the next doit build profile=trial checks these stages again; "
            "sources, build folders, environments and wheels are kept"
        ),
    ]
    assert not manifest.exists()
    assert yard.must("clean") == "nothing to remove: these stages of trial have no results\n"


@installed
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_completion_is_that_of_the_checkout(yard: Yard, shell: str) -> None:
    done = doit(yard.folder, "tabcompletion", "--shell", shell, PYTHONUTF8="1")
    assert done.stdout == (ROOT / "templates" / f"completion.{shell}").read_text(encoding="utf-8")


def test_help_of_a_task_is_there_with_a_broken_profile_too(yard: Yard) -> None:
    code, out = yard.doit("help", "wheel", env={"PYTHONUTF8": "1"})
    assert code == 0, out
    assert "here       fetch the official wheel" in out
    yard.profile(target={"gpuss": "auto"})
    code, out = yard.doit("help", "wheel", env={"PYTHONUTF8": "1"})
    assert code == 0, out
    assert out.startswith("wheel: ")
    code, out = yard.doit("help", "weel")
    assert code == 3
    assert 'did you mean "wheel"?' in out


def test_the_list_tells_how_each_stands_and_doits_own_stays_for_scripts(yard: Yard) -> None:
    rows = [line.split() for line in yard.must("list", "--status").splitlines()]
    states = {row[-1] if len(row) < 3 else " ".join(row[:3]) for row in rows}
    assert any(state.startswith("runs deps") for state in states)
    assert any(state.startswith("not used source") for state in states)
    names = yard.must("list", "--quiet").split()
    assert names == sorted(names)
    assert {"build", "init", "validate"} <= set(names)
    assert yard.must("list", "--template", "{name}!", "deps").split() == ["deps!"]


def test_a_reader_of_the_list_that_has_seen_enough_ends_nothing(yard: Yard) -> None:
    with yard.start("list") as child:
        assert child.stdout
        child.stdout.close()
    assert child.returncode == 0


def test_the_first_settings_are_written_and_planned_without_a_terminal(yard: Yard) -> None:
    done = doit(yard.folder, *shlex.split(INIT)[1:], "profile=trial", PYTHONUTF8="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "next: doit build profile=trial"
    found = yaml.safe_load((yard.folder / "config" / "local.yaml").read_text(encoding="utf-8"))
    assert found["extensions"] == ["simple-knn", "diff-gaussian-rasterization"]
    assert "simple-knn" in yard.must("list", "--all")


def test_the_first_settings_of_a_project_are_written_and_planned(tmp_path: Path) -> None:
    def run(*argv: str) -> str:
        done = subprocess.run(
            [*ARGV, *argv],
            cwd=tmp_path, env={**os.environ, "CI": "true", "PYTHONUTF8": "1"},
            stdin=subprocess.DEVNULL, capture_output=True, check=False, encoding="utf-8",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run(*shlex.split(INIT)[1:]).splitlines()[-1] == "next: torchyard build"
    found = yaml.safe_load((tmp_path / "torchyard.yaml").read_text(encoding="utf-8"))
    assert found["extensions"] == ["simple-knn", "diff-gaussian-rasterization"]
    assert "simple-knn" in run("list", "--all")


@pytest.mark.parametrize("encoding", long_but(["ascii"], ["ascii", "cp437", "cp1252"]))
def test_a_console_without_utf_8_is_no_error(yard: Yard, encoding: str) -> None:
    yard.profile(target={"gpuss": "auto"})
    for command in ("settings", "help", "diagnose"):
        done = doit(yard.folder, command, "profile=trial", PYTHONIOENCODING=encoding)
        assert "UnicodeEncodeError" not in done.stderr
        assert "Traceback" not in done.stdout + done.stderr
