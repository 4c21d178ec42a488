"""The calls of Windows that Python has no word for, each declared with what it takes and gives.

learn.microsoft.com/windows/win32/api says what they do; a handle is a whole number here. A call
that fails raises `OSError` with the system's own words. Windows only.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import wintypes
from typing import Any

assert sys.platform == "win32"  # noqa: S101 - so mypy leaves the rest alone on other systems

BOOL, DWORD, HANDLE, LONG = wintypes.BOOL, wintypes.DWORD, wintypes.HANDLE, wintypes.LONG
POINTER, TEXT, UINT = ctypes.c_void_p, wintypes.LPCWSTR, wintypes.UINT
_ALREADY_EXISTS = 183
_WAIT_FAILED = 0xFFFFFFFF  # what a wait gives
_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
_ntdll = ctypes.WinDLL("ntdll")


def declare_function(name: str, *taken: Any, gives: Any = BOOL) -> Callable[..., int]:
    """A function of kernel32 that gives 0 where it fails, and a wait something else."""

    def check_result(result: int | None, *_: object) -> int:
        if not result if gives is not DWORD else result == _WAIT_FAILED:
            raise ctypes.WinError(ctypes.get_last_error())
        return result or 0

    function = getattr(_kernel32, name)
    function.argtypes, function.restype, function.errcheck = taken, gives, check_result
    return function  # type: ignore[no-any-return]


def declare_native_function(name: str, *taken: Any) -> Callable[..., int]:
    """A function of ntdll, whose status is negative where it fails."""

    def check_status(status: int, *_: object) -> int:
        if status < 0:
            raise OSError(f"{name} failed with status {status & _WAIT_FAILED:#x}")
        return status

    function = getattr(_ntdll, name)
    function.argtypes, function.restype, function.errcheck = taken, LONG, check_status
    return function  # type: ignore[no-any-return]


def is_existing_object() -> bool:
    """Whether the object that was just made by name had been there before."""
    return ctypes.get_last_error() == _ALREADY_EXISTS


close_handle = declare_function("CloseHandle", HANDLE)
