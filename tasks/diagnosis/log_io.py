"""Read the relevant lines of a log of any size and encoding, with their numbers, in one pass.

Memory is bounded: of a very large log, only the head, the end and the lines around error keywords
are kept. UTF-8, UTF-16, cp936, cp932 and cp1252 are decoded; any other byte is replaced.
"""

import os
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BufferedReader
from itertools import accumulate, islice
from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.log_lines import RawLine

_BLOCK = 1 << 20
_PEEK_BYTES = 4096
_MAX_LINE_BYTES = 1 << 16  # longer lines are split: a file may have no line ends
_HEAD_LINES, _END_LINES, _MAX_KEPT_LINES, _MAX_TEXT_LENGTH = 200, 400, 20_000, 2000
_CONTEXT_BEFORE, _CONTEXT_AFTER = 5, 8
_DENSE = 20  # lines are searched one by one if more than 1 in 20 has the keyword
_ERROR_KEYWORDS = tuple(
    word.encode()
    for word in (
        *("error", "fatal", "failed", "exception", "killed", "cannot ", "could not", "not found"),
        *("no such", "no space", "undefined", "unsupported", "denied", "unable to", "died "),
        *("mismatch", "not compatible", "terminated", "retrying (", "signal ", "\u9519\u8bef"),
        *("\u30a8\u30e9\u30fc", "fehler", "failure", "refused", "not a git", "successfully "),
        *("is required", "pip's", "segmentation", "incompatible", "out of memory", "no module"),
        *("timed out", "$ /", "ошибка", "오류", "espacio", "осталось"),
    )
)
# Compiler flags that contain "error", each with a replacement of the same length
_WERROR_FLAGS = ((b"-wno-error", b"-wno-....."), (b"-werror", b"-w....."))
_WARNING_BYTES = re.compile(rb"[:)] ?warning|\bwarning [#A-Z]|^cc1plus: warning")
_DIGITS = b"0123456789abcdef"  # characters of numbers and digests
_MAX_ALIKE, _MAX_SHAPES = 20, 50_000


def parse_log(path: Path, begun: int = 0) -> ParsedLog:
    """Return the parsed log from byte `begun` on. Raises `TorchyardError` if it is unreadable."""
    return ParsedLog(read_log(path, begun), path)


def read_log(path: Path, begun: int = 0) -> Iterator[RawLine]:
    """Yield the relevant lines of the log, in order.

    Lines before the byte offset `begun` are skipped, but included in the line numbers. Raises
    `TorchyardError` if the log is unreadable.
    """
    try:
        with path.open("rb") as file:  # may be a pipe, which can be read only once
            wide = _detect_utf16(file.peek(_PEEK_BYTES)[:_PEEK_BYTES])
            number, rest = 1, begun
            while rest > 0 and (block := file.read(min(rest, _BLOCK))):
                number += block.count(b"\n")
                rest -= len(block)
            yield from _select_lines(_number_blocks(_read_blocks(file, wide), number))
    except OSError as error:
        message = f"the log cannot be read: {error.strerror or error}"
        hint = "name another log: doit diagnose --log FILE"
        raise TorchyardError(message, location=str(path), hint=hint) from error


def _read_blocks(file: BufferedReader, wide: str) -> Iterator[bytes]:
    """Yield blocks of whole lines. A file with the UTF-16 codec `wide` is converted to UTF-8."""
    pieces = iter(lambda: file.read(_BLOCK), b"")
    if wide:
        from codecs import iterdecode  # noqa: PLC0415 - few logs need it

        pieces = (text.encode() for text in iterdecode(pieces, wide, "replace"))
    rest = b""
    for piece in pieces:
        data = rest + piece
        end = data.rfind(b"\n") + 1 or (len(data) if len(data) > _MAX_LINE_BYTES else 0)
        rest = data[end:]
        yield data[:end]
    yield rest


def _detect_utf16(start: bytes) -> str:
    """Return the UTF-16 codec of a file that begins with `start`, "" if it is not UTF-16."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if len(start) < 8 or start.count(b"\0") < len(start) // 4:  # too short to tell
        return ""
    return "utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"


def _number_blocks(
    blocks: Iterator[bytes], number: int
) -> Iterator[tuple[int, list[bytes], list[int]]]:
    """Yield the first line number, the lines and the indexes of keyword lines of each block."""
    for block in blocks:
        if not block:
            continue
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        yield number, lines, _find_keyword_lines(block, lines)
        number += len(lines)


def _find_keyword_lines(block: bytes, lines: list[bytes]) -> list[int]:
    """Return the indexes of the lines that contain an error keyword.

    A search of the whole block is about fifty times as fast as a search of each line.
    """
    lower = block.lower()
    for flag, replacement in _WERROR_FLAGS:
        lower = lower.replace(flag, replacement)
    unmatched: Sequence[int] = range(len(lines))
    unmatched_lines = _UnmatchedLines(lower.split(b"\n")[: len(lines)])
    indexes: set[int] = set()
    for word in _ERROR_KEYWORDS:
        positions = unmatched_lines.find_lines_with(word)
        indexes.update(unmatched[index] for index in positions)
        if len(positions) > len(unmatched) // _DENSE:
            removed = set(positions)
            kept = [index for index in range(len(unmatched)) if index not in removed]
            unmatched = [unmatched[index] for index in kept]
            unmatched_lines = _UnmatchedLines([unmatched_lines.lines[index] for index in kept])
    return sorted(indexes)


class _UnmatchedLines:
    """The lines of a block that contain none of the keywords searched so far."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self._text = b"\n".join(lines)
        self._starts = [0, *accumulate(len(line) + 1 for line in lines)]

    def find_lines_with(self, word: bytes) -> list[int]:
        """Return the indexes of the lines that contain the word."""
        offset = self._text.find(word)
        if offset >= 0 and self._text.count(word) > len(self.lines) // _DENSE:
            return [index for index, line in enumerate(self.lines) if word in line]
        indexes = []
        while offset >= 0:
            indexes.append(bisect_right(self._starts, offset) - 1)
            offset = self._text.find(word, self._starts[indexes[-1] + 1])
        return indexes


def _is_new(line: bytes, counts: dict[bytes, int]) -> bool:
    """Return False for a warning, and for a line that occurred 20 times (digits may differ).

    `counts` has the number of occurrences of each line without its digits.
    """
    if line.startswith(b"$ "):
        return True  # a command of torchyard: the start of an attempt
    if b"arning" in line and _WARNING_BYTES.search(line):
        return False
    shape = line[:300].translate(None, _DIGITS)
    if len(counts) >= _MAX_SHAPES:
        counts.clear()
    counts[shape] = count = counts.get(shape, 0) + 1
    return count <= _MAX_ALIKE


def _select_lines(blocks: Iterator[tuple[int, list[bytes], list[int]]]) -> Iterator[RawLine]:
    """Yield the head and the end of the log, and the lines around keywords between them."""
    end: deque[tuple[int, bytes]] = deque(maxlen=_END_LINES)
    kept_count = last = head = 0
    counts: dict[bytes, int] = {}
    for number, lines, words in blocks:
        head, after_block = head or number + _HEAD_LINES, number + len(lines)
        keyword_numbers = [number + index for index in words if _is_new(lines[index], counts)]
        spans = [(one - _CONTEXT_BEFORE, one + _CONTEXT_AFTER + 1) for one in keyword_numbers]
        for first, after in ((number, head), *spans):
            for index in range(max(first, number, last + 1), min(after, after_block)):
                if kept_count < _MAX_KEPT_LINES:
                    kept_count, last = kept_count + 1, index
                    yield from _split_raw_lines(index, lines[index - number])
        tail = max(0, len(lines) - _END_LINES)
        end.extend(enumerate(islice(lines, tail, None), number + tail))
    for index, line in end:
        if index > last:
            yield from _split_raw_lines(index, line)


def _split_raw_lines(number: int, line: bytes) -> Iterator[RawLine]:
    """Split a line at carriage returns, with which programs overwrite their progress output."""
    for piece in line.rstrip(b"\r").split(b"\r")[-20:]:
        yield RawLine(number, decode_line(piece[: 2 * _MAX_TEXT_LENGTH])[:_MAX_TEXT_LENGTH])


def decode_line(line: bytes) -> str:
    """Decode a line as UTF-8. If this fails, guess between cp1252, cp932 and gb18030."""
    with suppress(UnicodeDecodeError):
        return line.decode("utf-8")
    if not re.search(rb"[\x80-\xff]{2}", line):
        return line.decode("cp1252", "replace")  # umlauts are single bytes, unlike Chinese
    for encoding in ("cp932", "gb18030"):
        with suppress(UnicodeDecodeError):
            text = line.decode(encoding)
            if encoding != "cp932" or re.search("[\u3040-\u309f]", text):
                return text
    return line.decode("utf-8", "replace")


class LogTail:
    """A reader for lines appended to the file at `path`, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = 0
        self._at = 0

    def read_new_lines(self) -> list[str]:
        """Return the complete lines that were added since the last call.

        If the file was replaced, return all of its lines. If it cannot be read, return no lines.
        """
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._file or status.st_size < self._at:
                    self._file, self._at = status.st_ino, 0
                file.seek(self._at)
                data = file.read()
        except OSError:
            return []
        complete = data[: data.rfind(b"\n") + 1]
        self._at += len(complete)
        return complete.decode("utf-8", "replace").splitlines()
