"""Old words and phrases, listed in plain_language.yaml, are not used again.

Identifiers are modules, classes, functions, parameters and variables. Fields of a class are left
out: many are keys of files that older versions wrote.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.checkout import ROOT

LISTS: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("plain_language.yaml").read_text(encoding="utf-8")
)
OLD_NAMES: dict[str, str] = LISTS["names"]
OLD_PHRASES = {
    re.compile(phrase.replace(" ", r"\s+"), re.IGNORECASE): replacement
    for phrase, replacement in LISTS["phrases"].items()
}
MODULES = sorted((ROOT / "tasks").rglob("*.py"))
TEXTS = sorted(
    path
    for pattern in ("templates/**/*", "config/**/*.yaml", "docs/**/*.md", "*.md")
    for path in ROOT.glob(pattern)
    if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("local")
)
_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


class Hit(NamedTuple):
    """An old word or phrase: where it is, what was found, and what to write instead."""

    file: str
    line: int
    found: str
    replacement: str


def list_old_names(file: str, code: str) -> Iterator[Hit]:
    named = [(1, Path(file).stem), *_list_identifiers(ast.parse(code))]
    for line, identifier in named:
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)
        for word in map(str.lower, words):
            if word in OLD_NAMES:
                yield Hit(file, line, identifier, OLD_NAMES[word])


def _list_identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    fields = {
        id(statement.target)
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef)
        for statement in owner.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and id(node) not in fields
        ):
            yield node.lineno, node.id


def list_old_phrases(file: str, text: str, first_line: int = 1) -> Iterator[Hit]:
    for phrase, replacement in OLD_PHRASES.items():
        for match in phrase.finditer(text):
            line = first_line + text.count("\n", 0, match.start())
            yield Hit(file, line, " ".join(match[0].split()), replacement)


def list_old_phrases_of_code(file: str, code: str) -> Iterator[Hit]:
    """Search docstrings, other string constants, and comments."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT or token.type in _STRINGS:
            yield from list_old_phrases(file, token.string, token.start[0])


def list_hits() -> Iterator[Hit]:
    for path in MODULES:
        file, code = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        yield from list_old_names(file, code)
        yield from list_old_phrases_of_code(file, code)
    for path in TEXTS:
        yield from list_old_phrases(
            path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        )


def test_old_words_are_not_used() -> None:
    allowed = {(one["file"], one["found"]) for one in LISTS["exceptions"]}
    hits = list(list_hits())
    report = [
        f"{hit.file}:{hit.line}: {hit.found!r}; write: {hit.replacement}"
        for hit in hits
        if (hit.file, hit.found) not in allowed
    ]
    assert not report, "\n" + "\n".join(report)
    assert allowed <= {(hit.file, hit.found) for hit in hits}, "remove unused exceptions"


def test_exceptions_are_few_and_have_a_reason() -> None:
    assert len(LISTS["exceptions"]) <= 8
    for one in LISTS["exceptions"]:
        assert set(one) == {"file", "found", "reason"}
        assert one["reason"].strip()


def test_all_kinds_of_text_are_searched() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in TEXTS}
    assert {
        "README.md", "README.zh-CN.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/settings.md",
        "docs/adr/index.md", "config/default.yaml", "config/knowledge/failures.yaml",
        "templates/report.html.j2",
    } <= files  # fmt: skip


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def read_told_value(): ...", [(1, "read_told_value")]),
        ("class OldYard: ...", [(1, "OldYard")]),
        ("x = 1\ndef f(*, asked=0): ...", [(2, "asked")]),
        ("for cell in (): pass", [(1, "cell")]),
        ("class Wheel:\n    asked: str", []),
        ("maker = remade = cellar = 0", []),
    ],
)
def test_old_names_are_found(code: str, expected: list[tuple[int, str]]) -> None:
    assert [(hit.line, hit.found) for hit in list_old_names("tasks/x.py", code)] == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('"""Build.\n\nBuild it\nAnew."""', [(4, "Anew")]),
        ("# it was cut off", [(1, "cut off")]),
        ('f"{1} is to\\tbe made"', []),
        ('x = f"{1} is to be made"', [(1, "is to be")]),
        ('"""It is to\n    be made."""', [(1, "is to be")]),
        ("'if there is none, or it is None'", []),
        ("anew = 1", []),
    ],
)
def test_old_phrases_are_found(code: str, expected: list[tuple[int, str]]) -> None:
    hits = list_old_phrases_of_code("tasks/x.py", code)
    assert [(hit.line, hit.found) for hit in hits] == expected
