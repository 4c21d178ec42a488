"""One door to processes.

Every child gets an argument list, an explicit environment, a session of its own and a log. Whatever
ends the wait (success, failure, an interrupt, a bug) ends the child's whole group: INT, then TERM,
then KILL. It does not know what the commands mean; `tasks.effects.firsterror` reads their logs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from tasks.effects.firsterror import first_error
from tasks.errors import CommandFailedError, MissingToolError, redact
from tasks.model import Command

GRACE = 5.0  # seconds between INT, TERM and KILL
_TAIL = 200  # lines kept of a command that has no log

# What a child may see of the person's environment. Nothing that changes what is compiled is in it.
PASSED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "COLUMNS",
    "TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NETRC", "SSH_AUTH_SOCK",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy",
    "no_proxy", "all_proxy", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CUDA_VISIBLE_DEVICES",
    "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA",
    "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "COMMONPROGRAMFILES",
    "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "OS",
})  # fmt: skip
PASSED_PREFIXES = ("LC_", "PIP_", "UV_", "CCACHE_", "SCCACHE_")


_live: set[subprocess.Popen[str]] = set()


def interrupt_all() -> None:
    """Tell every child at work to stop, also those that another thread waits for. Does not wait."""
    for child in tuple(_live):
        _send(child, _signals()[0])


def host_env() -> dict[str, str]:
    """The variables of this process that a child may have."""
    upper = os.name == "nt"  # Windows has one spelling per name, in any case
    return {
        name: value
        for name, value in os.environ.items()
        if (name.upper() if upper else name) in PASSED or name.startswith(PASSED_PREFIXES)
    }


def run(command: Command, on_line: Callable[[str], None] | None = None) -> None:
    """Run to the end, every line into the log, each also to `on_line`.

    Raises `CommandFailedError` with the first error of the log, `MissingToolError` where the
    program is not there.
    """
    tail: deque[str] = deque(maxlen=_TAIL)
    with _log(command) as log:

        def take(line: str) -> None:
            text = redact(line.rstrip("\n"))
            tail.append(text)
            log.write(text + "\n")
            log.flush()
            if on_line:
                on_line(text)

        code = _wait(command, take)
    if code:
        raise _failure(command, code, tail)


def capture(command: Command) -> str:
    """Standard output of a short command; what it says on standard error is told only when it
    fails.
    """
    out: list[str] = []
    err: list[str] = []
    code = _wait(command, out.append, err.append)
    if code:
        raise _failure(command, code, [redact(line.rstrip("\n")) for line in [*out, *err]])
    return "".join(out)


def _wait(
    command: Command, out: Callable[[str], None], err: Callable[[str], None] | None = None
) -> int:
    child = _start(command, split=err is not None)
    _live.add(child)
    readers = [_reader(child.stdout, out)]
    if err:
        readers.append(_reader(child.stderr, err))
    try:
        code = child.wait(command.timeout)
    except subprocess.TimeoutExpired:
        out(f"error: {command.what} took longer than {command.timeout:.0f} s and was ended\n")
        code = 124
    finally:
        _end_group(child)
        _live.discard(child)
        for reader, stream in zip(readers, (child.stdout, child.stderr), strict=False):
            reader.join(GRACE)
            if stream and not reader.is_alive():
                stream.close()
    return code


def _start(command: Command, *, split: bool) -> subprocess.Popen[str]:
    own_group: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        own_group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    try:
        return subprocess.Popen(
            command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if split else subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            **own_group,
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        missing = command.cwd if error.filename == str(command.cwd) else command.argv[0]
        raise MissingToolError(
            f"{command.what}: cannot start {missing}: {error.strerror}"
        ) from error


def _reader(stream: IO[str] | None, take: Callable[[str], None]) -> threading.Thread:
    def read() -> None:
        with contextlib.suppress(ValueError):  # the stream is closed under us at the very end
            for line in stream or ():
                take(line)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def _end_group(child: subprocess.Popen[str]) -> None:
    """End what is left of the group, the leader's children included."""
    for number in _signals():
        if not _send(child, number):
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
        if not _group_lives(child, GRACE if number != signal.SIGINT else 0.5):
            break
    child.wait()


def _signals() -> tuple[int, ...]:
    if sys.platform == "win32":
        return (signal.CTRL_BREAK_EVENT, signal.SIGTERM)
    return (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def _send(child: subprocess.Popen[str], number: int) -> bool:
    """False where there is nobody left to be told."""
    try:
        if sys.platform == "win32":
            if child.poll() is not None:
                return False
            child.send_signal(number) if number != signal.SIGTERM else _end_tree(child.pid)
        else:
            os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError, OSError):
        return False
    return True


def _end_tree(pid: int) -> None:
    import psutil  # noqa: PLC0415 - only where a tree must be ended on Windows

    with contextlib.suppress(psutil.NoSuchProcess):
        leader = psutil.Process(pid)
        for process in [*leader.children(recursive=True), leader]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _group_lives(child: subprocess.Popen[str], patience: float) -> bool:
    if sys.platform == "win32":
        return child.poll() is None
    pause = threading.Event()
    for _ in range(int(patience / 0.05)):
        try:
            os.killpg(child.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        pause.wait(0.05)
    return True


@contextlib.contextmanager
def _log(command: Command) -> Iterator[IO[str]]:
    path = Path(command.log) if command.log else Path(os.devnull)
    if command.log:
        path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as log:
        log.write(redact(f"$ {subprocess.list2cmdline(command.argv)}\n"))
        yield log


def _failure(command: Command, code: int, lines: deque[str] | list[str]) -> CommandFailedError:
    text = Path(command.log).read_text(encoding="utf-8") if command.log else "\n".join(lines)
    number, line = first_error(text.rpartition("\n$ ")[2] if command.log else text)
    number += text.count("\n", 0, text.rfind("\n$ ") + 1) if command.log else 0
    ended = f"signal {-code}" if code < 0 else f"exit {code}"
    return CommandFailedError(
        f"{command.what} failed ({ended}): {line}" if line else f"{command.what} failed ({ended})",
        code=code,
        where=f"{command.log}:{number}" if command.log else "",
    )
