"""Processes that a killed run left at work: known by a variable that each of its children has.

KILL ends doit alone; Ninja and its compilers go on in a session of their own, and a second Ninja
beside them would write into the same build folder.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

MARK = "TORCHYARD_RUN"
RUN = f"{os.getpid()}-{secrets.token_hex(4)}"  # a process id comes again, this does not
_PATIENCE = 5.0  # seconds between asking and killing


def end(run: str) -> tuple[str, ...]:
    """End what is left of that run; returns the names of the programs that were ended."""
    import psutil  # noqa: PLC0415 - only after a run that was killed

    found = list(_of(run))
    names = tuple(sorted({_name(process) for process in found} - {""}))
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, deaf = psutil.wait_procs(found, timeout=_PATIENCE)
    for process in deaf:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(deaf, timeout=_PATIENCE)
    return names


def _of(run: str) -> Iterator[psutil.Process]:
    import psutil  # noqa: PLC0415 - only after a run that was killed

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == run and process.pid != os.getpid():
                yield process


def _name(process: psutil.Process) -> str:
    import psutil  # noqa: PLC0415 - only after a run that was killed

    try:
        return str(process.name())
    except psutil.Error:
        return ""
