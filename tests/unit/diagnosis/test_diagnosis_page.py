"""docs/diagnosis.md: made of failures.yaml, every cause of it, in words that are found in logs."""

from __future__ import annotations

import html
import re

import pytest

from tasks.diagnosis.diagnosis_page import generate_examples, render_diagnosis_page
from tests.support.checkout import KNOWLEDGE, ROOT

PAGE = render_diagnosis_page(KNOWLEDGE)
STANDS_FOR = ("…", "a", "C", "a 0", " ", "0.")  # what "…" may be where a pattern takes not all


def test_the_page_is_fresh() -> None:
    kept = (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    assert kept == PAGE, "python -m tasks.cli.generated_files"


def test_every_cause_and_what_to_do_is_on_it() -> None:
    titles = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
    assert sorted(set(titles)) == sorted({one.slug for one in KNOWLEDGE.failures})
    plain = html.unescape(PAGE).replace("\\", "")
    for failure in KNOWLEDGE.failures:
        assert failure.remedy[1:].replace("\\", "") in plain
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
def test_an_expression_is_told_as_what_a_person_sees(pattern: str, seen: str) -> None:
    assert "\n".join(generate_examples(pattern)) == seen


def test_what_is_shown_is_what_is_recognised() -> None:
    """But for few, which look around themselves: what they look at is not shown."""
    found = [
        any(re.search(pattern, told.replace("…", one), re.IGNORECASE) for one in STANDS_FOR)
        for failure in KNOWLEDGE.failures
        for pattern in (*failure.patterns, *failure.headers)
        for told in generate_examples(pattern)
    ]
    assert sum(found) / len(found) > 0.95
