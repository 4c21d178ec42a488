"""Long lists, in a line that a person reads."""

from __future__ import annotations

from tasks.core.text_formatting import format_short_list, format_short_reasons


def test_a_list_that_fits_is_told_whole() -> None:
    assert format_short_list(["a", "b"], 2) == "a, b"
    assert format_short_list([], 2) == ""
    assert format_short_reasons(["the archs moved"]) == "the archs moved"


def test_a_longer_one_says_how_many_more_there_are() -> None:
    assert format_short_list(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert format_short_list(["a: 1", "b: 2", "c: 3"], 2, "; ") == "a: 1; b: 2 and 1 more"
    assert (
        format_short_reasons(["the archs moved", "env.json changed", "x"])
        == "the archs moved (and 2 more)"
    )
