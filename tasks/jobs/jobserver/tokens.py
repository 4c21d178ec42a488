"""The tokens that nobody holds, one for each job that may start, and the governor's chair: a pipe
and a lock on POSIX, a semaphore and a name on Windows.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class Tokens(Protocol):
    """Only `wait` does. What GNU make's --jobserver-auth says of them is `auth`."""

    auth: str

    @property
    def stopped(self) -> bool:
        """Whether nobody is to wait any more."""

    def count(self) -> int:
        """Those that are there."""

    def take(self, wanted: int) -> int:
        """How many there were, `wanted` at most."""

    def put(self, tokens: int) -> None:
        """Give them back."""

    def wait(self, seconds: float, wanted: int) -> int:
        """Until there are any of those that are `wanted`, or `stop`; how many were taken."""

    def stop(self) -> None:
        """Let nobody wait any more."""


class Chair(Protocol):
    """The governor's: one process has it."""

    taken: bool

    def take(self) -> bool:
        """Whether it is ours, now or since before."""

    def close(self) -> None:
        """Leave it to the next."""


def joined(folder: Path) -> AbstractContextManager[tuple[Tokens, Chair]]:
    """Be one of those that build in `folder`; there are no tokens where nobody else does."""
    if sys.platform == "win32":
        from tasks.jobs.jobserver import semaphore as system  # noqa: PLC0415 - of Windows
    else:
        from tasks.jobs.jobserver import pipe as system  # noqa: PLC0415 - of POSIX
    return system.joined(folder)
