"""One run of uv or pip that may ask an index: how patient it is, and once more where it broke.

Both try again by themselves, uv from the first byte of a file, pip where it stopped. What they wait
for is set here, where a person has not set it; what they retry is read out of what they print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import PurePath, PurePosixPath
from urllib.parse import unquote, urlsplit

from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.system import shell
from tasks.system.network import credentials, insisting, ownindex
from tasks.system.network.indexfaults import explain_client_failure, find_retry_reason
from tasks.system.voice import print_line

# Seconds without a byte, and how often a connection, or a file that broke off, is tried again. A
# pip that knows no --resume-retries (before 25.1) does not read it.
CLIENT_DEFAULTS = {
    "UV_HTTP_TIMEOUT": "60",
    "UV_HTTP_RETRIES": "4",
    "PIP_DEFAULT_TIMEOUT": "60",
    "PIP_RETRIES": "5",
    "PIP_RESUME_RETRIES": "10",
    "RUST_LOG": "uv_client::retry=debug",  # only so does uv say that it tried again
}
_ALTERNATIVE_NAMES = {"UV_HTTP_TIMEOUT": "UV_REQUEST_TIMEOUT", "PIP_DEFAULT_TIMEOUT": "PIP_TIMEOUT"}
# The same in pip's files, over which its variables count; uv reads these from variables alone
_PIP_FILE_KEYS = {
    "PIP_DEFAULT_TIMEOUT": ("timeout", "default-timeout"),
    "PIP_RETRIES": ("retries",),
    "PIP_RESUME_RETRIES": ("resume-retries",),
}

_UV_RETRY = re.compile(
    r"Transient (?:\w+ while handling response from|request \w+ for) `(?P<url>[^`]+)`[;,] retrying"
)
_PIP_RESUME = re.compile(
    r"Attempting to resume incomplete download \((?P<have>[^/]+)/(?P<all>[^,]+),"
)


def run_index_client(
    argv: Sequence[str],
    what: str,
    log: PurePath,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] = lambda _: None,
) -> None:
    """Run a client to its end. `env` is the whole environment, None for the host's and the client's
    own variables. A failure is explained by its kind, and one that may pass is tried once more.
    """
    host = shell.build_installer_env()
    given = add_client_defaults(host if env is None else env, find_pip_file_defaults())
    came: list[str] = []

    def report_line(line: str) -> None:
        if again := format_retry_message(line, what):
            print_line(again)
        on_line(line)

    def run_once() -> None:
        # what came with other bytes lies in pip's cache
        fresh = {"PIP_NO_CACHE_DIR": "1"} if came else {}
        try:
            with credentials.hide_passwords(argv, {**given, **fresh}) as (words, variables):
                shell.run_command(Command(words, variables, what, log=log), report_line)
        except CommandFailedError as error:
            raise explain_client_failure(error) from error

    def record_retry_reason(error: Exception) -> str:
        reason = find_retry_reason(error)
        came.append(reason)
        return reason

    insisting.retry_action(what, run_once, record_retry_reason, insisting.RETRY_PAUSES[:1])


def find_pip_file_defaults() -> frozenset[str]:
    """The variables of our patience whose like a person has set in pip's files."""
    return frozenset(
        name for name, keys in _PIP_FILE_KEYS.items() if ownindex.read_pip_file_setting(*keys)
    )


def add_client_defaults(env: Mapping[str, str], said: Collection[str] = ()) -> dict[str, str]:
    """The environment with our patience where nobody has said another: in it, or elsewhere (`said`,
    names of variables). Pure.
    """
    left = {n for n in CLIENT_DEFAULTS if n in said or _ALTERNATIVE_NAMES.get(n, n) in env}
    return {**{n: value for n, value in CLIENT_DEFAULTS.items() if n not in left}, **env}


def format_retry_message(line: str, what: str) -> str:
    """What uv or pip says of a connection that broke or stalled, for people; "" for other lines.
    Pure.
    """
    if told := _UV_RETRY.search(line):
        name = PurePosixPath(unquote(urlsplit(told["url"]).path)).name
        return f"{name or what}: the connection broke or stalled; uv fetches it again"
    if told := _PIP_RESUME.search(line):
        return (
            f"{what}: the connection broke or stalled; pip goes on at {told['have']} of "
            + (told["all"])
        )
    return ""
