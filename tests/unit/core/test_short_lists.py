"""Long lists are shortened to one readable line."""

from __future__ import annotations

from tasks.core.text_formatting import format_short_list, format_short_reasons


def test_list_within_limit_is_shown_in_full() -> None:
    assert format_short_list(["a", "b"], 2) == "a, b"
    assert format_short_list([], 2) == ""
    assert format_short_reasons(["the archs moved"]) == "the archs moved"


def test_list_over_limit_ends_with_remaining_count() -> None:
    assert format_short_list(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert format_short_list(["a: 1", "b: 2", "c: 3"], 2, "; ") == "a: 1; b: 2 and 1 more"
    assert (
        format_short_reasons(["the archs moved", "env.json changed", "x"])
        == "the archs moved (and 2 more)"
    )
