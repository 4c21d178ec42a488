"""Wrap and lay out text for a terminal. Words are not broken, so that paths can be copied."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.core.build_activity import BuildActivity, HeavyJob, SlowOutput
    from tasks.core.ninja_progress import Progress

_BAR_COLUMNS = (5, 24)  # minimum and maximum width of a bar
_MIN_NAME_COLUMNS = 7  # minimum width of a name that is still useful
_MIN_TERMINAL_SIZE = (70, 15)  # columns and rows of a terminal that fits more than one line
_DETAIL_INDENT = " " * 13  # indent of the lines below a stage's line
_MAX_NAME_COLUMNS = 40  # maximum width of a name in a list
# Numbers of heavy jobs and of slow outputs to name: the first pair that fits
_SHOWN_ITEM_COUNTS = ((2, 3), (2, 2), (1, 3), (1, 2), (1, 1), (1, 0))
_CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Glyphs:
    """Drawing characters: `shades` for a bar, `more` after cut text, `between` as separator."""

    shades: str
    more: str
    between: str


BLOCK_GLYPHS = Glyphs(" ▌█", "…", " · ")  # in every font, also in that of the Windows console
ASCII_GLYPHS = Glyphs("-#", "...", ", ")


@dataclass(frozen=True)
class DrawingArea:
    """The columns of a line, the rows of the terminal, and the characters to draw with."""

    columns: int
    rows: int
    glyphs: Glyphs


def format_progress_lines(
    head: str, text: str, progress: Progress | None, space: DrawingArea
) -> str:
    """Return the progress line and, if the terminal is large enough, the running jobs below it."""
    columns, glyphs, lines = space.columns, space.glyphs, []
    if progress and columns >= _MIN_TERMINAL_SIZE[0] and space.rows >= _MIN_TERMINAL_SIZE[1]:
        at_work, width = progress.at_work, columns - len(_DETAIL_INDENT)
        activity = progress.stall_message or _format_activity(at_work, width, glyphs)
        details = filter(None, (glyphs.between.join(at_work.counts), activity))
        lines = [fit_columns(f"{_DETAIL_INDENT}{row}", columns, glyphs) for row in details]
        progress = progress.without_activity
    return "\n".join([format_progress_line(head, text, progress, columns, glyphs), *lines])


def _format_activity(at_work: BuildActivity, columns: int, glyphs: Glyphs) -> str:
    # As `heavy: flash_bwd.cu 4.6 GiB 3 min · slowest: Sort.cu 2 min 59 s`, as many as fit
    text = ""
    for heavy_count, slowest_count in _SHOWN_ITEM_COUNTS:
        heavy = _format_named_items("heavy", at_work.heavy[:heavy_count], glyphs)
        slowest = _format_named_items("slowest", at_work.slowest[:slowest_count], glyphs)
        text = glyphs.between.join(filter(None, (heavy, slowest)))
        if measure_columns(text) <= columns:
            break
    return text


def _format_named_items(what: str, ones: Sequence[HeavyJob | SlowOutput], glyphs: Glyphs) -> str:
    texts = [f"{fit_columns(one.name, _MAX_NAME_COLUMNS, glyphs)} {one.summary}" for one in ones]
    return f"{what}: {', '.join(texts)}" if texts else ""


def format_progress_line(
    head: str, text: str, progress: Progress | None, columns: int, glyphs: Glyphs
) -> str:
    """Return `head: text`, or `head [███▌  ] 612/1368 45 %, 31 min left, text` with progress."""
    if progress is None or not progress.total:
        return fit_columns(f"{head}: {text}" if text else head, columns, glyphs)
    count = f"{progress.done}/{progress.total} {progress.percent} %"
    count = f"{count}, {progress.time_left}" if progress.time_left else count
    minimum, maximum = _BAR_COLUMNS
    free = columns - measure_columns(f"{head}  {count}")
    width = min(free - len("[], ") - _MIN_NAME_COLUMNS, maximum)
    name = free - len("[], ") - width
    if width < minimum:  # no name fits beside a bar
        name, width = 0, min(free - len("[]"), maximum)
        width = width if width >= minimum else 0
    bar = f"[{format_bar(progress.done / progress.total, width, glyphs)}] " if width else ""
    text = ", ".join(filter(None, (*progress.at_work.counts, text)))
    activity = f", {fit_columns(text, name, glyphs)}" if name and text else ""
    return fit_columns(f"{head} {bar}{count}{activity}", columns, glyphs)


def format_bar(share: float, width: int, glyphs: Glyphs) -> str:
    """Return a bar such as `███▌  ` for a `share` from 0 to 1."""
    shades, steps = glyphs.shades, len(glyphs.shades) - 1
    full_blocks, shade = divmod(int(share * width * steps), steps)
    return f"{shades[-1] * full_blocks}{shades[shade] * bool(shade)}".ljust(width, shades[0])


def fit_columns(text: str, columns: int, glyphs: Glyphs) -> str:
    """Return `text` cut to `columns`, without colours and control characters."""
    text = _CONTROL_SEQUENCE.sub(lambda found: "" if found[0][0] == "\x1b" else " ", text)
    if measure_columns(text) <= columns:
        return text
    prefix = text[: max(columns - len(glyphs.more), 0)]
    while measure_columns(prefix) > columns - len(glyphs.more) and prefix:
        prefix = prefix[:-1]
    return f"{prefix}{glyphs.more}"[:columns]


def measure_columns(text: str) -> int:
    """Return the display width of `text`: 0 for color codes, 2 for each wide character."""
    text = _COLOR_CODE.sub("", text) if "\x1b" in text else text
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


MIN_TEXT_COLUMNS = 24  # minimum width of a text, even on a narrow terminal or with a deep indent
_COMMAND_INDENT = 6  # spaces before a command that has its own line below a hint
_LINE_START = re.compile(r" *(?:(?:→|->|-) )?")
# Commands in a hint: the beginning of a command, up to the word where the sentence continues
_COMMAND_ARGUMENTS = (
    r"(?:(?<![,;:.)]) (?!\(|(?:and|or|then|into|in|for|to|by|with|where|which|beside|up)\b)\S+)*"
)
_WORD_OR_COMMAND = re.compile(
    r"(\s*)([(\"'`]*(?:"
    r"doit [a-z][\w:-]*(?: (?:--[a-z]|profile=)\S*)*\S*"
    rf"|(?:sudo \S+|(?:\S+ -m )?pip install|git -C \S+){_COMMAND_ARGUMENTS}"
    r")|\S+)"
)
_SINGLE_WORD = re.compile(r"(\s*)(\S+)")
_COLOR_CODE = re.compile(r"\x1b\[[0-9;]*m")


def wrap_text(text: str, columns: int) -> list[str]:
    """Return `text` as lines of at most `columns`, and keep the line breaks in `text`."""
    return [line for part in text.splitlines() for line in _wrap_line(part, columns)] or [""]


def format_labeled_lines(key: str, text: str, indent: int, columns: int) -> Iterator[str]:
    """Yield lines of at most `columns`: `key`, then `text` in a column that starts at `indent`."""
    if not (key and measure_columns(key) <= indent and indent + measure_columns(text) <= columns):
        indent = min(indent, max(columns - MIN_TEXT_COLUMNS, 0))
    first_line, *other_lines = wrap_text(text, columns - indent)
    if key.strip() and measure_columns(key.rstrip()) >= indent:
        yield key.rstrip()
        key = ""
    yield f"{key}{' ' * (indent - measure_columns(key))}{first_line}".rstrip()
    yield from (f"{'':{indent}}{line}".rstrip() for line in other_lines)


def wrap_with_hanging_indent(text: str, columns: int, encode: Callable[[str], str] = str) -> str:
    """Encode and wrap each line of `text` and keep its indent. Indented commands stay whole."""
    lines: list[str] = []
    for line in text.split("\n"):
        encoded = encode(line)
        match = _LINE_START.match(encoded)
        indent = match[0] if match else ""
        is_command = len(indent) >= _COMMAND_INDENT and indent.isspace()
        if measure_columns(encoded) <= columns or (is_command and measure_columns(line) > columns):
            lines.append(encoded)
        else:
            lines += format_labeled_lines(indent, encoded[len(indent) :], len(indent), columns)
    return "\n".join(lines)


def _wrap_line(text: str, columns: int) -> Iterator[str]:
    # The spaces between words stay, except at the end of a line
    line = ""
    for first_gap, piece in _WORD_OR_COMMAND.findall(text):
        is_wide = " " in piece and measure_columns(piece) > columns  # a command, which is split
        words = _SINGLE_WORD.findall(first_gap + piece) if is_wide else [(first_gap, piece)]
        for gap, word in words:
            if line and measure_columns(f"{line}{gap}{word}") > columns:
                yield line
                line = word
            else:
                line = f"{line}{gap}{word}" if line else word
    yield line
