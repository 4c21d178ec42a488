"""A log without a known failure has the kind of its first error, with what its names say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.log_lines import RawLine
from tasks.doctor.explain_failure_io import FailureExplanation, explain_log
from tasks.knowledge.error_kinds import KIND_FILES, compile_name
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row

CASES = Path(__file__).parents[1] / "failures" / "kinds"
_WORD = re.compile(r"\{([a-z_]+)\}")


def read_cases() -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield the area, the log, the expected kind or failure, and the words of the texts."""
    for path in sorted(CASES.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")):
            yield path.stem, case["log"], case["found"], case.get("says", [])


ROWS = list(read_cases())


def explain(log: str) -> FailureExplanation:
    raws = [RawLine(number, text) for number, text in enumerate(log.split("\n"), 1)]
    return explain_log(ParsedLog(raws), KNOWLEDGE, None)


def identify(explanation: FailureExplanation) -> str:
    found = explanation.found
    if found.failure:
        return found.failure.slug
    return found.kind.kind.slug if found.kind else "unknown"


@each_row(("log", "expected", "words"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_log_has_its_kind(log: str, expected: str, words: list[str]) -> None:
    explanation = explain(log)
    text = f"{explanation.cause}\n{explanation.remedy}"
    assert identify(explanation) == expected, text
    assert [word for word in words if word not in text] == [], text
    assert not _WORD.search(text), text


@pytest.mark.parametrize("kind", KNOWLEDGE.kinds, ids=lambda kind: kind.slug)
def test_words_of_a_kind_are_groups_of_its_patterns(kind: Any) -> None:
    groups = [set(re.compile(pattern).groupindex) for pattern in kind.patterns]
    words = set(_WORD.findall(kind.cause))
    words -= {"name"} if all("symbol" in one for one in groups) else set()
    words -= {"importer", "own_file"} if kind.about == "Python" else set()  # of the traceback
    words -= {f"log_{one.rpartition(' ')[0].lower().replace(' ', '_')}" for one in kind.machine}
    nearby = [set(re.compile(pattern).groupindex) for pattern in kind.near]
    words -= {word for word in words if nearby and all(word in one for one in nearby)}
    assert all(words <= one for one in groups), kind.slug
    keyed = nearby if nearby and all(kind.key in one for one in nearby) else groups
    assert not kind.table or all(kind.key in one for one in keyed)
    assert not kind.table or kind.table in KNOWLEDGE.names


def test_every_row_of_a_table_is_useful() -> None:
    for table, rows in KNOWLEDGE.names.items():
        for row in rows:
            compile_name(row.match)
            assert row.cause or row.packages or row.remedy, f"{table}: {row.match}"


def test_ids_and_tables_are_used_once() -> None:
    files = [KNOWLEDGE.read_notes(f"kinds/{name}") for name in KIND_FILES]
    ids = [kind["id"] for file in files for kind in file["kinds"]]
    tables = [name for file in files for name in file.get("tables") or {}]
    assert [name for name, times in Counter([*ids, *tables]).items() if times > 1] == []
