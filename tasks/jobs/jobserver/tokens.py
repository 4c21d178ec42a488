"""The tokens that nobody holds, one for each job that may start, and the governor's chair: a pipe
and a lock on POSIX, a semaphore and a name on Windows.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class JobTokens(Protocol):
    """Only `wait` does. What GNU make's --jobserver-auth says of them is `auth`."""

    auth: str

    @property
    def stopped(self) -> bool:
        """Whether nobody is to wait any more."""

    def count_tokens(self) -> int:
        """Those that are there."""

    def take_tokens(self, wanted: int) -> int:
        """How many there were, `wanted` at most."""

    def return_tokens(self, tokens: int) -> None:
        """Give them back."""

    def wait_for_tokens(self, seconds: float, wanted: int) -> int:
        """Until there are any of those that are `wanted`, or `stop`; how many were taken."""

    def stop_waiting(self) -> None:
        """Let nobody wait any more."""


class LeaderLock(Protocol):
    """The governor's: one process has it."""

    taken: bool

    def acquire_lead(self) -> bool:
        """Whether it is ours, now or since before."""

    def close(self) -> None:
        """Leave it to the next."""


def open_job_tokens(folder: Path) -> AbstractContextManager[tuple[JobTokens, LeaderLock]]:
    """Be one of those that build in `folder`; there are no tokens where nobody else does."""
    if sys.platform == "win32":
        from tasks.jobs.jobserver import semaphore as system  # noqa: PLC0415 - of Windows
    else:
        from tasks.jobs.jobserver import pipe as system  # noqa: PLC0415 - of POSIX
    return system.open_tokens(folder)
