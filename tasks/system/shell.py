"""Run processes, each with an argument list, an explicit environment, a new session and a log.

After success, failure or an interrupt, the child's whole process group is ended.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING

from tasks.core import errors
from tasks.core.model import Command
from tasks.system import process_group
from tasks.system.output import bind_current_context

if TYPE_CHECKING:
    from tasks.diagnosis.log_lines import RawLine

_STOP_CHECK_INTERVAL = 0.2  # seconds between checks whether to stop a command
_NOTIFY_TIMEOUT = 10.0  # seconds
_TAIL_LINES = 200  # lines kept of a command without a log
_MAX_UNWRITTEN_LINES = 2000  # lines kept if the disk is full
_is_stopped: contextvars.ContextVar[Callable[[], bool]] = contextvars.ContextVar(
    "stopped", default=lambda: False
)

# The user's variables that a child gets. None of them changes what is compiled.
PASSED_VARIABLES = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "COLUMNS",
    "TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_ALLOW_PROTOCOL",
    "GIT_HTTP_LOW_SPEED_LIMIT", "GIT_HTTP_LOW_SPEED_TIME", "NETRC", "SSH_AUTH_SOCK",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy",
    "no_proxy", "all_proxy", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS",
    "CUDA_VISIBLE_DEVICES",
    "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA",
    "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "COMMONPROGRAMFILES",
    "COMMONPROGRAMFILES(X86)", "PROGRAMW6432", "COMMONPROGRAMW6432", "ALLUSERSPROFILE", "PUBLIC",
    "USERNAME", "USERDOMAIN", "COMPUTERNAME", "HOMEDRIVE", "HOMEPATH",
    "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "PROCESSOR_ARCHITEW6432",
    "PROCESSOR_IDENTIFIER", "OS",
})  # fmt: skip
_IGNORES_CASE = os.name == "nt"  # Windows ignores the case of names
PASSED_PREFIXES = ("LC_", "CCACHE_", "SCCACHE_")
# These keep a program off the network. Every child gets them, except values with a password
_OFFLINE_VARIABLES = frozenset({
    "PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_CONFIG_FILE",
    "UV_CONFIG_FILE", "UV_FIND_LINKS", "UV_OFFLINE",
})  # fmt: skip
# Address and credentials of a remote compiler cache
REMOTE_CACHE_VARIABLES = (
    *("CCACHE_REMOTE_STORAGE", "CCACHE_SECONDARY_STORAGE", "SCCACHE_REDIS", "SCCACHE_WEBDAV"),
    *("SCCACHE_BUCKET", "SCCACHE_S3_", "SCCACHE_ENDPOINT", "SCCACHE_REGION", "SCCACHE_GCS"),
    *("SCCACHE_MEMCACHED", "SCCACHE_AZURE", "SCCACHE_GHA", "SCCACHE_OSS", "SCCACHE_COS"),
)


@contextlib.contextmanager
def stop_commands_when(stopped: Callable[[], bool]) -> Iterator[None]:
    """Make commands in the block raise `InterruptedRunError` once `stopped` returns True."""
    token = _is_stopped.set(stopped)
    try:
        yield
    finally:
        _is_stopped.reset(token)


def build_host_env() -> dict[str, str]:
    """Return a child's environment: selected variables of the user, with messages in English."""
    env = {name: value for name, value in os.environ.items() if _is_passed_variable(name, value)}
    # Python on Windows would write to a pipe in the machine's code page
    if _IGNORES_CASE:
        return {**env, "PYTHONIOENCODING": "utf-8"}
    if "PATH" in env:
        # A relative entry means the folder that a command is run in, which may be third-party
        # sources that contain a program named git
        entries = env["PATH"].split(os.pathsep)
        env["PATH"] = os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())
    # LC_ALL overrides LC_MESSAGES, and LANGUAGE overrides both for GNU programs
    env.pop("LANGUAGE", None)
    if locale := env.pop("LC_ALL", None):
        env |= {"LANG": locale, "LC_CTYPE": locale}
    return {**env, "LC_MESSAGES": "C"}


def _is_passed_variable(name: str, value: str) -> bool:
    key = name.upper() if _IGNORES_CASE else name
    if key in _OFFLINE_VARIABLES:
        return errors.redact_secrets(value) == value
    is_passed = key in PASSED_VARIABLES or key.startswith(PASSED_PREFIXES)
    return is_passed and not key.startswith(REMOTE_CACHE_VARIABLES)


def build_installer_env() -> dict[str, str]:
    """Return the environment for uv and pip, including PIP_* and UV_*, but not UV_PUBLISH_*."""
    installer_variables = _select_variables(("PIP_", "UV_"))
    passed = {n: v for n, v in installer_variables.items() if not n.startswith("UV_PUBLISH_")}
    # UV_NO_WRAP: each error is a single line of the log
    return {**build_host_env(), **passed, "UV_NO_WRAP": "1"}


def read_remote_cache_variables() -> dict[str, str]:
    """Return the user's variables with the address and login of a remote compiler cache."""
    return _select_variables(REMOTE_CACHE_VARIABLES)


def _select_variables(prefixes: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(prefixes)}


def run_command(
    command: Command,
    on_line: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Run a command. Write each line of its output to the log, and pass the line to `on_line`.

    If the event `stop` is set, the command is ended and counts as failed. Raises
    `CommandFailedError` with the first error of the log, or `MissingToolError` if the program does
    not exist.
    """
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    unwritten: deque[str] = deque(maxlen=_MAX_UNWRITTEN_LINES)
    path = Path(command.log) if command.log else None
    log_offset = path.stat().st_size if path and path.is_file() else 0
    with _open_log(command) as log:

        def record_line(line: str) -> None:
            text = errors.redact_secrets(line.rstrip("\n"))
            tail.append(text)
            try:
                log.write(text + "\n")
                log.flush()
            except OSError:  # the disk is full; the child's output must still be read
                unwritten.append(text)
            if on_line:
                on_line(text)

        code = _run_and_wait(command, record_line, stop=stop)
    if code:
        raise _build_command_error(command, code, tail, log_offset, unwritten)


def capture_output(command: Command) -> str:
    """Return the standard output of a short command. On failure, raise an error with all output."""
    out: list[str] = []
    err: list[str] = []
    if code := _run_and_wait(command, out.append, err.append):
        lines = [errors.redact_secrets(line.rstrip("\n")) for line in [*out, *err]]
        raise _build_command_error(command, code, lines)
    return "".join(out)


def try_capture(
    *argv: str, what: str, timeout: float | None = None, env: Mapping[str, str] | None = None
) -> str | None:
    """Return a short command's standard output, or None on failure. `what` names the command."""
    try:
        return capture_output(Command(argv, env or build_host_env(), what, timeout=timeout))
    except (errors.CommandFailedError, errors.MissingToolError):
        return None


def _run_and_wait(
    command: Command,
    out: Callable[[str], None],
    err: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> int:
    _require_not_stopped(command)
    child = _start_process(command, split=err is not None)
    readers = [_start_reader(child.stdout, out)]
    if err:
        readers.append(_start_reader(child.stderr, err))
    try:
        _require_not_stopped(command)  # an interrupt during the start did not reach the child
        code = child.wait(command.timeout) if stop is None else _wait_or_stop(child, stop)
    except subprocess.TimeoutExpired:
        out(f"error: {command.step_name} took longer than {command.timeout:.0f} s and was ended\n")
        code = 124
    finally:
        process_group.end_group(child)
        for reader, stream in zip(readers, (child.stdout, child.stderr), strict=False):
            reader.join(process_group.GRACE_SECONDS)
            if stream and not reader.is_alive():
                stream.close()
    _require_not_stopped(command)
    return code


def _wait_or_stop(child: subprocess.Popen[str], stop: threading.Event) -> int:
    """Wait for the child and return its exit code, or -SIGINT if `stop` is set in the meantime."""
    while not stop.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(_STOP_CHECK_INTERVAL)
    return -signal.SIGINT


def _require_not_stopped(command: Command) -> None:
    if _is_stopped.get()():
        raise errors.InterruptedRunError(f"{command.step_name}: interrupted")


def _start_process(command: Command, *, split: bool) -> subprocess.Popen[str]:
    program = command.argv[0]
    if os.name == "nt" and PurePath(program).name == program:
        # Windows would search the PATH of this process, not the child's PATH
        program = shutil.which(program, path=command.env.get("PATH", "")) or program
    try:
        return process_group.start_child(
            (program, *command.argv[1:]),
            serves=command.serves,
            env={**command.env, process_group.RUN_VARIABLE: process_group.RUN_ID},
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if split else subprocess.STDOUT,
            encoding=command.encoding,
            errors="replace",
        )
    except OSError as error:
        is_cwd_missing = command.cwd is not None and not Path(command.cwd).is_dir()
        missing = command.cwd if is_cwd_missing else command.argv[0]
        message = f"{command.step_name}: cannot start {missing}: {error.strerror}"
        raise errors.MissingToolError(message) from error


def _start_reader(stream: IO[str] | None, take: Callable[[str], None]) -> threading.Thread:
    def read_stream() -> None:
        with contextlib.suppress(ValueError):  # the stream was closed while it was read
            for line in stream or ():
                take(line)

    thread = threading.Thread(target=bind_current_context(read_stream), daemon=True)
    thread.start()
    return thread


@contextlib.contextmanager
def _open_log(command: Command) -> Iterator[IO[str]]:
    path = Path(command.log) if command.log else Path(os.devnull)
    if command.log:
        path.parent.mkdir(parents=True, exist_ok=True)
    log = path.open("a", encoding="utf-8")
    try:
        log.write(errors.redact_secrets(f"$ {subprocess.list2cmdline(command.argv)}\n"))
        yield log
    finally:
        with contextlib.suppress(OSError):  # the buffered rest does not fit on the disk
            log.close()


def _build_command_error(
    command: Command, code: int, tail: Sequence[str], offset: int = 0, unwritten: Iterable[str] = ()
) -> errors.CommandFailedError:
    """Return the exception for a failed command, with the first error in its output."""
    from tasks.diagnosis.failure_matches import ParsedLog  # noqa: PLC0415 - only where it failed
    from tasks.diagnosis.first_error import find_error_or_last_line  # noqa: PLC0415

    reason = f"signal {-code}" if code < 0 else f"exit {code}"
    description = f"{command.step_name} failed ({reason})"
    parsed = ParsedLog(_read_output(command.log, offset, tail, unwritten), command.log)
    has_command = bool(parsed.lines) and parsed.lines[0].text.startswith("$ ")
    error_line = find_error_or_last_line(parsed.lines[1:] if has_command else parsed.lines)
    located = (line for line in (error_line, *parsed.lines[:1]) if line)
    number = next((line.number for line in located), 0)
    location = f"{command.log}:{number}" if command.log else ""
    message = f"{description}: {error_line.text}" if error_line else description
    error = errors.CommandFailedError(message, code=code, location=location)
    error.exit_description, error.log_offset, error.output = description, offset, "\n".join(tail)
    error.parsed_log = parsed
    return error


def _read_output(
    log: PurePath | None, offset: int, tail: Iterable[str], unwritten: Iterable[str]
) -> list[RawLine]:
    """Return a command's output: the log from byte `offset` on or, without a log, `tail`."""
    from tasks.diagnosis.log_io import read_log  # noqa: PLC0415 - only where something failed
    from tasks.diagnosis.log_lines import RawLine  # noqa: PLC0415

    lines: list[RawLine] = []
    with contextlib.suppress(errors.TorchyardError):
        lines = list(read_log(Path(log), offset)) if log else []
    first = lines[-1].number + 1 if lines else 1
    return [*lines, *itertools.starmap(RawLine, enumerate(unwritten if lines else tail, first))]


def run_notification(
    command: tuple[str, ...], outcome: str, profile: str, seconds: float, message: str
) -> None:
    """Run the notification command in the user's full environment, for at most 10 s."""
    env = {
        **os.environ,
        "TORCHYARD_OUTCOME": outcome,
        "TORCHYARD_PROFILE": profile,
        "TORCHYARD_SECONDS": str(round(seconds)),
        "TORCHYARD_MESSAGE": message,
    }
    run_command(Command(command, env, f"run {command[0]}", timeout=_NOTIFY_TIMEOUT))
