"""The progress line at every terminal width."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.core.build_activity import BuildActivity, HeavyJob, SlowOutput
from tasks.core.ninja_progress import Progress
from tasks.core.text_layout import (
    ASCII_GLYPHS,
    BLOCK_GLYPHS,
    DrawingArea,
    Glyphs,
    fit_columns,
    format_bar,
    format_progress_line,
    format_progress_lines,
    measure_columns,
)
from tests.support.rows import each_row

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
def test_file_name_is_shortened_before_bar(room: int, text: str) -> None:
    assert format_progress_line(HEAD, FILE, HALF, room, BLOCK_GLYPHS) == text


def test_activity_takes_precedence_over_file_name() -> None:
    noted = Progress(612, 1368, 1860.0, BuildActivity(jobs=2, used_mib=3174, limit_mib=24576))
    text = format_progress_line(HEAD, FILE, noted, 159, BLOCK_GLYPHS)
    assert text.endswith("31 min left, 2 jobs, 3.1 of 24 GiB, FunctionalizeFallbackKernel.cpp")


def test_missing_estimate_is_omitted() -> None:
    assert (
        format_progress_line("head", "", Progress(1, 2), 40, BLOCK_GLYPHS)
        == "head [███████▌       ] 1/2 50 %"
    )


def test_text_is_shown_without_progress() -> None:
    assert (
        format_progress_line("head", "fetching its source", None, 40, BLOCK_GLYPHS)
        == "head: fetching its source"
    )
    assert format_progress_line("head", "", None, 40, BLOCK_GLYPHS) == "head"


def test_line_is_ascii_without_utf_8() -> None:
    text = format_progress_line(HEAD, FILE, HALF, 77, ASCII_GLYPHS)
    assert text == f"{HEAD} [##----] 612/1368 44 %, 31 min left, Func..."


@each_row("room", range(0, 160, 3))
@each_row("glyphs", [BLOCK_GLYPHS, ASCII_GLYPHS])
def test_progress_line_never_wraps(room: int, glyphs: object) -> None:
    for progress in (None, HALF, Progress(1368, 1368)):
        for text in ("", FILE, "é" * 300, "編譯" * 100):
            assert measure_columns(format_progress_line(HEAD, text, progress, room, glyphs)) <= room  # type: ignore[arg-type]


def test_bar_is_full_only_at_end() -> None:
    assert format_bar(0, 4, BLOCK_GLYPHS) == "    "
    assert format_bar(1367 / 1368, 4, BLOCK_GLYPHS) == "███▌"
    assert format_bar(1, 4, BLOCK_GLYPHS) == "████"
    assert format_bar(0.5, 4, ASCII_GLYPHS) == "##--"


def test_control_sequences_are_removed() -> None:
    assert fit_columns("\x1b[31mred\x1b[0m\tand\rback", 40, BLOCK_GLYPHS) == "red and back"


AT_WORK = BuildActivity(
    jobs=6,
    held_back=2,
    used_mib=10_035,
    limit_mib=24_576,
    hit_rate=0.789,
    heavy=(
        HeavyJob("flash_bwd_hdim192.cu", 4710, 190.0),
        HeavyJob("flash_fwd_hdim256_bf16_causal_sm80.cu", 2048, 30.0),
    ),
    slowest=(
        SlowOutput("Sort.cu", 179.0),
        SlowOutput("PowKernel.cu", 130.0),
        SlowOutput("Tensor.cu", 90.0),
    ),
)
BUSY = Progress(612, 1368, 1860.0, AT_WORK)
INDENT = " " * 13
HEAVY = "heavy: flash_bwd_hdim192.cu 4.6 GiB 3 min"


def below(columns: int, glyphs: Glyphs = BLOCK_GLYPHS, rows: int = 24) -> list[str]:
    """Return the lines below the progress line."""
    first, *rest = format_progress_lines(
        HEAD, FILE, BUSY, DrawingArea(columns, rows, glyphs)
    ).split("\n")
    assert first.startswith(HEAD)
    return [row.removeprefix(INDENT) for row in rest]


def test_activity_is_shown_below_progress_line() -> None:
    counts, named = below(197)
    assert counts == "6 jobs (2 held back) · 9.8 of 24 GiB · 78 % cache hits"
    assert named == (
        "heavy: flash_bwd_hdim192.cu 4.6 GiB 3 min, flash_fwd_hdim256_bf16_causal_sm80.cu 2 GiB · "
        "slowest: Sort.cu 2 min 59 s, PowKernel.cu 2 min 10 s, Tensor.cu 1 min 30 s"
    )
    first = format_progress_lines(HEAD, FILE, BUSY, DrawingArea(197, 24, BLOCK_GLYPHS)).partition(
        "\n"
    )[0]
    assert first == format_progress_line(HEAD, FILE, HALF, 197, BLOCK_GLYPHS)


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        (
            120,
            f"{HEAVY} · slowest: Sort.cu 2 min 59 s, PowKernel.cu 2 min 10 s",
        ),
        (97, f"{HEAVY} · slowest: Sort.cu 2 min 59 s"),
        (77, HEAVY),
    ],
)
def test_heaviest_jobs_are_named_first_as_space_allows(columns: int, named: str) -> None:
    assert below(columns)[1] == named


def test_very_long_name_is_truncated() -> None:
    endless = replace(AT_WORK, heavy=(HeavyJob("x" * 100, 4710, 190.0),))
    text = format_progress_lines(
        HEAD, FILE, replace(BUSY, at_work=endless), DrawingArea(77, 24, BLOCK_GLYPHS)
    )
    assert text.endswith(f"heavy: {'x' * 39}… 4.6 GiB 3 min")


def test_activity_is_ascii_without_utf_8() -> None:
    assert below(77, ASCII_GLYPHS)[0] == "6 jobs (2 held back), 9.8 of 24 GiB, 78 % cache hits"
    assert "".join(below(197, ASCII_GLYPHS)).isascii()


@pytest.mark.parametrize(("columns", "rows"), [(69, 24), (197, 14)])
def test_small_terminal_shows_only_progress_line(columns: int, rows: int) -> None:
    text = format_progress_lines(HEAD, FILE, BUSY, DrawingArea(columns, rows, BLOCK_GLYPHS))
    assert text == format_progress_line(HEAD, FILE, BUSY, columns, BLOCK_GLYPHS)
    assert "\n" not in text


def test_unknown_activity_takes_no_line() -> None:
    space = DrawingArea(97, 24, BLOCK_GLYPHS)
    assert format_progress_lines(HEAD, FILE, HALF, space) == format_progress_line(
        HEAD, FILE, HALF, 97, BLOCK_GLYPHS
    )
    assert format_progress_lines(HEAD, FILE, None, space) == format_progress_line(
        HEAD, FILE, None, 97, BLOCK_GLYPHS
    )


@each_row("room", range(0, 240, 3))
@each_row("glyphs", [BLOCK_GLYPHS, ASCII_GLYPHS])
def test_activity_lines_never_wrap(room: int, glyphs: Glyphs) -> None:
    for row in format_progress_lines(HEAD, FILE, BUSY, DrawingArea(room, 24, glyphs)).split("\n"):
        assert measure_columns(row) <= room
