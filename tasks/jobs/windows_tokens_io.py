"""Keep the jobserver's tokens in a semaphore; elect the governor with a named event. Windows only.

The names of both objects are computed from the jobserver's folder. The objects end with the last
process that uses them. Builds with and without administrator rights use separate jobservers.
"""

import contextlib
import ctypes
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tasks.system import windows_kernel

assert sys.platform == "win32"  # noqa: S101 - so mypy skips the rest on other systems

BOOL, DWORD, HANDLE = windows_kernel.BOOL, windows_kernel.DWORD, windows_kernel.HANDLE
LONG, POINTER, TEXT = windows_kernel.LONG, windows_kernel.POINTER, windows_kernel.TEXT
declare_function = windows_kernel.declare_function
_MOST = 0x7FFFFFFF
_TOKEN, _TIMEOUT = 1, 0x102  # results of a wait: index of the second handle, timeout

_create_semaphore = declare_function("CreateSemaphoreW", POINTER, LONG, LONG, TEXT, gives=HANDLE)
_create_event = declare_function("CreateEventW", POINTER, BOOL, BOOL, TEXT, gives=HANDLE)
_release_semaphore = declare_function("ReleaseSemaphore", HANDLE, LONG, POINTER)
_set_event = declare_function("SetEvent", HANDLE)
_wait_for_objects = declare_function(
    "WaitForMultipleObjects", DWORD, POINTER, BOOL, DWORD, gives=DWORD
)
# NtQuerySemaphore is undocumented, but unchanged since Windows NT. With documented functions, the
# count can be read only by taking a token, and a Ninja that needs it meanwhile would get none
_query_semaphore = windows_kernel.declare_native_function(
    "NtQuerySemaphore", HANDLE, ctypes.c_int, POINTER, DWORD, POINTER
)


class TokenSemaphore:
    """The free tokens of the jobserver: the count of the semaphore named `auth`."""

    def __init__(self, name: str) -> None:
        self.auth = name
        self.stopped = False
        self._handle = _create_semaphore(None, 0, _MOST, name)
        self._stop = _create_event(None, True, False, None)

    def count_tokens(self) -> int:
        """Return the number of free tokens."""
        information = (LONG * 2)()
        size = ctypes.sizeof(information)
        _query_semaphore(self._handle, 0, ctypes.byref(information), size, None)
        return int(information[0])

    def take_tokens(self, limit: int) -> int:
        """Take up to `limit` tokens without waiting; return how many were taken."""
        count = 0
        while count < limit and self._wait_for_handle(self._handle, seconds=0.0) != _TIMEOUT:
            count += 1
        return count

    def return_tokens(self, tokens: int) -> None:
        """Return tokens to the semaphore."""
        if tokens > 0:
            _release_semaphore(self._handle, tokens, None)

    def wait_for_tokens(self, seconds: float, limit: int) -> int:
        """Wait up to `seconds` for tokens, take at most `limit`, and return how many were taken."""
        handles = (self._stop, self._handle) if limit else (self._stop,)
        if self._wait_for_handle(*handles, seconds=seconds) != _TOKEN:
            return 0
        return 1 + self.take_tokens(limit - 1)

    def stop_waiting(self) -> None:
        """End the current wait for tokens, and prevent further waits."""
        self.stopped = True
        _set_event(self._stop)

    def close(self) -> None:
        """Close the handles; the tokens remain for other builds."""
        windows_kernel.close_handle(self._handle)
        windows_kernel.close_handle(self._stop)

    def _wait_for_handle(self, *handles: int, seconds: float) -> int:
        """Return the index of the first signalled handle, or `_TIMEOUT`."""
        milliseconds = int(max(0.0, seconds) * 1000) + bool(seconds > 0)
        handle_array = (HANDLE * len(handles))(*handles)
        return _wait_for_objects(len(handles), handle_array, False, milliseconds)


class EventLeaderLock:
    """The lock of the governor. The process that creates the named event has the lock."""

    def __init__(self, name: str) -> None:
        self.taken = False
        self._name = name
        self._handle = 0

    def acquire_lead(self) -> bool:
        """Get the lock if it is free. Return True if this process has the lock."""
        if not self.taken and self._name:
            try:
                handle = _create_event(None, True, False, self._name)
            except PermissionError:
                return False
            self.taken = not windows_kernel.is_existing_object()
            if self.taken:
                self._handle = handle
            else:
                windows_kernel.close_handle(handle)
        return self.taken

    def close(self) -> None:
        """Release the lock."""
        handle, self._handle = self._handle, 0
        self.taken, self._name = False, ""
        if handle:
            windows_kernel.close_handle(handle)


@contextlib.contextmanager
def open_tokens(folder: Path) -> Iterator[tuple[TokenSemaphore, EventLeaderLock]]:
    """Open the semaphore of tokens and the leader lock for `folder`; create them if missing."""
    name = compute_semaphore_name(folder)
    try:
        semaphore = TokenSemaphore(name)
    except PermissionError:
        name = f"{name}-{os.getpid()}"
        semaphore = TokenSemaphore(name)
    leader_lock = EventLeaderLock(f"{name}-governor")
    try:
        yield semaphore, leader_lock
    finally:
        leader_lock.close()
        semaphore.close()


def compute_semaphore_name(folder: Path) -> str:
    """Return the semaphore's name for the jobserver in `folder`."""
    path = os.path.normcase(folder.resolve())
    return f"torchyard-{hashlib.sha256(path.encode()).hexdigest()[:16]}"
