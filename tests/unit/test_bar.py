"""The line of progress, in the columns there are."""

from __future__ import annotations

import pytest

from tasks.bar import ASCII, BLOCKS, columns, fit, gauge, line
from tasks.progress import Progress

HEAD = "   Compiling PyTorch 10 min 03 s"
FILE = "FunctionalizeFallbackKernel.cpp"
HALF = Progress(612, 1368, 1860.0)


@pytest.mark.parametrize(
    ("room", "text"),
    [
        (139, f"{HEAD} [██████████▌             ] 612/1368 44 %, 31 min left, {FILE}"),
        (100, f"{HEAD} [██████████▌             ] 612/1368 44 %, 31 min left, Functionali…"),
        (77, f"{HEAD} [██▌   ] 612/1368 44 %, 31 min left, Functi…"),
        (70, f"{HEAD} [███▌    ] 612/1368 44 %, 31 min left"),
        (60, f"{HEAD} 612/1368 44 %, 31 min left"),
        (40, f"{HEAD} 612/13…"),
        (0, ""),
    ],
)
def test_the_name_gives_way_first_and_then_the_bar(room: int, text: str) -> None:
    assert line(HEAD, FILE, HALF, room, BLOCKS) == text


def test_what_is_at_work_goes_before_the_name_of_the_file() -> None:
    noted = Progress(612, 1368, 1860.0, "2 jobs, 3.1 GiB free")
    text = line(HEAD, FILE, noted, 159, BLOCKS)
    assert text.endswith("31 min left, 2 jobs, 3.1 GiB free, FunctionalizeFallbackKernel.cpp")


def test_no_estimate_is_no_word_about_it() -> None:
    assert line("head", "", Progress(1, 2), 40, BLOCKS) == "head [███████▌       ] 1/2 50 %"


def test_without_progress_the_text_is_there() -> None:
    assert line("head", "fetching its source", None, 40, BLOCKS) == "head: fetching its source"
    assert line("head", "", None, 40, BLOCKS) == "head"


def test_without_utf_8_it_is_ascii() -> None:
    text = line(HEAD, FILE, HALF, 77, ASCII)
    assert text == f"{HEAD} [##----] 612/1368 44 %, 31 min left, Func..."


@pytest.mark.parametrize("room", range(0, 160, 3))
@pytest.mark.parametrize("glyphs", [BLOCKS, ASCII])
def test_it_never_wraps(room: int, glyphs: object) -> None:
    for progress in (None, HALF, Progress(1368, 1368)):
        for text in ("", FILE, "é" * 300, "編譯" * 100):
            assert columns(line(HEAD, text, progress, room, glyphs)) <= room  # type: ignore[arg-type]


def test_a_bar_is_full_only_at_the_end() -> None:
    assert gauge(0, 4, BLOCKS) == "    "
    assert gauge(1367 / 1368, 4, BLOCKS) == "███▌"
    assert gauge(1, 4, BLOCKS) == "████"
    assert gauge(0.5, 4, ASCII) == "##--"


def test_what_moves_the_cursor_is_taken_out() -> None:
    assert fit("\x1b[31mred\x1b[0m\tand\rback", 40, BLOCKS) == "red and back"
