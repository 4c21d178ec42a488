"""Keep a command running if standard output or standard error is closed, full or no longer read."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# The errno of a pipe without a reader; Windows has no specific one
_NO_READER = (errno.EPIPE, errno.EINVAL) if sys.platform == "win32" else (errno.EPIPE,)
_write_failures: list[OSError] = []  # from writing to standard output


class _GuardedStream(io.FileIO):
    """A raw stream that discards all output after a failed write."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            null_descriptor = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_descriptor, self.fileno())
            os.close(null_descriptor)
            if self.fileno() == 1 and error.errno not in _NO_READER:
                _write_failures.append(error)
                sys.stderr.write(f"error: cannot write to standard output: {error.strerror}\n")
            return memoryview(data).nbytes


def guard_standard_streams() -> None:
    """Stop failed writes to stdout and stderr from raising exceptions."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: children would print into the next opened file
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    sys.stdout = _build_guarded_stream(sys.stdout, 1)
    sys.stderr = _build_guarded_stream(sys.stderr, 2)


def compute_exit_code(code: int | None) -> int | None:
    """Return `code`, but 1 instead of 0 if a write to standard output failed."""
    sys.stdout.flush()
    return code or int(bool(_write_failures))


def _build_guarded_stream(stream: TextIO | None, number: int) -> TextIO:
    """Return `stream` with guarded writes, unless it is a Windows console or a test's stream."""
    guarded = _GuardedStream(number, "w", closefd=False)
    if stream is None:
        return io.TextIOWrapper(io.BufferedWriter(guarded), "utf-8", "backslashreplace")
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # the buffer itself if PYTHONUNBUFFERED is set
    is_standard = type(raw) is io.FileIO and raw.fileno() == number
    if not is_standard or not isinstance(stream, io.TextIOWrapper):
        return stream
    return io.TextIOWrapper(
        cast(BinaryIO, guarded) if raw is buffer else io.BufferedWriter(guarded),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
