"""The machine: system, memory, encoding, variables."""

from __future__ import annotations

import locale
import os
import platform
import sys
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.doctor.host_facts import VARIABLES, Asked, Memory
from tasks.system.hardware import capacity, memory, packagemanager

_MIB = 2**20


def look(asked: Asked, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`os_release`, `systems`, `glibc`, `wsl`, `memory`, `encoding`, `environ`."""
    found: dict[str, Any] = {
        "os_release": _release(asked.host.system),
        "systems": packagemanager.systems(),
        "glibc": _glibc(asked.host.system),
        "wsl": "microsoft" in platform.release().lower() and asked.host.system == "linux",
        "environ": tuple((name, os.environ[name]) for name in VARIABLES if name in os.environ),
    }
    if wanted & {"memory", "swap"}:
        found["memory"] = _memory()
    if "locale" in wanted:
        found["encoding"] = locale.getencoding()
    return found


def _release(system: str) -> str:
    if system == "windows":
        return f"Windows {platform.release()} ({platform.version()})"
    if system == "macos":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"Linux {platform.release()}"


def _glibc(system: str) -> str:
    """The version of the running one, "" for musl and where there is none."""
    if system != "linux" or sys.platform != "linux":
        return ""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    except (ValueError, OSError):  # musl knows no such name
        return ""


def _memory() -> Memory:
    import psutil  # noqa: PLC0415 - not at load

    above = memory.groups()
    return Memory(
        total_mib=psutil.virtual_memory().total // _MIB,
        limit_mib=memory.limit_mib(above),
        available_mib=memory.measure(above).available_mib,
        swap_mib=_swap_mib(),
        cores=capacity.cores(),
    )


def _swap_mib() -> int | None:
    """psutil asks Windows' performance counters for it, which may be disabled."""
    import psutil  # noqa: PLC0415 - not at load

    try:
        return int(psutil.swap_memory().total // _MIB)
    except RuntimeError:
        return None
