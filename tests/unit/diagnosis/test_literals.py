"""The literals that prefilter a line never hide a match of their pattern."""

from __future__ import annotations

from tasks.diagnosis.failure_matches import (
    _collect_literals,
    _compile_patterns,
    find_required_literals,
)
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row
from tests.unit.diagnosis.test_diagnosis import KNOWN


@each_row(
    ("pattern", "texts"),
    [
        ("No space left", {"no space left"}),
        (r"\bC1060\b", {"c1060"}),
        (r"colou?rs and", {"rs and"}),
        (r"(?:fatal|error): .*(?:early EOF|RPC failed)", {"early eof", "rpc failed"}),
        (r"(?:maybe )?always", {"always"}),
        (r"one|(?:two|three)s?", {"one", "two", "three"}),
        (r"a[bc]d\d+", None),
        (r"x{0,40}yes\.no", {"yes.no"}),
        (r"one|\w+", None),
    ],
)
def test_required_literals_of_pattern_are_found(pattern: str, texts: set[str] | None) -> None:
    assert find_required_literals(pattern) == texts


def test_literal_filter_keeps_every_matching_line() -> None:
    lines = {line for _, log in KNOWN for line in log.splitlines()}
    for failure in KNOWLEDGE.failures:
        texts = _collect_literals(failure.patterns, failure.headers)
        found = _compile_patterns(failure.patterns, failure.headers)
        for line in lines if texts is not None else ():
            if found.search(line):
                assert any(text in line.lower() for text in texts or ()), (failure.slug, line)
