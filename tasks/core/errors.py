"""Everything that is expected to go wrong, one class per way to go on from it.

Each error says what happened, where, and what to do, in that order. It knows nothing of doit:
`tasks.cli.running.execute` turns a `BuildError` into a failed task (exit 1), `dodo.py` turns a
`SettingsError` into a refused load (exit 3). Anything that is not a `BuildError` is a bug of ours
and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.core.redaction import is_secret_name as is_secret_name  # noqa: PLC0414 - asked for here
from tasks.core.redaction import redact_secrets as redact_secrets  # noqa: PLC0414

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
    tells.
    """

    exit_description = ""
    log_offset = 0
    output = ""

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
