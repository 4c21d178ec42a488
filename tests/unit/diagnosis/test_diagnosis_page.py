"""docs/diagnosis.md is generated from failures.yaml and lists every cause with its log text."""

from __future__ import annotations

import html
import re

import pytest

from tasks.cli.generated_files import render_generated_files
from tasks.diagnosis.diagnosis_page import generate_examples, render_diagnosis_page
from tests.support.checkout import KNOWLEDGE, ROOT

PAGE = render_diagnosis_page(KNOWLEDGE)
ELLIPSIS_TEXTS = ("…", "a", "C", "a 0", " ", "0.")  # texts that "…" may stand for


def test_diagnosis_page_is_up_to_date() -> None:
    current = (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    assert current == render_generated_files()["docs/diagnosis.md"], (
        "python -m tasks.cli.generated_files"
    )


def test_page_lists_every_cause_and_remedy() -> None:
    titles = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
    assert sorted(set(titles)) == sorted({one.slug for one in KNOWLEDGE.failures})
    plain = html.unescape(PAGE).replace("\\", "")
    for failure in KNOWLEDGE.failures:
        for step in failure.remedy:
            assert step[1:].replace("\\", "") in plain
        assert failure.cause[1:].replace("\\", "") in plain


@pytest.mark.parametrize(
    ("pattern", "seen"),
    [
        (r"capability sm_\d+ is not", "capability sm_0 is not"),
        (r"\bENOSPC\b|\[Errno (?:28|122)\]", "ENOSPC\n[Errno 28]"),
        (r"cannot (?:be )?found(?= now)", "cannot be found"),
        (r"symbol \S+,? version lib(?:cu\w+|nv\w+)\.so", "symbol … version libcu….so"),
        (r"\(?'?_{1,2}Z", "_Z"),
    ],
)  # fmt: skip
def test_pattern_is_rendered_as_example(pattern: str, seen: str) -> None:
    assert "\n".join(generate_examples(pattern)) == seen


def test_shown_examples_match_their_patterns() -> None:
    """A few patterns with lookaround are exempt: the example omits the text they look at."""
    found = [
        any(re.search(pattern, example.replace("…", one), re.IGNORECASE) for one in ELLIPSIS_TEXTS)
        for failure in KNOWLEDGE.failures
        for pattern in (*failure.patterns, *failure.headers)
        for example in generate_examples(pattern)
    ]
    assert sum(found) / len(found) > 0.95
