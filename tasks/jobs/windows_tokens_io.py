"""The semaphore whose count is the tokens that nobody holds, and the chair as a name. Windows only.

Both are known by a name that comes from the pool's folder, to everyone of one logon, and are gone
with the last process that has them open, however that ends: so whoever comes first makes a
semaphore without tokens, and what a killed build took with it is gone with it or is missed by the
governor. What runs with higher rights (an elevated prompt) cannot be opened by others: they have a
pool of their own.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tasks.system import job_object

assert sys.platform == "win32"  # noqa: S101 - so mypy leaves the rest alone on other systems

_MOST = 0x7FFFFFFF
_TOKEN, _TIMEOUT = 1, 0x102  # the second of what is waited for; nothing came

_create_semaphore = job_object.declare_function(
    "CreateSemaphoreW",
    job_object.POINTER,
    job_object.LONG,
    job_object.LONG,
    job_object.TEXT,
    gives=job_object.HANDLE,
)
_create_event = job_object.declare_function(
    "CreateEventW",
    job_object.POINTER,
    job_object.BOOL,
    job_object.BOOL,
    job_object.TEXT,
    gives=job_object.HANDLE,
)
_release_semaphore = job_object.declare_function(
    "ReleaseSemaphore", job_object.HANDLE, job_object.LONG, job_object.POINTER
)
_set_event = job_object.declare_function("SetEvent", job_object.HANDLE)
_wait_for_objects = job_object.declare_function(
    "WaitForMultipleObjects",
    job_object.DWORD,
    job_object.POINTER,
    job_object.BOOL,
    job_object.DWORD,
    gives=job_object.DWORD,
)
# Not among the documented ones, and the same since Windows NT; without it the count is told only to
# who takes a token and gives it back, and a Ninja that looks in between goes away empty
_query_semaphore = job_object.declare_native_function(
    "NtQuerySemaphore",
    job_object.HANDLE,
    ctypes.c_int,
    job_object.POINTER,
    job_object.DWORD,
    job_object.POINTER,
)


class TokenSemaphore:
    """Tokens that nobody holds; its name is what `auth` says."""

    def __init__(self, name: str) -> None:
        self.auth = name
        self.stopped = False
        self._handle = _create_semaphore(None, 0, _MOST, name)
        self._stop = _create_event(None, True, False, None)

    def count_tokens(self) -> int:
        """Those that are there."""
        told = (job_object.LONG * 2)()
        _query_semaphore(self._handle, 0, ctypes.byref(told), ctypes.sizeof(told), None)
        return int(told[0])

    def take_tokens(self, wanted: int) -> int:
        """How many there were, `wanted` at most."""
        taken = 0
        while taken < wanted and self._wait_for_handle(self._handle, seconds=0.0) != _TIMEOUT:
            taken += 1
        return taken

    def return_tokens(self, tokens: int) -> None:
        """Give them back."""
        if tokens > 0:
            _release_semaphore(self._handle, tokens, None)

    def wait_for_tokens(self, seconds: float, wanted: int) -> int:
        """A token that is owed is taken the moment that Ninja gives it back, before Ninja asks for
        the next.
        """
        asked = (self._stop, self._handle) if wanted else (self._stop,)
        if self._wait_for_handle(*asked, seconds=seconds) != _TOKEN:
            return 0
        return 1 + self.take_tokens(wanted - 1)

    def stop_waiting(self) -> None:
        """Let nobody wait any more."""
        self.stopped = True
        _set_event(self._stop)

    def close(self) -> None:
        """Leave what is there to others."""
        job_object.close_handle(self._handle)
        job_object.close_handle(self._stop)

    def _wait_for_handle(self, *handles: int, seconds: float) -> int:
        """Which of them came first."""
        asked = (job_object.HANDLE * len(handles))(*handles)
        return _wait_for_objects(
            len(handles), asked, False, int(max(0.0, seconds) * 1000) + bool(seconds > 0)
        )


class EventLeaderLock:
    """The governor's: whoever makes an object of its name has it, as long as it is open."""

    def __init__(self, name: str) -> None:
        self.taken = False
        self._name = name
        self._handle = 0

    def acquire_lead(self) -> bool:
        """Whether it is ours, now or since before; not where it is that of an elevated build."""
        if not self.taken and self._name:
            try:
                handle = _create_event(None, True, False, self._name)
            except PermissionError:
                return False
            self.taken = not job_object.is_existing_object()
            self._handle = handle if self.taken else 0
            if not self.taken:
                job_object.close_handle(handle)
        return self.taken

    def close(self) -> None:
        """Leave it to the next."""
        handle, self._handle = self._handle, 0
        self.taken, self._name = False, ""
        if handle:
            job_object.close_handle(handle)


@contextlib.contextmanager
def open_tokens(folder: Path) -> Iterator[tuple[TokenSemaphore, EventLeaderLock]]:
    """Be one of those that build in `folder`; there are no tokens where nobody else does."""
    name = compute_semaphore_name(folder)
    try:
        semaphore = TokenSemaphore(name)
    except PermissionError:
        name = f"{name}-{os.getpid()}"
        semaphore = TokenSemaphore(name)
    chair = EventLeaderLock(f"{name}-governor")
    try:
        yield semaphore, chair
    finally:
        chair.close()
        semaphore.close()


def compute_semaphore_name(folder: Path) -> str:
    """What the semaphore of that pool is called."""
    place = os.path.normcase(folder.resolve())
    return f"torchyard-{hashlib.sha256(place.encode()).hexdigest()[:16]}"
