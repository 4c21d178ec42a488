"""On Windows all child processes end with a command, however it or torchyard ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.system import process_group, shell
from tests.support.checkout import ROOT
from tests.support.sleepers import wait_for
from tests.support.systems import not_wine, windows_only

pytestmark = windows_only

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
# A grandchild in its own process group, without a console; prints its process id
LEAVES = """
import subprocess, sys
flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.DETACHED_PROCESS
null = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleep, creationflags=flags, **null)
print(child.pid, flush=True)
"""
# Starts argv[1] with run_command, and prints the process id of its grandchild
RUNS = """
import sys
from tasks.system import shell
from tasks.core.model import Command
command = Command((sys.executable, "-c", sys.argv[1]), shell.build_host_env(), "try it")
shell.run_command(command, lambda line: print(line, flush=True))
"""


def command(code: str, *, timeout: float | None = None, serves: bool = False) -> Command:
    argv = (sys.executable, "-c", code)
    return Command(argv, shell.build_host_env(), "try it", timeout=timeout, serves=serves)


def start_grandchild(code: str, **how: bool) -> int:
    """Return the process id of the grandchild that a command left."""
    lines: list[str] = []
    try:
        shell.run_command(command(code, **how), lines.append)
    except CommandFailedError:
        assert "sys.exit" in code
    return int(lines[0])


def runs(pid: int) -> bool:
    return psutil.pid_exists(pid)


@pytest.mark.parametrize("code", [0, 3])
def test_no_process_survives_command(code: int) -> None:
    assert not runs(start_grandchild(f"{LEAVES}sys.exit({code})"))


def test_server_outlives_its_command() -> None:
    server = start_grandchild(LEAVES, serves=True)
    assert runs(server)
    psutil.Process(server).kill()


def test_timeout_ends_process_tree() -> None:
    lines: list[str] = []
    with pytest.raises(CommandFailedError, match="took longer"):
        shell.run_command(command(f"{LEAVES}{SLEEPS}", timeout=3), lines.append)
    assert not runs(int(lines[0]))


def test_process_tree_ends_when_parent_is_killed() -> None:
    argv = [sys.executable, "-c", RUNS, f"{LEAVES}{SLEEPS}"]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as ours:
        assert ours.stdout
        grandchild = int(ours.stdout.readline())
        assert runs(grandchild)
        ours.kill()
    wait_for(lambda: not runs(grandchild))


@not_wine("has no SIGBREAK")
def test_child_is_interrupted_before_it_is_killed(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        f"def leave(*_): open(r'{tmp_path / 'asked'}', 'w').close(); sys.exit(5)\n"
        "signal.signal(signal.SIGBREAK, leave)\n"
        "print('up', flush=True)\n"
        "while True: time.sleep(0.05)\n"
    )
    with pytest.raises(CommandFailedError):
        shell.run_command(command(code, timeout=3))
    assert (tmp_path / "asked").exists()


def test_child_that_ignores_interrupt_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_group, "GRACE_SECONDS", 0.3)
    code = f"import os, signal; signal.signal(signal.SIGBREAK, signal.SIG_IGN); {SLEEPS}"
    started = time.monotonic()
    with pytest.raises(CommandFailedError, match="took longer"):
        shell.run_command(command(code, timeout=2))
    assert time.monotonic() - started < 30


def test_process_tree_is_ended_without_job_object(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: int) -> int:
        raise PermissionError("access is denied")

    monkeypatch.setattr("tasks.system.windows_kernel._create_job_for", forbidden)
    lines: list[str] = []
    with pytest.raises(CommandFailedError, match="took longer"):
        shell.run_command(command(f"{LEAVES}{SLEEPS}", timeout=3), lines.append)
    wait_for(lambda: not runs(int(lines[0])))


def handles() -> int:
    if sys.platform == "win32":
        return psutil.Process().num_handles()
    return 0


@not_wine("counts no handles")
def test_no_handle_leaks() -> None:
    shell.capture_output(command("pass"))
    before = handles()
    for _ in range(5):
        shell.capture_output(command("pass"))
    assert handles() <= before + 2  # Python's own threads
