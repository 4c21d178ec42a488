"""Start a child in its own process group, and end the child with all its descendants."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil

if sys.platform == "win32":
    from tasks.system import windows_kernel as group
else:
    from tasks.system import posix_group as group

GRACE_SECONDS = 5.0  # seconds between the request to stop and the kill
_live_children: set[subprocess.Popen[str]] = set()


def start_child(
    argv: Sequence[str], *, serves: bool = False, **options: Any
) -> subprocess.Popen[str]:
    """Start a child in a new process group. With `serves`, it may leave a server running."""
    child: subprocess.Popen[str] = subprocess.Popen(argv, **group.POPEN_OPTIONS, **options)
    _live_children.add(child)
    try:
        group.begin_child(child, serves=serves)
    except BaseException:  # on Windows, the suspended child would wait for ever
        _live_children.discard(child)
        child.kill()
        child.wait()
        raise
    return child


def end_group(child: subprocess.Popen[str]) -> None:
    """End the child's process group and, if the child failed, processes that left the group."""
    group.end_child(child, GRACE_SECONDS)
    _live_children.discard(child)


def interrupt_all() -> None:
    """Ask the running children of all threads to stop; do not wait for them."""
    for child in tuple(_live_children):
        group.interrupt_child(child)


RUN_VARIABLE = "TORCHYARD_RUN"
RUN_ID = f"{os.getpid()}-{secrets.token_hex(4)}"  # unique, since a process id can be reused
_END_ROUNDS = 3  # more than one: a process may start another before it ends
# Programs that a build may start and that serve other programs after the build
_SERVER_PROGRAMS = ("ssh", "git-credential")
# Only sccache's server has this variable; its clients have the same program name
_SCCACHE_SERVER_VARIABLE = "SCCACHE_START_SERVER"


def end_leftover_processes(run: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """End a run's remaining processes; return the programs that ended and those that did not."""
    import psutil  # noqa: PLC0415 - only after a run that was killed

    stopped: set[str] = set()
    for _ in range(_END_ROUNDS):
        processes = dict(_find_run_processes(run))
        if not processes:
            return tuple(sorted(stopped)), ()
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.terminate()
        _, unresponsive = psutil.wait_procs(list(processes), timeout=GRACE_SECONDS)
        for process in unresponsive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(unresponsive, timeout=GRACE_SECONDS)
        stopped.update(processes.values())
    return tuple(sorted(stopped)), tuple(sorted(set(dict(_find_run_processes(run)).values())))


def list_running_programs(run: str) -> tuple[str, ...]:
    """Return the names of a run's programs that are still running."""
    return tuple(sorted({name for _, name in _find_run_processes(run)}))


def _find_run_processes(run: str) -> Iterator[tuple[psutil.Process, str]]:
    """Yield the processes of a run, except servers and zombies, each with its program name."""
    import psutil  # noqa: PLC0415 - only after a run that was killed

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            env, name = process.environ(), process.name()
            is_marked = env.get(RUN_VARIABLE) == run and process.pid != os.getpid()
            is_server = _SCCACHE_SERVER_VARIABLE in env or name.startswith(_SERVER_PROGRAMS)
            if is_marked and not is_server and process.status() != psutil.STATUS_ZOMBIE:
                yield process, name
