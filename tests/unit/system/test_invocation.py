"""Commands suggested in messages name the profile."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator

import pytest
import yaml

from tasks.cli.help_pages import BUILD_PAGE, COMMAND_PAGES, STAGE_PAGES
from tasks.system.console import Console
from tasks.system.invocation import add_profile_argument
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
