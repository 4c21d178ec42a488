"""Processes left by a killed run are found by their marker and ended; others are not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.core.errors import BusyError
from tasks.system import files, process_group

OURS = os.getpid()  # tests of another checkout may run at the same time
SLEEP = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)")
IGNORE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
DEAF = (sys.executable, "-c", f"{IGNORE} {SLEEP[2]}")


Child = subprocess.Popen[str]


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    children: list[Child] = []

    def started(run: str, argv: tuple[str, ...] = SLEEP) -> Child:
        env = {**os.environ, process_group.RUN_VARIABLE: run}
        child = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)
        children.append(child)
        assert child.stdout
        child.stdout.readline()
        return child

    yield started
    for child in children:
        child.kill()
        child.communicate()


def test_leftover_children_of_run_are_ended_and_named(start: Callable[..., Child]) -> None:
    mine, other = start(f"1-aa{OURS}"), start(f"1-bb{OURS}")
    assert process_group.end_leftover_processes(f"1-aa{OURS}") == ((Path(sys.executable).name,), ())
    assert mine.poll() is not None
    assert other.poll() is None


def test_sccache_server_is_left_running(
    start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCCACHE_START_SERVER", "1")
    server = start(f"6-aa{OURS}")
    assert process_group.end_leftover_processes(f"6-aa{OURS}") == ((), ())
    assert server.poll() is None


def test_child_that_ignores_sigterm_is_killed(
    start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_group, "GRACE_SECONDS", 0.2)
    child = start(f"2-aa{OURS}", DEAF)
    assert process_group.end_leftover_processes(f"2-aa{OURS}")[0]
    assert child.poll() is not None


def test_run_without_leftovers_reports_nothing() -> None:
    assert process_group.end_leftover_processes(f"3-nobody{OURS}") == ((), ())


def test_next_lock_holder_ends_leftovers_of_killed_run(
    start: Callable[..., Child], tmp_path: Path
) -> None:
    files.create_owned_folder(tmp_path / "build")
    (tmp_path / "build" / ".lock.pid").write_text(f"4-aa{OURS}", encoding="utf-8")
    child = start(f"4-aa{OURS}")
    with files.lock_folder(tmp_path / "build"):
        assert child.poll() is not None


def test_leftovers_are_still_known_after_interrupted_cleanup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.create_owned_folder(tmp_path)
    holder = tmp_path / ".lock.pid"
    holder.write_text(f"5-aa{OURS}", encoding="utf-8")

    def interrupted(_: str) -> None:
        raise SystemExit(130)

    monkeypatch.setattr(process_group, "end_leftover_processes", interrupted)
    with pytest.raises(SystemExit), files.lock_folder(tmp_path):
        pass
    assert holder.read_text(encoding="utf-8") == f"5-aa{OURS}"
    monkeypatch.setattr(process_group, "end_leftover_processes", lambda _: ((), ("ninja",)))
    with pytest.raises(BusyError, match="of a killed run: ninja"), files.lock_folder(tmp_path):
        pass
    assert holder.read_text(encoding="utf-8") == f"5-aa{OURS}"
