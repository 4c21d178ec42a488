"""The machine: system, memory, encoding, variables."""

from __future__ import annotations

import locale
import os
import platform
import sys
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.doctor.host_facts import VARIABLES, Memory, ProbeRequest
from tasks.system.hardware import capacity, memory, packagemanager

_BYTES_PER_MIB = 2**20


def read_machine_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`os_release`, `systems`, `glibc`, `wsl`, `memory`, `encoding`, `environ`."""
    found: dict[str, Any] = {
        "os_release": _read_os_release(asked.host.system),
        "systems": packagemanager.list_system_names(),
        "glibc": _read_glibc_version(asked.host.system),
        "wsl": "microsoft" in platform.release().lower() and asked.host.system == "linux",
        "environ": tuple((name, os.environ[name]) for name in VARIABLES if name in os.environ),
    }
    if wanted & {"memory", "swap"}:
        found["memory"] = _measure_memory()
    if "locale" in wanted:
        found["encoding"] = locale.getencoding()
    return found


def _read_os_release(system: str) -> str:
    if system == "windows":
        return f"Windows {platform.release()} ({platform.version()})"
    if system == "macos":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"Linux {platform.release()}"


def _read_glibc_version(system: str) -> str:
    """The version of the running one, "" for musl and where there is none."""
    if system != "linux" or sys.platform != "linux":
        return ""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    except (ValueError, OSError):  # musl knows no such name
        return ""


def _measure_memory() -> Memory:
    import psutil  # noqa: PLC0415 - not at load

    above = memory.find_control_groups()
    return Memory(
        total_mib=psutil.virtual_memory().total // _BYTES_PER_MIB,
        limit_mib=memory.find_memory_limit(above),
        available_mib=memory.measure_memory(above).available_mib,
        swap_mib=_read_swap_mib(),
        cores=capacity.count_usable_cores(),
    )


def _read_swap_mib() -> int | None:
    """psutil asks Windows' performance counters for it, which may be disabled."""
    import psutil  # noqa: PLC0415 - not at load

    try:
        return int(psutil.swap_memory().total // _BYTES_PER_MIB)
    except RuntimeError:
        return None
