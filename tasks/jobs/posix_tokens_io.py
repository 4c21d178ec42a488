"""Keep the jobserver's tokens in a pipe and elect the governor with a file lock. POSIX only.

The first build in a folder recreates the pipe, because a killed build may have lost tokens.
The system releases the locks when a process ends, even after SIGKILL.
"""

import contextlib
import fcntl
import os
import select
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

from tasks.system import files

assert sys.platform != "win32"  # noqa: S101 - so that mypy skips the rest on Windows

_TOKEN_BYTE = b"+"  # GNU make writes the same byte; Ninja returns the byte that it read


class TokenPipe:
    """The free tokens of the jobserver, which are bytes in a named pipe."""

    def __init__(self, path: Path) -> None:
        self.auth = f"fifo:{path}"
        self.stopped = False
        self._stop, self._stop_writer = os.pipe()
        # Open for reading and writing: a pipe without a reader loses its content
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def count_tokens(self) -> int:
        """Return the number of tokens (bytes) in the pipe."""
        return int.from_bytes(fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)), sys.byteorder)

    def take_tokens(self, limit: int) -> int:
        """Take up to `limit` tokens without waiting; return how many were taken."""
        if limit <= 0:
            return 0
        try:
            return len(os.read(self._fd, limit))
        except BlockingIOError:
            return 0

    def return_tokens(self, tokens: int) -> None:
        """Write tokens to the pipe."""
        if tokens > 0:
            os.write(self._fd, _TOKEN_BYTE * tokens)

    def wait_for_tokens(self, seconds: float, limit: int) -> int:
        """Wait up to `seconds` for tokens, take at most `limit`, and return how many were taken."""
        # Polling would be too slow: Ninja takes a returned token again within 1 ms
        descriptors = [self._stop, self._fd] if limit else [self._stop]
        ready, _, _ = select.select(descriptors, [], [], max(0.0, seconds))
        return 0 if self._stop in ready else self.take_tokens(limit)

    def stop_waiting(self) -> None:
        """End the current wait for tokens, and prevent further waits."""
        if not self.stopped:
            self.stopped = True
            os.close(self._stop_writer)

    def close(self) -> None:
        """Close the pipe; the tokens in it remain for other builds."""
        self.stop_waiting()
        os.close(self._stop)
        os.close(self._fd)


class FileLeaderLock:
    """The file lock that makes one process the governor."""

    def __init__(self, folder: Path) -> None:
        self.taken = False
        self._fd = _open_lock_file(folder / "governor.lock")

    def acquire_lead(self) -> bool:
        """Get the lock if it is free. Return True if this process has the lock."""
        self.taken = self.taken or (self._fd >= 0 and _try_lock(self._fd))
        return self.taken

    def close(self) -> None:
        """Release the lock."""
        if self._fd >= 0:
            os.close(self._fd)
        self.taken, self._fd = False, -1


@contextlib.contextmanager
def open_tokens(folder: Path) -> Iterator[tuple[TokenPipe, FileLeaderLock]]:
    """Open the token pipe and the leader lock in `folder`; the first build creates a new pipe."""
    files.create_private_folder(folder)
    with contextlib.ExitStack() as stack:
        lock = _open_lock_file(folder / "pool.lock")
        stack.callback(os.close, lock)
        path = folder / "tokens"
        if _try_lock(lock):
            path.unlink(missing_ok=True)
        # Until this lock is held, another build may remove the pipe: create the pipe only then
        fcntl.flock(lock, fcntl.LOCK_SH)
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        pipe = TokenPipe(path)
        stack.callback(pipe.close)
        leader_lock = FileLeaderLock(folder)
        stack.callback(leader_lock.close)
        yield pipe, leader_lock


def _open_lock_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
