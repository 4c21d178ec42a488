"""Define the exceptions of torchyard, one class for each way to recover, and redact secrets."""

import re
from collections.abc import Mapping
from typing import Any

_URL_CREDENTIALS = re.compile(r"(?<=://)[^/\s\"]+@")
# Query parameters whose value grants access: `token`, `X-Amz-Signature`, `AWSAccessKeyId`, `sig`.
# A value ends before the punctuation of a sentence and before the end of a shell or JSON string.
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
_WORD_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"  # also after an escaped line break in JSON
_SECRET_VALUE = (
    r"""(?!\*\*\*|&|(?:true|false)(?:[\s"'<>\\]|$))"""  # noqa: S105 - `persist-credentials: false`
    r"""[^\s"'<>\\]*[^\s"'<>\\.,:;)\]}]"""
)
_AUTH_HEADER = re.compile(
    rf"""(
        authorization\\?["']?[ ]?[:=][ ]?\\?["']?
        (?!(?:\w+[ ]+)?\*)(?:(?:basic|bearer|token|digest|negotiate)[ ]+)?
        |{_WORD_START}bearer[ ]+(?=[\w.~+/=-]{{8}})
    )
    {_SECRET_VALUE}""",
    re.IGNORECASE | re.VERBOSE,
)
# `"password": "a b"`, `HF_TOKEN=…`, `aws_secret_access_key = …`, `password: x`, but not code such
# as `next_token = f()` and `max_tokens=4096`, and not a sentence after a colon
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
    """Return True if a variable of this name usually holds a secret."""
    return _SECRET_NAME.search(variable) is not None


def redact_secrets(text: str) -> str:
    """Replace known tokens, and credentials in URLs, headers and assignments, with `***`."""
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
    lowered = line.lower()
    if "authorization" in lowered or "bearer" in lowered:
        line = _AUTH_HEADER.sub(r"\1***", line)
    if _has_secret_word(lowered):
        line = _SECRET_ASSIGNMENT.sub(r"\1\2\3***", line)
    return line


# Twice as fast as any(): nearly every line contains none of these texts, so all are tested.
def _has_token_prefix(line: str) -> bool:
    github = "ghp_" in line or "gho_" in line or "ghu_" in line or "ghs_" in line or "ghr_" in line
    other = "github_pat_" in line or "hf_" in line or "glpat-" in line or "pypi-" in line
    return github or other or "xox" in line or "AKIA" in line


def _has_secret_word(low: str) -> bool:
    has_key = "key" in low and ("api" in low or "access" in low)
    return has_key or "token" in low or "pass" in low or "secret" in low or "credential" in low


OFFLINE_HINT = (
    "without a network: run doit bundle on a machine with a network, then set offline: PATH "
    "(docs/offline.md)"
)


class TorchyardError(Exception):
    """An error that the user can act on, and the base class of all torchyard errors. Exit code 1.

    `message` says in one sentence what happened. `location` is a file with a dotted key, or a log
    with a line. `hint` is the next step, as a command if possible. If the log was analyzed,
    `diagnosis` is the result and `excerpt` some compiler output.
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
        lines = [f"{self.location}: {self.message}" if self.location else self.message]
        lines += [f"    {line}" for line in self.excerpt]
        details = (("cause: ", self.cause), ("→ ", self.hint), ("the whole log: ", self.log))
        indented = ((label, text.replace("\n", "\n    ")) for label, text in details)
        lines += [f"  {label}{text}" for label, text in indented if text]
        return redact_secrets("\n".join(lines))


class SettingsError(TorchyardError):
    """Invalid or contradictory settings, found at load time without network access. Exit code 3."""


class KnowledgeError(TorchyardError):
    """A GPU, architecture or release that config/knowledge does not contain or support."""


class CommandFailedError(TorchyardError):
    """The failure of a child process.

    `exit_description` says how the process ended. `output` is the end of the output. The whole
    output is in the log from byte `log_offset` on. `parsed_log` is the `ParsedLog` of
    tasks.diagnosis, or `None` before parsing.
    """

    exit_description = ""
    log_offset = 0
    output = ""
    parsed_log: Any = None

    def __init__(self, message: str, *, code: int, location: str = "", hint: str = "") -> None:
        super().__init__(message, location=location, hint=hint)
        self.code = code


class InterruptedRunError(TorchyardError):
    """An interruption of the run by the user while a stage was running."""


class MissingToolError(TorchyardError):
    """A missing program, compiler or library. `hint` has the command that installs it."""


class FetchError(TorchyardError):
    """A failed download: no answer, a version that does not exist, or wrong content."""


class NotOwnedError(TorchyardError):
    """A refusal to change or remove a folder that torchyard did not create."""


class LostEditsError(TorchyardError):
    """A refusal to overwrite uncommitted changes of the user. Nothing was changed."""


class BadArtifactError(TorchyardError):
    """A wheel or library with an invalid RECORD, or wrong tags, digest or machine code."""


class MissingCodeError(BadArtifactError):
    """A wheel without machine code for one of the target GPUs."""


class NoSpaceError(TorchyardError):
    """Too little free disk space for the stage."""


class BusyError(TorchyardError):
    """A build directory that is locked by another run."""


class ValidationFailedError(TorchyardError):
    """A complete build that failed one or more validation checks."""
