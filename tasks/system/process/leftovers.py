"""Processes that a killed run left at work: known by a variable that each of its children has.

KILL ends doit alone; on POSIX Ninja and its compilers go on in a session of their own, and a second
Ninja beside them would write into the same build folder. On Windows they have ended with doit, by
their job (`tasks.system.process.jobobject`): what is found there is of a run that could make
none.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

RUN_VARIABLE = "TORCHYARD_RUN"
RUN_ID = f"{os.getpid()}-{secrets.token_hex(4)}"  # a process id comes again, this does not
_TERMINATE_TIMEOUT = 5.0  # seconds between asking and killing
_END_ROUNDS = 3  # what is ended may have started something in between
# What is started for a build and serves others after it, too
_SERVER_PROGRAMS = ("ssh", "git-credential")
# sccache's server has this, and its clients, which are called the same, do not. Compilers that the
# server starts have their client's environment, and so the mark.
_SCCACHE_SERVER_VARIABLE = "SCCACHE_START_SERVER"


def end_leftover_processes(run: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """End what is left of that run; the names of what was ended, and of what could not be."""
    import psutil  # noqa: PLC0415 - only after a run that was killed

    ended: set[str] = set()
    for _ in range(_END_ROUNDS):
        found = dict(_find_run_processes(run))
        if not found:
            return tuple(sorted(ended)), ()
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.terminate()
        _, deaf = psutil.wait_procs(list(found), timeout=_TERMINATE_TIMEOUT)
        for process in deaf:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(deaf, timeout=_TERMINATE_TIMEOUT)
        ended.update(found.values())
    return tuple(sorted(ended)), tuple(sorted(set(dict(_find_run_processes(run)).values())))


def list_running_programs(run: str) -> tuple[str, ...]:
    """The names of the programs of that run which are still at work."""
    return tuple(sorted({name for _, name in _find_run_processes(run)}))


def _find_run_processes(run: str) -> Iterator[tuple[psutil.Process, str]]:
    """Processes of that run, with the names of their programs."""
    import psutil  # noqa: PLC0415 - only after a run that was killed

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            given = process.environ()
            if (
                given.get(RUN_VARIABLE) != run
                or process.pid == os.getpid()
                or _SCCACHE_SERVER_VARIABLE in given
            ):
                continue
            name = process.name()
            if not name.startswith(_SERVER_PROGRAMS) and process.status() != psutil.STATUS_ZOMBIE:
                yield process, name
