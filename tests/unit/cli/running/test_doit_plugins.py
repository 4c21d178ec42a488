"""Plugins adapt doit without private API, and doit is unchanged outside a checkout."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doit.dependency import JSONCodec, SqliteDB

from tests.support.plugins import PLUGINS
from tests.test_layers import KNOWS_DOIT, ROOT, parsed, within
from torchyard import doit_commands


def private_uses(tree: ast.Module) -> Iterator[str]:
    """Yield private attributes that are read and attributes of doit's classes that are set."""
    of_doit = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and within(node.module or "", "doit")
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            is_private = node.attr.startswith("_") and not node.attr.endswith("__")
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            is_set = isinstance(node.ctx, ast.Store) and owner in of_doit
            if is_set or (is_private and owner in of_doit):
                yield f"{owner}.{node.attr}"


@pytest.mark.parametrize("name", [*sorted(KNOWS_DOIT), "src/torchyard/doit_commands.py", "dodo.py"])
def test_no_private_doit_api_is_used_and_no_doit_class_patched(name: str) -> None:
    assert list(private_uses(parsed(ROOT / name))) == []


def test_no_plugin_overrides_or_reads_private_doit_attributes() -> None:
    tree = parsed(ROOT / "src" / "torchyard" / "doit_commands.py")
    for one in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        names = [node.name for node in one.body if isinstance(node, ast.FunctionDef)]
        names += [node.attr for node in ast.walk(one) if isinstance(node, ast.Attribute)]
        assert not [name for name in names if name.startswith("_")], one.name


def test_every_plugin_is_registered() -> None:
    for place in (place for plugins in PLUGINS.values() for place in plugins.values()):
        module, _, name = place.partition(":")
        assert module == "torchyard.doit_commands"
        assert hasattr(doit_commands, name)


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"dodoFile": "dodo.py", "seek_file": False}, True),
        ({"dodoFile": "docs/dodo.py", "seek_file": False}, False),
        ({"dodoFile": "docs/dodo.py", "seek_file": True}, True),
        ({"dodoFile": "other.py", "seek_file": False}, False),
        ({}, False),  # a loader that is not a file
    ],
)
def test_custom_commands_require_the_dodo_file_of_a_checkout(
    monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], found: bool
) -> None:
    monkeypatch.chdir(ROOT)
    assert doit_commands._has_checkout(params) is found


def test_doit_outside_a_checkout_uses_its_default_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    database = doit_commands.open_database("db", JSONCodec())
    database.dump()
    assert type(database) is SqliteDB
