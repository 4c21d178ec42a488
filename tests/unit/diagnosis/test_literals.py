"""The texts that spare searching never keep a pattern from what it matches."""

from __future__ import annotations

from tasks.diagnosis.failure_matches import (
    _collect_literals,
    _compile_patterns,
    find_required_literals,
)
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row
from tests.unit.diagnosis.test_diagnosis import SAID


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
def test_every_text_that_each_match_has_in_it_is_found(
    pattern: str, texts: set[str] | None
) -> None:
    assert find_required_literals(pattern) == texts


def test_no_pattern_is_kept_from_what_it_matches() -> None:
    lines = {line for _, log in SAID for line in log.splitlines()}
    for one in KNOWLEDGE.failures:
        texts = _collect_literals(one.patterns, one.headers)
        found = _compile_patterns(one.patterns, one.headers)
        for line in lines if texts is not None else ():
            if found.search(line):
                assert any(text in line.lower() for text in texts or ()), (one.slug, line)
