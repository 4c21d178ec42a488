"""Text is wrapped without losing words, and text that fits is unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core.text_layout import (
    format_labeled_lines,
    measure_columns,
    wrap_text,
    wrap_with_hanging_indent,
)
from tests.support.rows import each_row

WORDS = st.lists(
    st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20), max_size=30
)


@given(WORDS, st.integers(24, 200))
def test_wrapping_keeps_word_order_and_respects_width(words: list[str], room: int) -> None:
    lines = wrap_text(" ".join(words), room)
    assert " ".join(lines).split() == words
    assert all(measure_columns(line) <= room or " " not in line for line in lines)


@given(WORDS, st.integers(40, 200), st.integers(0, 60))
def test_labeled_row_keeps_all_words_at_any_width(words: list[str], room: int, indent: int) -> None:
    wrapped = list(format_labeled_lines("key", " ".join(words), indent, room))
    assert " ".join(wrapped).split() == ["key", *words]


def test_labeled_row_continues_below_its_text() -> None:
    assert list(format_labeled_lines("key", "one two three four five six", 6, 30)) == [
        "key   one two three four five",
        "      six",
    ]


def test_label_wider_than_indent_gets_its_own_line() -> None:
    assert list(format_labeled_lines("a-long-key", "text", 6, 60)) == ["a-long-key", "      text"]


def test_row_that_fits_is_unchanged() -> None:
    assert list(format_labeled_lines("a key that is wide", "text", 20, 26)) == [
        "a key that is wide  text"
    ]


def test_lines_that_fit_are_unchanged() -> None:
    text = "a  b\n\n   → c   d\n\x1b[1mpassed\x1b[0m  x"
    assert wrap_with_hanging_indent(text, 80) == text


@pytest.mark.parametrize("mark", ["→ ", "-> ", "- ", ""])
def test_long_line_is_wrapped_with_hanging_indent(mark: str) -> None:
    first, *more = wrap_with_hanging_indent(f"  {mark}{'word ' * 12}".rstrip(), 40).split("\n")
    assert first.startswith(f"  {mark}word")
    assert more
    assert all(line.startswith(" " * (2 + len(mark)) + "word") for line in more)


def test_standalone_command_is_not_wrapped() -> None:
    command = "      sudo apt install build-essential python3-dev git and more of it"
    assert wrap_with_hanging_indent(command, 40) == command


@each_row(
    "command",
    [
        "sudo apt install build-essential",
        "doit lock",
        "doit build --heal profile=mine",
        "/v/bin/python -m pip install 'cmake>=3.27'",
        "git -C /src/x submodule update",
    ],
)
@each_row("after", [", and the same again", " and go on with it", " (or another)"])
def test_command_in_sentence_is_kept_on_one_line_if_it_fits(command: str, after: str) -> None:
    text = f"  → there is none here: {command}{after}"
    for room in range(50, 90):
        lines = wrap_with_hanging_indent(text, room).split("\n")
        assert any(command in line for line in lines), lines
        assert " ".join(line.strip() for line in lines) == text.strip()
        assert all(measure_columns(line) <= room for line in lines)


def test_command_wider_than_line_is_wrapped_between_words() -> None:
    lines = wrap_text("sudo apt install build-essential python3-dev git ccache", 30)
    assert lines == ["sudo apt install", "build-essential python3-dev", "git ccache"]


def test_prose_after_doit_command_is_wrapped() -> None:
    assert wrap_text("say doit lock and go on with it", 12) == [
        "say",
        "doit lock",
        "and go on",
        "with it",
    ]


def test_text_that_grows_in_ascii_still_fits() -> None:
    wrapped = wrap_with_hanging_indent(
        "      one … two … three … four", 30, lambda text: text.replace("…", "...")
    )
    assert all(measure_columns(line) <= 30 for line in wrapped.split("\n"))


def test_color_codes_take_no_columns() -> None:
    assert measure_columns("\x1b[1;32mok\x1b[0m") == 2
