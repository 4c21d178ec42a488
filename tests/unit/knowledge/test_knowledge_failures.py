"""Causes identified from real tool output; the cause is not always the last line."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tasks.knowledge.known_problems import find_run_failure
from tests.support.checkout import KNOWLEDGE, ROOT
from tests.support.rows import each_row


def sample_texts() -> Iterator[tuple[str, str]]:
    """Return the texts of failures.txt, each with its cause."""
    text = (ROOT / "tests" / "unit" / "failures.txt").read_text(encoding="utf-8")
    for section in text.split("\n== ")[1:]:
        slug, _, texts = section.partition("\n")
        yield from ((slug, one) for one in texts.split("\n--\n"))


SAID = list(sample_texts())


@each_row(("slug", "text"), SAID, ids=[slug for slug, _ in SAID])
def test_error_output_identifies_the_cause(slug: str, text: str) -> None:
    found = find_run_failure(KNOWLEDGE, text)
    assert found is not None
    assert found.slug == slug


@pytest.mark.parametrize(
    "text",
    [
        "",
        "matmul deviates from the exact result by 3.1 times the tolerance",
        "Error checking compiler version for cl: [WinError 2] The system cannot find the file",
        "ModuleNotFoundError: No module named 'simple_knn'",
    ],
)
def test_unknown_error_output_has_no_cause(text: str) -> None:
    assert find_run_failure(KNOWLEDGE, text) is None


def test_every_cause_has_a_sample_text() -> None:
    met = {failure.slug for failure in KNOWLEDGE.failures if failure.phase == "run"}
    assert {slug for slug, _ in SAID} == met


def test_every_failure_has_a_valid_pattern_and_a_remedy() -> None:
    sure = [one for one in KNOWLEDGE.failures if one.rank not in {"hint", "notice"}]
    slugs = [failure.slug for failure in sure if failure.phase == "run"]
    assert len(set(slugs)) == len(slugs)
    for failure in KNOWLEDGE.failures:
        assert [re.compile(pattern) for pattern in failure.patterns]
        assert failure.cause
        assert failure.remedy
        assert not re.search(failure.patterns[0], ""), f"{failure.slug} would be told always"


def test_first_matching_failure_is_used() -> None:
    both = "Found no NVIDIA driver on your system\nError 804: forward compatibility"
    order = [failure.slug for failure in KNOWLEDGE.failures]
    assert order.index("cuda-804-driver") < order.index("cuda-driver-missing")
    found = find_run_failure(KNOWLEDGE, both)
    assert found is not None
    assert found.slug == "cuda-804-driver"
