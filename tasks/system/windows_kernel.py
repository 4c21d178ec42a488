"""Declare kernel32 functions, and run children in Windows job objects. Windows only.

A child joins its job before it runs any code. Windows ends the processes of a job when the last
handle of the job is closed, even if doit is killed.
"""

import contextlib
import ctypes
import signal
import sys
from collections.abc import Callable
from ctypes import wintypes
from subprocess import Popen, TimeoutExpired
from typing import Any

assert sys.platform == "win32"  # noqa: S101 - so that mypy skips this module on other systems

BOOL, DWORD, HANDLE, LONG = wintypes.BOOL, wintypes.DWORD, wintypes.HANDLE, wintypes.LONG
POINTER, TEXT, UINT = ctypes.c_void_p, wintypes.LPCWSTR, wintypes.UINT
_ALREADY_EXISTS = 183
_WAIT_FAILED = 0xFFFFFFFF  # the result of a wait that failed
_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
_ntdll = ctypes.WinDLL("ntdll")


def declare_function(name: str, *arguments: Any, gives: Any = BOOL) -> Callable[..., int]:
    """Return a kernel32 function that raises `OSError` on failure. `gives` is its result type."""

    def check_result(result: int | None, *_: object) -> int:
        if not result if gives is not DWORD else result == _WAIT_FAILED:
            raise ctypes.WinError(ctypes.get_last_error())
        return result or 0

    function = getattr(_kernel32, name)
    function.argtypes, function.restype, function.errcheck = arguments, gives, check_result
    return function  # type: ignore[no-any-return]


def declare_native_function(name: str, *arguments: Any) -> Callable[..., int]:
    """Return an ntdll function that raises `OSError` on failure (a negative status)."""

    def check_status(status: int, *_: object) -> int:
        if status < 0:
            raise OSError(f"the Windows call {name} failed (status {status & _WAIT_FAILED:#x})")
        return status

    function = getattr(_ntdll, name)
    function.argtypes, function.restype, function.errcheck = arguments, LONG, check_status
    return function  # type: ignore[no-any-return]


def is_existing_object() -> bool:
    """Return True if the last call opened an existing named object instead of a new one."""
    return ctypes.get_last_error() == _ALREADY_EXISTS


close_handle = declare_function("CloseHandle", HANDLE)
_NEW_GROUP, _SUSPENDED = 0x200, 0x4  # CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED
_KILL_ON_CLOSE = 0x2000  # JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
_EXTENDED_LIMIT_INFORMATION = 9  # JobObjectExtendedLimitInformation
_ENDED_EXIT_CODE = 1  # the exit code of processes that torchyard ends
POPEN_OPTIONS: dict[str, Any] = {"creationflags": _NEW_GROUP | _SUSPENDED}

_create_job_object = declare_function("CreateJobObjectW", POINTER, TEXT, gives=HANDLE)
_set_job_information = declare_function(
    "SetInformationJobObject", HANDLE, ctypes.c_int, POINTER, DWORD
)
_assign_process = declare_function("AssignProcessToJobObject", HANDLE, HANDLE)
_terminate_job = declare_function("TerminateJobObject", HANDLE, UINT)
_resume_process = declare_native_function("NtResumeProcess", HANDLE)

_job_handles: dict[Popen[str], int] = {}  # one handle for each child


class _JobLimits(ctypes.Structure):
    """The structure JOBOBJECT_EXTENDED_LIMIT_INFORMATION, of which only the flags are set."""

    _fields_ = (
        ("times", ctypes.c_longlong * 2),
        ("flags", DWORD),
        ("working_sets", ctypes.c_size_t * 2),
        ("processes", DWORD),
        ("affinity", ctypes.c_size_t),
        ("classes", DWORD * 2),
        ("counters", ctypes.c_ulonglong * 6),
        ("memory", ctypes.c_size_t * 4),
    )


def begin_child(child: Popen[str], *, serves: bool) -> None:
    """Put a suspended child in a job and resume it; if `serves` is True, only resume it."""
    process = int(child._handle)  # type: ignore[attr-defined]
    try:
        if not serves:
            with contextlib.suppress(OSError):
                _job_handles[child] = _create_job_for(process)
    finally:
        _resume_process(process)


def end_child(child: Popen[str], grace: float) -> None:
    """Ask the child to stop, wait up to `grace` seconds, then end all its processes."""
    try:
        if child.poll() is None:
            interrupt_child(child)
            with contextlib.suppress(TimeoutExpired):
                child.wait(grace)
    finally:
        if child in _job_handles:
            _terminate_job(_job_handles[child], _ENDED_EXIT_CODE)
        elif child.poll() is None:
            import psutil  # noqa: PLC0415 - only where there is no job

            with contextlib.suppress(psutil.NoSuchProcess):
                leader = psutil.Process(child.pid)
                for process in [*leader.children(recursive=True), leader]:
                    with contextlib.suppress(psutil.Error):
                        process.kill()
        child.wait()
        if handle := _job_handles.pop(child, 0):
            close_handle(handle)


def interrupt_child(child: Popen[str]) -> None:
    """Send CTRL_BREAK to a child; without a console, do nothing."""
    # Before Python 3.13, a failure is a SystemError (https://github.com/python/cpython/issues/87128)
    with contextlib.suppress(OSError, SystemError):
        child.send_signal(signal.CTRL_BREAK_EVENT)


def _create_job_for(process: int) -> int:
    limits = _JobLimits(flags=_KILL_ON_CLOSE)
    handle, size = _create_job_object(None, None), ctypes.sizeof(limits)
    try:
        _set_job_information(handle, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), size)
        _assign_process(handle, process)
    except BaseException:
        close_handle(handle)
        raise
    return handle
