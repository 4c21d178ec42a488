"""Everything that is expected to go wrong, one class per way to go on from it.

Each error says what happened, where, and what to do, in that order. It knows nothing of doit:
`tasks.cli.running.execute` turns a `BuildError` into a failed task (exit 1), `dodo.py` turns a
`SettingsError` into a refused load (exit 3). Anything that is not a `BuildError` is a bug of ours
and keeps its traceback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_URL_CREDENTIALS = re.compile(r"(?<=://)[^/\s\"]+@")
# Names in a query whose value opens something: `token`, `X-Amz-Signature`, `AWSAccessKeyId`, `sig`.
# What ends a sentence is no part of a value, nor is what ends a string in a shell or in JSON.
_QUERY_PARAMETER = re.compile(
    r"""(
        (?:[?&\#]|&amp;)
        (?:
            [\w.~-]*(?:token|passw(?:or)?d|passphrase|secret|signature|credentials?)
            |[\w.~-]*(?:api|access|auth|private|secret|shared|subscription)-?key(?:-?id)?
            |(?:[\w.~-]*[._-])?(?:key|sig|pass|pwd?|auth|jwt|sas)
        )=
    )
    [^\s&\#"'<>\\]*[^\s&\#"'<>\\.,:;)\]}]""",
    re.IGNORECASE | re.VERBOSE,
)
_WORD_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"  # of a line in JSON, too
_SECRET_VALUE = r"""(?!\*\*\*|&)[^\s"'<>\\]*[^\s"'<>\\.,:;)\]}]"""  # noqa: S105
_AUTH_HEADER = re.compile(
    rf"""(
        authorization\\?["']?[ ]?[:=][ ]?\\?["']?
        (?!(?:\w+[ ]+)?\*)(?:(?:basic|bearer|token|digest|negotiate)[ ]+)?
        |{_WORD_START}bearer[ ]+(?=[\w.~+/=-]{{8}})
    )
    {_SECRET_VALUE}""",
    re.IGNORECASE | re.VERBOSE,
)
# `"password": "a b"`, `HF_TOKEN=…`, `aws_secret_access_key = …`, `password: x`. A token is also a
# word of compilers and of language models (`next_token = f()`, `max_tokens=4096`), and what comes
# after a colon may be a sentence about the variable.
_SECRET_WORD = (
    r"(?:passw(?:or)?ds?|passphrase|secrets?|credentials?|(?:api|access)[_-]?keys?)(?:_\w+)?"  # noqa: S105
)
_TOKEN_WORD = r"tokens?(?:_\w+)?"  # noqa: S105 - what a name looks like
_SECRET_ASSIGNMENT = re.compile(
    rf"""
    ((?:{_SECRET_WORD}|{_TOKEN_WORD})\\?["'][ ]?:[ ]?\\?["'])(?!\*\*\*)[^"'\\\n]+
    |((?:{_SECRET_WORD}[ ]?=[ ]?|{_TOKEN_WORD}=(?!\d+\b))\\?["']?){_SECRET_VALUE}
    |((?:{_SECRET_WORD}|{_TOKEN_WORD}):[ ](?=[^\s"'\\]*\d|[^\s"'\\]+(?:["'\\\n]|$))){_SECRET_VALUE}
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TOKEN_PREFIX = re.compile(
    rf"{_WORD_START}(?:gh[pousr]_|github_pat_|hf_|glpat-|pypi-|xox[a-z]-|AKIA)[\w-]{{8,}}"
)
_SECRET_NAME = re.compile(
    r"(^|_)(TOKENS?|PASSWORDS?|PASSWD|SECRETS?|CREDENTIALS?|API_?KEYS?|ACCESS_KEYS?)($|_)",
    re.IGNORECASE,
)


def is_secret_name(variable: str) -> bool:
    """Whether a variable of this name usually holds something that must not be written down."""
    return _SECRET_NAME.search(variable) is not None


def redact_secrets(text: str) -> str:
    """Take passwords and tokens out of `text`: those of URLs with the user's name, of headers, of
    variables that are called like a secret, and those that tell by how they begin.
    """
    if "@" in text and "://" in text:
        text = _URL_CREDENTIALS.sub("***@", text)
    if "=" in text and ("?" in text or "&" in text or "#" in text):
        text = _QUERY_PARAMETER.sub(r"\1***", text)
    if "\n" in text:
        return "\n".join(map(_redact_line, text.split("\n")))
    return _redact_line(text)


def _redact_line(line: str) -> str:
    if _has_token_prefix(line):
        line = _TOKEN_PREFIX.sub("***", line)
    low = line.lower()
    if "authorization" in low or "bearer" in low:
        line = _AUTH_HEADER.sub(r"\1***", line)
    if _has_secret_word(low):
        line = _SECRET_ASSIGNMENT.sub(r"\1\2\3***", line)
    return line


# Twice as fast as any(): most lines have nothing of it, and are asked for all.
def _has_token_prefix(line: str) -> bool:
    return (
        "hf_" in line
        or "ghp_" in line
        or "gho_" in line
        or "ghu_" in line
        or "ghs_" in line
        or "ghr_" in line
        or "github_pat_" in line
        or "glpat-" in line
        or "pypi-" in line
        or "xox" in line
        or "AKIA" in line
    )


def _has_secret_word(low: str) -> bool:
    return (
        "token" in low
        or "pass" in low
        or "secret" in low
        or "credential" in low
        or ("key" in low and ("api" in low or "access" in low))
    )


OFFLINE_HINT = (
    "without a network: doit bundle where there is one, then offline: PATH here (docs/offline.md)"
)


class TorchyardError(Exception):
    """Something a person can act on.

    `what` happened is one sentence; `where` is a file with a dotted key, or a log with a line;
    `todo` is what to do next, a command where there is one. What a log told of it later: the
    `cause` in a sentence, an `excerpt` of what a compiler showed, the whole `log`, and the
    `diagnosis` for programs, None without one.
    """

    cause = ""
    excerpt: tuple[str, ...] = ()
    log = ""
    diagnosis: Mapping[str, Any] | None = None

    def __init__(self, message: str, *, location: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.location}: {self.message}" if self.location else self.message
        text = "\n".join([text, *(f"    {line}" for line in self.excerpt)])
        if self.cause:
            text = f"{text}\n  cause: {self.cause}"
        if self.hint:
            text = f"{text}\n  → {self.hint}"
        if self.log:
            text = f"{text}\n  the whole log: {self.log}"
        return redact_secrets(text)


class SettingsError(TorchyardError):
    """The settings cannot be meant: seen offline at load, exit 3."""


class KnowledgeError(TorchyardError):
    """A question that the facts in config/knowledge answer with no: unknown GPU, arch or
    release.
    """


class CommandFailedError(TorchyardError):
    """A child process ended with an exit code that means failure.

    `ended` is how, without its first error; `begun` is where in its log, in bytes, its output
    begins. `said` is the end of what it printed, for who has to know more than the first error
    tells. `parsed_log` is the `ParsedLog` of diagnosis with all of its output that can matter.
    """

    exit_description = ""
    log_offset = 0
    output = ""
    parsed_log: Any = None

    def __init__(self, message: str, *, code: int, location: str = "", hint: str = "") -> None:
        super().__init__(message, location=location, hint=hint)
        self.code = code


class InterruptedRunError(TorchyardError):
    """A person interrupted the run, and this is one of several that were at work."""


class MissingToolError(TorchyardError):
    """A program, compiler or library that must be there is not; `todo` holds the command that adds
    it.
    """


class FetchError(TorchyardError):
    """Something could not be had from outside: no answer, no such version, or the wrong bytes."""


class NotOwnedError(TorchyardError):
    """A folder would be changed or removed that this tool did not make."""


class LostEditsError(TorchyardError):
    """Going on would lose a person's uncommitted work; nothing was touched."""


class BadArtifactError(TorchyardError):
    """A wheel or library is not what it must be: RECORD, tags, digest or machine code."""


class MissingCodeError(BadArtifactError):
    """A wheel lacks machine code for one of the target GPUs."""


class NoSpaceError(TorchyardError):
    """The disk has less room than the stage needs."""


class BusyError(TorchyardError):
    """Another run holds the lock of this build folder."""


class ValidationFailedError(TorchyardError):
    """The build is there, and one or more checks say that it does not work."""
