"""The reader of facts: same results as PyYAML, and its own errors."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import pytest
import yaml

from tasks.core.errors import KnowledgeError
from tasks.knowledge import knowledge_files
from tasks.knowledge.knowledge_files_io import load_knowledge
from tests.support.rows import each_row

FACTS = sorted((Path(__file__).parents[3] / "config" / "knowledge").glob("*.yaml"))
TEXTS = [
    "",
    "# nothing\n",
    "a: 1",
    "a: 1.10\nb: '1.10'\nc: \"1.10\"",
    "[yes, no, on, off, true, ~, null, '', 0x1f, 0o7, 017, 1_000, 3:10, .5, 1e3, -.inf]",
    "a: 2026-11-22",
    "a: &x [1, 2]\nb: *x",
    "a: !!str 12",
    "base: &b {a: 1}\nmore: {<<: *b, c: 2}",
    "'<<': {a: 1}",
    "a: >-\n  folded\n  text\nb: |\n  kept\n",
    "? [1, 2]\n: x",
    "12: a\ntrue: b\n~: c",
    "- - - deep\n-\n- {}\n- []",
]


@each_row("path", FACTS, ids=lambda path: path.stem)
def test_facts_are_parsed_as_by_pyyaml(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert knowledge_files.parse_yaml(text) == yaml.safe_load(text)


@each_row("text", TEXTS)
def test_any_valid_yaml_is_parsed_as_by_pyyaml(text: str) -> None:
    try:
        expected = yaml.safe_load(text)
    except yaml.YAMLError:
        with pytest.raises(yaml.YAMLError):
            knowledge_files.parse_yaml(text)
        return
    found = knowledge_files.parse_yaml(text)
    assert found == expected
    assert repr(found) == repr(expected), "of the same types, too"


def test_date_is_parsed_as_a_date() -> None:
    assert knowledge_files.parse_yaml("a: 2026-11-22") == {"a": datetime.date(2026, 11, 22)}


@pytest.mark.parametrize("text", ["a: [1\nb: 2", "a: 1\n b: 2", "a: 'x", "--- a\n--- b", "a: @x"])
def test_syntax_error_is_reported_with_its_line(text: str) -> None:
    with pytest.raises(yaml.YAMLError) as error:
        knowledge_files.parse_yaml(text)
    assert "line " in str(error.value)


def test_syntax_error_in_facts_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "gpus.yaml").write_text("gpus:\n  - a: 1\n  b: 2\n", encoding="utf-8")
    with pytest.raises(KnowledgeError, match="not valid YAML") as error:
        _ = load_knowledge(tmp_path).gpus
    assert error.value.location == str(tmp_path / "gpus.yaml")
    assert "line 3" in error.value.hint


def test_result_is_the_same_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "cyaml", raising=False)
    monkeypatch.setitem(sys.modules, "yaml.cyaml", None)
    assert knowledge_files.parse_yaml("a: [1, yes]") == {"a": [1, True]}
