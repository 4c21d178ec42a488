"""The pipe with a token for each job that may start, and who may do what with it. POSIX only.

Whoever builds in the checkout holds a shared lock. Who can have it alone at the start makes the
pipe anew, so that what a killed build took with it is back. One of all that build is the governor,
by a lock of its own; the system takes both locks from who ends, however that is.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl
    import termios

_TOKEN = b"+"  # as GNU make writes it; Ninja gives back the byte that it took


class Pipe:
    """Tokens that nobody holds. Nothing here waits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # for both: a pipe that nobody has open for reading loses what is in it
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def count(self) -> int:
        """Tokens in it."""
        answer = fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4))
        return int(struct.unpack("i", answer)[0])

    def take(self, wanted: int) -> int:
        """How many there were, `wanted` at most."""
        if wanted <= 0:
            return 0
        try:
            return len(os.read(self.fd, wanted))
        except BlockingIOError:
            return 0

    def put(self, tokens: int) -> None:
        """Give them back."""
        if tokens > 0:
            os.write(self.fd, _TOKEN * tokens)

    def close(self) -> None:
        """Leave what is in it to others."""
        os.close(self.fd)


class Chair:
    """The governor's: one process has it."""

    def __init__(self, folder: Path) -> None:
        self.taken = False
        self._fd = _open(folder / "governor.lock")

    def take(self) -> bool:
        """Whether it is ours, now or since before."""
        self.taken = self.taken or (self._fd >= 0 and _try(self._fd))
        return self.taken

    def close(self) -> None:
        """Leave it to the next."""
        if self._fd >= 0:
            os.close(self._fd)
        self.taken, self._fd = False, -1


@contextlib.contextmanager
def joined(folder: Path) -> Iterator[tuple[Pipe, Chair]]:
    """Be one of those that build in `folder`; the pipe is empty where nobody else does."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        lock = _open(folder / "pool.lock")
        stack.callback(os.close, lock)
        path = folder / "tokens"
        if _try(lock):
            path.unlink(missing_ok=True)
        # Another may come in between, who does the same: so the pipe is made only after this
        fcntl.flock(lock, fcntl.LOCK_SH)
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        pipe = Pipe(path)
        stack.callback(pipe.close)
        chair = Chair(folder)
        stack.callback(chair.close)
        yield pipe, chair


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
