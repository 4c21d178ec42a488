"""Rules for messages, checked over the whole source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tasks.cli.help_pages import DOIT_COMMANDS
from tasks.cli.help_text import HELP_PAGES
from tasks.core import errors

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "tasks").rglob("*.py"))
ERRORS = {name for name, one in vars(errors).items() if isinstance(one, type)} | {
    "UnsatisfiableError"
}
COMMAND = re.compile(r"(?:(?<=^)|(?<=[\s(:`]))doit ([a-z]+)")
NO_COMMANDS = {"has", "runs", "by", "itself", "knows", "gives", "will", "run", "in", "would"}
EMPTY = re.compile(r"\b(please|sorry|oops|successfully|invalid|unfortunately)\b", re.IGNORECASE)


def calls(path: Path) -> Iterator[ast.Call]:
    """Yield the calls that create an error for users."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ERRORS
        ):
            yield node


def text(node: ast.expr | None) -> str:
    """Return the fixed text, with X in place of values."""
    match node:
        case ast.Constant(value=str(told)):
            return told
        case ast.JoinedStr(values=parts):
            return "".join(text(part) for part in parts)
        case ast.FormattedValue() | ast.Name() | ast.Call() | ast.Attribute():
            return "X"
    return ""


@cache
def sentences() -> list[tuple[str, str, str]]:
    """Return location, message and hint of every error in the source."""
    return list(_sentences())


def _sentences() -> Iterator[tuple[str, str, str]]:
    for path in MODULES:
        for call in calls(path):
            todo = next((word.value for word in call.keywords if word.arg == "hint"), None)
            place = f"{path.relative_to(ROOT).as_posix()}:{call.lineno}"
            yield place, text(call.args[0] if call.args else None), text(todo)


def test_source_has_messages_to_check() -> None:
    assert len(sentences()) > 200


@pytest.mark.parametrize("part", [1, 2], ids=["what", "todo"])
def test_message_is_a_plain_clause(part: int) -> None:
    """It stands between a location and an arrow: no full stop, no exclamation mark, capitals only
    in names, and no filler words.
    """
    for place, *result in sentences():
        actual = result[part - 1]
        assert not actual.endswith((".", "!", " ")) or actual.endswith("…"), f"{place}: {actual}"
        assert not EMPTY.search(actual), f"{place}: {actual}"


def test_message_has_a_location_or_a_hint() -> None:
    for path in MODULES:
        for call in calls(path):
            named = {word.arg for word in call.keywords}
            raised = call.func.id if isinstance(call.func, ast.Name) else ""
            if raised in {"BuildError", "SettingsError"} and call.args and text(call.args[0]):
                assert named & {"location", "hint", None}, f"{path}:{call.lineno}"


def test_commands_named_in_messages_exist() -> None:
    known = {*HELP_PAGES, *DOIT_COMMANDS, *NO_COMMANDS}
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant | ast.JoinedStr) or id(node) in docs:
                continue
            result = text(node)
            for command in COMMAND.findall(result):
                assert command in known, f"{path}: doit {command}"
