"""The pipe with a token for each job that may start, and who may do what with it. POSIX only.

Whoever builds in the checkout holds a shared lock. Who can have it alone at the start makes the
pipe anew, so that what a killed build took with it is back. One of all that build is the governor,
by a lock of its own; the system takes both locks from who ends, however that is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

assert sys.platform != "win32"  # noqa: S101 - so mypy leaves the rest alone there

_TOKEN_BYTE = b"+"  # as GNU make writes it; Ninja gives back the byte that it took


class TokenPipe:
    """Tokens that nobody holds."""

    def __init__(self, path: Path) -> None:
        self.auth = f"fifo:{path}"
        self._stop, self._stopped = os.pipe()
        # for both: a pipe that nobody has open for reading loses what is in it
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def count_tokens(self) -> int:
        """Tokens in it."""
        answer = fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4))
        return int(struct.unpack("i", answer)[0])

    def take_tokens(self, wanted: int) -> int:
        """How many there were, `wanted` at most."""
        if wanted <= 0:
            return 0
        try:
            return len(os.read(self._fd, wanted))
        except BlockingIOError:
            return 0

    def return_tokens(self, tokens: int) -> None:
        """Give them back."""
        if tokens > 0:
            os.write(self._fd, _TOKEN_BYTE * tokens)

    def wait_for_tokens(self, seconds: float, wanted: int) -> int:
        """A token that is owed is taken the moment that Ninja gives it back: Ninja itself asks for
        the next one within some hundred microseconds.
        """
        asked = [self._stop, self._fd] if wanted else [self._stop]
        ready, _, _ = select.select(asked, [], [], max(0.0, seconds))
        return 0 if self._stop in ready else self.take_tokens(wanted)

    @property
    def stopped(self) -> bool:
        """Whether nobody is to wait any more."""
        return self._stopped < 0

    def stop_waiting(self) -> None:
        """Let nobody wait any more."""
        if self._stopped >= 0:
            stopped, self._stopped = self._stopped, -1
            os.close(stopped)

    def close(self) -> None:
        """Leave what is in it to others."""
        self.stop_waiting()
        os.close(self._stop)
        os.close(self._fd)


class FileLeaderLock:
    """The governor's: one process has it."""

    def __init__(self, folder: Path) -> None:
        self.taken = False
        self._fd = _open_lock_file(folder / "governor.lock")

    def acquire_lead(self) -> bool:
        """Whether it is ours, now or since before."""
        self.taken = self.taken or (self._fd >= 0 and _try_lock(self._fd))
        return self.taken

    def close(self) -> None:
        """Leave it to the next."""
        if self._fd >= 0:
            os.close(self._fd)
        self.taken, self._fd = False, -1


@contextlib.contextmanager
def open_tokens(folder: Path) -> Iterator[tuple[TokenPipe, FileLeaderLock]]:
    """Be one of those that build in `folder`; the pipe is empty where nobody else does."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        lock = _open_lock_file(folder / "pool.lock")
        stack.callback(os.close, lock)
        path = folder / "tokens"
        if _try_lock(lock):
            path.unlink(missing_ok=True)
        # Another may come in between, who does the same: so the pipe is made only after this
        fcntl.flock(lock, fcntl.LOCK_SH)
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        pipe = TokenPipe(path)
        stack.callback(pipe.close)
        chair = FileLeaderLock(folder)
        stack.callback(chair.close)
        yield pipe, chair


def _open_lock_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
