"""Child processes, tested with real small programs."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tasks.core.errors import CommandFailedError, InterruptedRunError, MissingToolError
from tasks.core.model import Command
from tasks.diagnosis.first_error import find_error_or_last_line
from tasks.diagnosis.log_lines import RawLine, parse_lines
from tasks.system import process_group, shell
from tests.support.rows import each_row
from tests.support.systems import posix_only as posix
from tests.support.systems import windows_only


def python(code: str, log: Path | None = None, timeout: float | None = None) -> Command:
    return Command(
        (sys.executable, "-c", code), shell.build_host_env(), "try it", log=log, timeout=timeout
    )


def test_every_line_goes_to_log_and_listener(tmp_path: Path) -> None:
    lines: list[str] = []
    shell.run_command(python("print('one'); print('two')", tmp_path / "log"), lines.append)
    assert lines == ["one", "two"]
    assert (tmp_path / "log").read_text().splitlines()[1:] == ["one", "two"]


def test_failure_names_first_error_line_instead_of_last(tmp_path: Path) -> None:
    code = (
        "print('compiling'); print('a.cu(3): error: identifier \"FLT_MAX\" is undefined');"
        "print('ninja: build stopped: subcommand failed.'); raise SystemExit(1)"
    )
    (tmp_path / "log").write_text("$ an earlier command\nb.cu(1): error: of an earlier run\n")
    with pytest.raises(CommandFailedError) as caught:
        shell.run_command(python(code, tmp_path / "log"))
    assert 'identifier "FLT_MAX" is undefined' in caught.value.message
    number = int(caught.value.location.rpartition(":")[2])
    assert "FLT_MAX" in (tmp_path / "log").read_text().splitlines()[number - 1]
    assert "earlier" not in str(caught.value)


def test_secrets_in_urls_are_not_logged(tmp_path: Path) -> None:
    code = "print('error: https://me:hunter2@host.example/x'); raise SystemExit(3)"
    with pytest.raises(CommandFailedError) as caught:
        shell.run_command(python(code, tmp_path / "log"))
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in (tmp_path / "log").read_text()


def test_child_gets_only_allowed_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXXFLAGS", "-O0")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    seen = shell.capture_output(python("import os; print('\\n'.join(os.environ))")).split()
    assert "CXXFLAGS" not in seen
    assert "AWS_SECRET_ACCESS_KEY" not in seen
    assert "PATH" in seen


def test_missing_program_is_named() -> None:
    with pytest.raises(MissingToolError, match="cannot start no-such-program"):
        shell.run_command(Command(("no-such-program",), shell.build_host_env(), "look"))


def test_missing_folder_is_named(tmp_path: Path) -> None:
    command = Command(
        (sys.executable, "-c", ""), shell.build_host_env(), "look", cwd=tmp_path / "gone"
    )
    with pytest.raises(MissingToolError, match="gone"):
        shell.run_command(command)


def test_command_that_times_out_is_ended_and_reported(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(CommandFailedError, match="took longer than 1 s"):
        shell.run_command(python("import time; time.sleep(60)", tmp_path / "log", timeout=1))
    assert time.monotonic() - started < 30


def test_output_that_is_not_utf_8_is_decoded() -> None:
    assert "�" in shell.capture_output(python("import os; os.write(1, b'\\xff\\xfe\\n')"))


def test_process_group_is_ended_with_its_leader(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', "
        "'import time; time.sleep(600)']); print(p.pid, flush=True)"
    )
    lines: list[str] = []
    shell.run_command(python(code, tmp_path / "log"), lines.append)
    assert not _runs(int(lines[0]))


LEAVES = """
import subprocess, sys
null = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleep, process_group=0, **null)
print(child.pid, flush=True)
sys.exit(CODE)
"""


@posix
def test_detached_child_of_failed_command_is_ended() -> None:
    lines: list[str] = []
    with pytest.raises(CommandFailedError):
        shell.run_command(python(LEAVES.replace("CODE", "1")), lines.append)
    assert not _runs(int(lines[0]))


@posix
def test_detached_child_of_successful_command_is_kept() -> None:
    lines: list[str] = []
    shell.run_command(python(LEAVES.replace("CODE", "0")), lines.append)
    assert _runs(int(lines[0]))
    os.kill(int(lines[0]), signal.SIGKILL)


@posix
def test_child_that_ignores_sigint_and_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_group, "GRACE_SECONDS", 0.3)
    code = (
        "import os, signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)];"
        "print(os.getpid(), flush=True); time.sleep(600)"
    )
    lines: list[str] = []
    with pytest.raises(CommandFailedError):
        shell.run_command(python(code, tmp_path / "log", timeout=5), lines.append)
    assert not _runs(int(lines[0]))


WAITS = """
import signal, subprocess, sys
for number in (2, 15):
    signal.signal(number, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(15, signal.SIG_DFL); time.sleep(600)"
print("waiting", flush=True)
subprocess.run([sys.executable, "-c", deaf], process_group=0)
print("its child has ended", flush=True)
"""


@posix
def test_parent_is_not_killed_before_child_that_ignores_sigint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_group, "GRACE_SECONDS", 2.0)
    lines: list[str] = []
    with pytest.raises(CommandFailedError):
        shell.run_command(python(WAITS, timeout=3), lines.append)
    assert "its child has ended" in lines


@posix
def test_interrupt_all_ends_child_of_another_thread(tmp_path: Path) -> None:
    ended: list[int] = []

    def wait() -> None:
        # a background script ignores SIGINT, and children inherit that
        listen = "import signal, time; signal.signal(2, signal.default_int_handler);"
        try:
            shell.run_command(
                python(f"{listen} print('up', flush=True); time.sleep(600)"), up.append
            )
        except CommandFailedError as error:
            ended.append(error.code)

    up: list[str] = []
    thread = threading.Thread(target=wait)
    thread.start()
    while not up:
        time.sleep(0.01)
    process_group.interrupt_all()
    thread.join(30)
    assert ended
    assert ended[0] != 0


def test_interrupt_while_child_starts_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over, start, lines = threading.Event(), process_group.start_child, list[str]()

    def interrupted(*given: Any, **more: Any) -> Any:
        over.set()
        process_group.interrupt_all()
        return start(*given, **more)

    monkeypatch.setattr(process_group, "start_child", interrupted)
    with shell.stop_commands_when(over.is_set), pytest.raises(InterruptedRunError):
        shell.run_command(python("import time; time.sleep(600)", timeout=60), lines.append)
    assert not [line for line in lines if "took longer" in line]


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@each_row(
    ("log", "expected"),
    [
        ("x.cpp:3:10: fatal error: foo.h: No such file\nninja: build stopped", (1, "foo.h")),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_50'\n", (1, "compute_50")),
        ("ok\nKilled\nninja: error: x", (2, "Killed")),
        ("a\nCMake Error at CMakeLists.txt:3 (x):\n", (2, "CMake Error")),
        (
            "UserWarning: Error checking compiler version for cl\nerror: [WinError 2] x",
            (2, "WinError"),
        ),
        ("Traceback (most recent call last):\n  File x\nRuntimeError: no\n", (3, "RuntimeError")),
        ("cl : Command line warning D9002 : x\nfoo.cpp(2): error C2065: 'x'", (2, "C2065")),
        (
            "/usr/bin/ld: a.so: undefined reference to `f'\ncollect2: error: ld returned 1",
            (1, "`f'"),
        ),
        (
            "/usr/bin/ld: cannot find -lcudart: No such file\ncollect2: error: ld returned 1",
            (1, "-l"),
        ),
        ("only words\n", (1, "only words")),
        ("", (0, "")),
    ],
)
def test_first_error_line_is_found(log: str, expected: tuple[int, str]) -> None:
    raws = (RawLine(number, text) for number, text in enumerate(log.splitlines(), 1))
    found = find_error_or_last_line(parse_lines(raws))
    assert (found.number if found else 0) == expected[0]
    assert expected[1] in (found.text if found else "")


def test_host_env_ignores_case_of_windows_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"Path": "x", "SystemRoot": "y", "Secret": "z"})
    monkeypatch.setattr(shell, "_IGNORES_CASE", True)
    given = shell.build_host_env()
    assert given.pop("PYTHONIOENCODING") == "utf-8"
    assert given == {"Path": "x", "SystemRoot": "y"}


def test_unicode_output_of_python_is_decoded() -> None:
    assert shell.capture_output(python("print('C:/Users/Jürgen/日本')")) == "C:/Users/Jürgen/日本\n"


@windows_only
def test_program_is_searched_on_path_of_child(tmp_path: Path) -> None:
    (tmp_path / "tool.bat").write_text("@echo it is this one\n", encoding="utf-8")
    env = {**shell.build_host_env(), "PATH": f"{tmp_path};{os.environ['PATH']}"}
    assert shell.capture_output(Command(("tool",), env, "look")).strip() == "it is this one"


@windows_only
def test_program_that_windows_cannot_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "tool.exe").write_text("no program", encoding="utf-8")
    command = Command((str(tmp_path / "tool.exe"),), shell.build_host_env(), "look")
    with pytest.raises(MissingToolError, match=r"cannot start .*tool\.exe"):
        shell.run_command(command)


class Full(io.StringIO):
    """A file on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_neither_hangs_command_nor_hides_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shell, "_open_log", lambda _: contextlib.nullcontext(Full()))
    code = "import sys; print('x\\n' * 200_000); print('error: the reason'); sys.exit(1)"
    command = Command((sys.executable, "-c", code), shell.build_host_env(), "fill it", timeout=60)
    with pytest.raises(CommandFailedError, match="error: the reason"):
        shell.run_command(command)
