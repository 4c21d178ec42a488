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
from tasks.system.network.indexfaults import explained, passing
from tasks.system.voice import say

# Seconds without a byte, and how often a connection, or a file that broke off, is tried again. A
# pip that knows no --resume-retries (before 25.1) does not read it.
PATIENCE = {
    "UV_HTTP_TIMEOUT": "60",
    "UV_HTTP_RETRIES": "4",
    "PIP_DEFAULT_TIMEOUT": "60",
    "PIP_RETRIES": "5",
    "PIP_RESUME_RETRIES": "10",
    "RUST_LOG": "uv_client::retry=debug",  # only so does uv say that it tried again
}
_OTHER_NAMES = {"UV_HTTP_TIMEOUT": "UV_REQUEST_TIMEOUT", "PIP_DEFAULT_TIMEOUT": "PIP_TIMEOUT"}
# The same in pip's files, over which its variables count; uv reads these from variables alone
_IN_FILES = {
    "PIP_DEFAULT_TIMEOUT": ("timeout", "default-timeout"),
    "PIP_RETRIES": ("retries",),
    "PIP_RESUME_RETRIES": ("resume-retries",),
}

_UV = re.compile(
    r"Transient (?:\w+ while handling response from|request \w+ for) `(?P<url>[^`]+)`[;,] retrying"
)
_PIP = re.compile(r"Attempting to resume incomplete download \((?P<have>[^/]+)/(?P<all>[^,]+),")


def run(
    argv: Sequence[str],
    what: str,
    log: PurePath,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] = lambda _: None,
) -> None:
    """Run a client to its end. `env` is the whole environment, None for the host's and the client's
    own variables. A failure is explained by its kind, and one that may pass is tried once more.
    """
    host = shell.package_env()
    given = patient(host if env is None else env, in_files())
    came: list[str] = []

    def heard(line: str) -> None:
        if again := retried(line, what):
            say(again)
        on_line(line)

    def once() -> None:
        # what came with other bytes lies in pip's cache
        fresh = {"PIP_NO_CACHE_DIR": "1"} if came else {}
        try:
            with credentials.hide(argv, {**given, **fresh}) as (words, variables):
                shell.run(Command(words, variables, what, log=log), heard)
        except CommandFailedError as error:
            raise explained(error) from error

    def may_pass(error: Exception) -> str:
        reason = passing(error)
        came.append(reason)
        return reason

    insisting.insist(what, once, may_pass, insisting.PAUSES[:1])


def in_files() -> frozenset[str]:
    """The variables of our patience whose like a person has set in pip's files."""
    return frozenset(name for name, keys in _IN_FILES.items() if ownindex.in_pips_files(*keys))


def patient(env: Mapping[str, str], said: Collection[str] = ()) -> dict[str, str]:
    """The environment with our patience where nobody has said another: in it, or elsewhere (`said`,
    names of variables). Pure.
    """
    left = {n for n in PATIENCE if n in said or _OTHER_NAMES.get(n, n) in env}
    return {**{n: value for n, value in PATIENCE.items() if n not in left}, **env}


def retried(line: str, what: str) -> str:
    """What uv or pip says of a connection that broke or stalled, for people; "" for other lines.
    Pure.
    """
    if told := _UV.search(line):
        name = PurePosixPath(unquote(urlsplit(told["url"]).path)).name
        return f"{name or what}: the connection broke or stalled; uv fetches it again"
    if told := _PIP.search(line):
        return (
            f"{what}: the connection broke or stalled; pip goes on at {told['have']} of "
            + (told["all"])
        )
    return ""
