"""Commands and paths in messages are those that the user types."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tasks.cli.help_pages import BUILD_PAGE, COMMAND_PAGES, STAGE_PAGES
from tasks.core.project import Project
from tasks.system import invocation
from tasks.system.console import Console
from tasks.system.invocation import (
    adapt_message,
    add_profile_argument,
    format_for_torchyard,
    set_invocation,
)
from tests.support.checkout import ROOT

# Identical for every profile
_EVERY_PROFILE = {"check", "refresh"}
_NAMES = {one.name for one in (BUILD_PAGE, *STAGE_PAGES, *COMMAND_PAGES)} - _EVERY_PROFILE
_ADVISED = re.compile(rf"\bdoit (?:clean|{'|'.join(sorted(_NAMES))})\b(?! profile=)")
# Pages of docs/ and of `doit help`, which apply to every profile
_PAGES = (
    "tasks/cli/help", "tasks/settings/settings_page.py", "tasks/knowledge/knowledge_page.py",
    "tasks/diagnosis/diagnosis_page.py",
)  # fmt: skip


def messages() -> Iterator[tuple[str, str]]:
    """Return every string below tasks/, and every suggested fix for failures."""
    paths = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tasks").rglob("*.py")]
    for name in (one for one in paths if not one.startswith(_PAGES)):
        for node in ast.walk(ast.parse((ROOT / name).read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield name, node.value
    facts = yaml.safe_load((ROOT / "config/knowledge/failures.yaml").read_text("utf-8"))
    for failure in facts["failures"]:
        for text in (failure["remedy"], *failure.get("here", ())):
            yield failure["id"], str(text)


def test_every_suggested_command_gets_profile() -> None:
    found = [(name, text) for name, text in messages() if _ADVISED.search(text)]
    assert len(found) > 50
    assert "tasks/cli/commands/verify.py" in {name for name, _ in found}
    missing = [
        (name, text)
        for name, text in found
        if add_profile_argument(text, "mine").count(" profile=") < len(_ADVISED.findall(text))
    ]
    assert missing == []


CODE = Path("/opt/torchyard")
PROJECT = Project.of_folder(Path("/work"), CODE, Path("/cache"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("doit verify a.whl", "doit verify profile=mine a.whl"),
        ("doit extensions:a, then doit build.",
         "doit extensions:a profile=mine, then doit build profile=mine."),
        ("doit bundle --dest PATH again", "doit bundle --dest PATH profile=mine again"),
        ("doit build profile=other", "doit build profile=other"),
        ("doit check", "doit check"),
    ],
)  # fmt: skip
def test_profile_is_added_after_command_and_options(text: str, expected: str) -> None:
    assert add_profile_argument(text, "mine") == expected


def test_console_lines_name_profile() -> None:
    out = io.StringIO()
    console = Console(None, out)
    console.profile = "mine"
    console.print_line("newer: doit lock --update")
    console.print_warning("to accept it: doit doctor --accept")
    assert "doit lock --update profile=mine\n" in out.getvalue()
    assert "doit doctor --accept profile=mine\n" in out.getvalue()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run again: doit build profile=rtx5090", "run again: torchyard build --profile rtx5090"),
        ("doit explain, then `doit extensions:a profile=a.b@c-d`.",
         "torchyard explain, then `torchyard extensions:a --profile a.b@c-d`."),
        ("doit build profile=NAME", "torchyard build --profile NAME"),
        ("doit list --all", "torchyard list --all"),
        ("doit tabcompletion > x", "torchyard completion > x"),
        ("set it in config/local.yaml:3", "set it in torchyard.yaml:3"),
        ("see docs/windows.md", f"see {CODE.as_posix()}/docs/windows.md"),
        ("the log is build/mine/logs/a.log", "the log is .torchyard/build/mine/logs/a.log"),
        ("/work/.torchyard/build/mine/run", "/work/.torchyard/build/mine/run"),
        # not a command, a profile or a page of torchyard
        ("doit is a build system", "doit is a build system"),
        ("--profile=x my-profile=x profile=", "--profile=x my-profile=x profile="),
        ("https://h.example/docs/a.md docs/a.html", "https://h.example/docs/a.md docs/a.html"),
        ("build/other", "build/other"),
    ],
)  # fmt: skip
def test_message_is_adapted_to_a_project_and_unchanged_in_a_checkout(
    text: str, expected: str
) -> None:
    set_invocation(PROJECT, "mine")
    assert adapt_message(text) == expected
    assert adapt_message(expected) == expected
    invocation._current[0] = invocation._Invocation()  # doit in a checkout
    assert adapt_message(text) == text


def test_torchyard_in_a_checkout_keeps_the_paths_of_the_checkout() -> None:
    set_invocation(Project.of_checkout(CODE), "quickstart")
    text = "doit build profile=rtx5090, config/local.yaml, docs/windows.md, build/quickstart"
    expected = text.replace("doit", "torchyard").replace("profile=", "--profile ")
    assert adapt_message(text) == expected


def test_pages_are_written_for_torchyard_whoever_writes_them() -> None:
    text = "doit build profile=NAME, config/local.yaml, docs/windows.md, build/PROFILE/run"
    expected = "torchyard build --profile NAME, torchyard.yaml, docs/windows.md, "
    assert format_for_torchyard(text) == f"{expected}.torchyard/build/PROFILE/run"


def test_default_profile_of_a_project_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHYARD_PROFILE", raising=False)
    set_invocation(PROJECT, "mine")
    assert add_profile_argument("doit build", "mine") == "doit build"
    assert add_profile_argument("doit build", "other") == "doit build profile=other"
    monkeypatch.setenv("TORCHYARD_PROFILE", "other")
    assert add_profile_argument("doit build", "mine") == "doit build profile=mine"


def test_console_writes_for_a_project() -> None:
    set_invocation(PROJECT, "default")
    out = io.StringIO()
    console = Console(None, out)
    console.profile = "mine"
    console.print_line("newer: doit lock --update")
    assert "newer: torchyard lock --update --profile mine\n" in out.getvalue()
