"""Notifications at the end of a build."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tasks.cli.running import run_boundaries
from tasks.core.errors import TorchyardError
from tasks.settings.schema import Notify
from tasks.system import files, shell
from tasks.system.screen import Screen
from tests.support.terminal import Terminal
from tests.unit.cli.running.test_graph import Bench

BELL = "\a"
NOTED = """
import json, os, sys
told = {name: value for name, value in os.environ.items() if name.startswith("TORCHYARD_")}
open(sys.argv[1], "a").write(json.dumps(told) + "\\n")
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def noting(bench: Bench, path: Path) -> None:
    bench.notify = Notify(command=(sys.executable, "-c", NOTED, str(path)))


def fail() -> str:
    raise TorchyardError("the wheel is wrong")


def test_notify_command_receives_build_result(bench: Bench, tmp_path: Path) -> None:
    noting(bench, tmp_path / "told")
    bench.doit()
    bench.inputs, bench.acts = {"flag": "B"}, {"deps": lambda: "other", "wheel": fail}
    bench.doit()
    done, failed = map(json.loads, (tmp_path / "told").read_text("utf-8").splitlines())
    assert done["TORCHYARD_OUTCOME"] == "done"
    assert done["TORCHYARD_PROFILE"] == "trial"
    assert done["TORCHYARD_SECONDS"].isdigit()
    assert done["TORCHYARD_MESSAGE"].startswith("torchyard: trial is done after ")
    assert failed["TORCHYARD_OUTCOME"] == "failed"
    assert failed["TORCHYARD_MESSAGE"].startswith("torchyard: trial failed after ")


def test_idle_or_interrupted_run_sends_no_notification(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    bench.asks = "always"
    bench.doit()
    noting(bench, tmp_path / "told")
    bench.doit()
    assert "Unchanged" in bench.out.getvalue()
    bench.doit("list")
    bench.acts["deps"] = lambda: handlers[signal.SIGINT](signal.SIGINT, None)
    with pytest.raises(SystemExit):
        bench.doit()
    assert "Interrupted" in bench.out.getvalue()
    assert not (tmp_path / "told").exists()


def test_refused_second_run_sends_no_notification(bench: Bench, tmp_path: Path) -> None:
    bench.doit()
    noting(bench, tmp_path / "told")
    bench.inputs = {"flag": "B"}
    with files.lock_folder(bench.layout.build):
        assert bench.doit() != 0
    assert not (tmp_path / "told").exists()


def test_lock_is_released_before_notification(bench: Bench, tmp_path: Path) -> None:
    looking = "import os, sys; open(sys.argv[2], 'w').write(str(os.path.exists(sys.argv[1])))"
    holder, result = Path(bench.layout.build) / ".lock.pid", tmp_path / "told"
    bench.notify = Notify(command=(sys.executable, "-c", looking, str(holder), str(result)))
    bench.doit()
    assert result.read_text("utf-8") == "False"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("no-such-program",), "cannot start no-such-program"),
        ((sys.executable, "-c", "raise SystemExit('no bus')"), "no bus"),
    ],
)
def test_failing_notify_command_is_a_warning(
    bench: Bench, argv: tuple[str, ...], message: str
) -> None:
    bench.notify = Notify(command=argv)
    assert bench.doit() == 0
    assert bench.out.getvalue().count("Warning notify.command: ") == 1
    assert message in bench.out.getvalue()


def test_hanging_notify_command_is_terminated(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "_NOTIFY_TIMEOUT", 0.5)
    bench.notify = Notify(command=(sys.executable, "-c", "import time; time.sleep(60)"))
    started = time.monotonic()
    assert bench.doit() == 0
    assert time.monotonic() - started < 30
    assert "took longer than" in bench.out.getvalue()


def ring_of(bench: Bench, monkeypatch: pytest.MonkeyPatch, out: io.StringIO, *argv: str) -> str:
    """Return what a run adds to `out`."""
    monkeypatch.setattr("tests.unit.cli.running.test_graph.io.StringIO", lambda: out)
    before = len(out.getvalue())
    bench.doit(*argv)
    return out.getvalue()[before:]


def test_only_a_long_build_rings_the_terminal_bell(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    assert BELL not in ring_of(bench, monkeypatch, terminal)
    monkeypatch.setattr(run_boundaries, "_LONG_RUN_SECONDS", 0.0)
    assert BELL not in ring_of(bench, monkeypatch, terminal), "it was up to date"
    bench.inputs, bench.acts["deps"] = {"flag": "B"}, lambda: "other"
    assert ring_of(bench, monkeypatch, terminal).endswith(BELL)
    bench.inputs, bench.acts["deps"] = {"flag": "C"}, fail
    assert ring_of(bench, monkeypatch, terminal).endswith(BELL)
    bench.notify = Notify(bell=False)
    assert BELL not in ring_of(bench, monkeypatch, terminal)


def test_log_and_ci_get_no_bell(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    monkeypatch.setattr(run_boundaries, "_LONG_RUN_SECONDS", 0.0)
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert BELL not in ring_of(bench, monkeypatch, log)
    monkeypatch.setenv("CI", "true")
    bench.inputs = {"flag": "B"}
    assert BELL not in ring_of(bench, monkeypatch, terminal)


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_bell_goes_to_stderr_terminal_if_stdout_is_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import pty  # noqa: PLC0415 - not on Windows

    monkeypatch.delenv("CI", raising=False)
    ours, theirs = pty.openpty()
    log = io.StringIO()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        Screen(log).ring_bell()
        assert os.read(ours, 10) == BELL.encode()
    os.close(ours)
    assert log.getvalue() == ""
