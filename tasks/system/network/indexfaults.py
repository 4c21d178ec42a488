"""What a failure of uv or pip means: what kind it is, and whether to try again may help."""

from __future__ import annotations

import re
from pathlib import Path

from tasks.core.errors import OFFLINE_HINT, BadArtifactError, CommandFailedError, FetchError
from tasks.diagnosis.lines import is_debug
from tasks.diagnosis.resolver import find_conflict
from tasks.system.network import offline

_CERTIFICATE_HINT = (
    "the certificate of the package index is not trusted: set SSL_CERT_FILE, and PIP_CERT for pip, "
    "to your organisation's bundle"
)
_NO_ANSWER_HINT = (
    "the package index did not answer: check the network, proxy and index settings "
    "(UV_INDEX_URL, PIP_INDEX_URL, torch.index), then run the same command again; "
    f"{OFFLINE_HINT}"
)
_CONNECTION_HINT = (
    "the connection to the package index broke or stalled, again and again: run the same command "
    "again, and what came whole is not fetched again. On a slow line a longer wait helps "
    "(UV_HTTP_TIMEOUT, PIP_DEFAULT_TIMEOUT, in seconds), or a nearer index: mirrors in the settings"
)
_DAMAGED_HINT = (
    "the transfer was damaged, or a proxy or mirror changes files: run the same command again; "
    "where it stays so, ask the index itself and trust no file of the other"
)
_NO_VERSION_HINT = "the index has no such version for this Python and platform"
_CONFLICT_HINT = (
    "change one of the two: set another version (torch.version, toolkit.version, "
    "requires: of an extension), or take another release of the package that requires it"
)
_NOT_BUNDLED_HINT = (
    "the bundle that offline names does not hold it: build where there is a network, and make the "
    "bundle again there: doit build, then doit bundle --dest"
)

# What to do where a resolver or downloader says one of these, and in which words it is tried again,
# "" where that helps nobody: both have tried to connect several times. The first that holds counts.
_FAILURE_KINDS = (
    (_CERTIFICATE_HINT, "", ("invalid peer certificate", "CERTIFICATE_VERIFY_FAILED")),
    (
        _CONNECTION_HINT,
        "the connection stalled",
        ("network timeout", "Read timed out", "ReadTimeoutError"),
    ),
    (
        _CONNECTION_HINT,
        "the connection broke",
        ("incomplete-download", "error decoding response body", "error reading a body"),
    ),
    (
        _CONNECTION_HINT,
        "the connection broke",
        ("IncompleteRead", "end of file before message length"),
    ),
    (_CONNECTION_HINT, "the connection broke", ("Connection broken:", "Connection reset by peer")),
    (_DAMAGED_HINT, "what came is damaged", ("Bad CRC", "Failed to extract archive", "BadZipFile")),
    (_NO_ANSWER_HINT, "", ("Failed to fetch", "error sending request", "Could not connect")),
    (_NO_ANSWER_HINT, "", ("Max retries exceeded", "connection broken by", "NewConnectionError")),
    (
        _NO_ANSWER_HINT,
        "",
        ("Temporary failure in name resolution", "ConnectTimeoutError", "dns error"),
    ),
    (
        _NO_VERSION_HINT,
        "",
        ("No solution found", "No matching distribution", "Could not find a version"),
    ),
)

# uv: Hash mismatch for `a==1` / Expected: sha256:X / Computed: sha256:Y; pip: a==1 from URL: /
# Expected sha256 X / Got Y, or "unknown package:" where it is the index that names X
_HASH_MISMATCH = re.compile(
    r"(?:Hash mismatch for `(?P<uv>[^`]+)`|^\s*(?P<pip>\S+==\S+|unknown package)(?: .*?)?:$)"
    r"(?P<wanted>.*?)(?:Computed:|Got)\s*(?:sha256:)?(?P<found>[0-9a-f]{64})",
    re.DOTALL | re.MULTILINE,
)

# uv: Failed to fetch: `https://host/torch/`; pip: HTTPSConnectionPool(host='host', port=443)
_FAILED_HOST = re.compile(
    r"Failed to fetch: `?https?://(?:[^@/\s]*@)?(?P<uv>[^/\s`]+)|Pool\(host='(?P<pip>[^']+)'"
)


def explain_client_failure(
    error: CommandFailedError,
) -> CommandFailedError | FetchError | BadArtifactError:
    """A resolver's or downloader's failure by its kind: no answer, no such version, two
    conflicting requirements, or the original error.
    """
    text = _read_failure_text(error)
    if other := _HASH_MISMATCH.search(text):
        return _build_hash_error(other, error.location, locked="--require-hashes" in text)
    if conflict := find_conflict(text.splitlines()):
        what = f"{error.exit_description}: {conflict}" if error.exit_description else conflict
        return FetchError(what, location=error.location, hint=_CONFLICT_HINT)
    for todo, _, signs in _FAILURE_KINDS:
        if any(sign in text for sign in signs):
            remedy = _NOT_BUNDLED_HINT if offline.is_offline() else todo
            return FetchError(
                error.message, location=error.location, hint=_add_failed_host(remedy, text)
            )
    return error


def _add_failed_host(remedy: str, text: str) -> str:
    """Of several indexes one may answer: the host that did not, without a name and password."""
    hosts = [found["uv"] or found["pip"] for found in _FAILED_HOST.finditer(text)]
    if remedy != _NO_ANSWER_HINT or not hosts:
        return remedy
    return remedy.replace("did not answer", f"did not answer ({hosts[-1]})", 1)


def find_retry_reason(error: Exception) -> str:
    """Why what `explained` was raised from may be gone the next time; "" where it will not be."""
    failed = error.__cause__ if isinstance(error.__cause__, CommandFailedError) else error
    if not isinstance(failed, CommandFailedError) or offline.is_offline():
        return ""
    text = _read_failure_text(failed)
    if _HASH_MISMATCH.search(text):
        return "it came with another sha256"
    kinds = (reason for _, reason, signs in _FAILURE_KINDS if any(sign in text for sign in signs))
    return next(kinds, "")


def _read_failure_text(error: CommandFailedError) -> str:
    """The message, and what the last command of the log printed: not what it tried again by itself,
    which may have come.
    """
    log = Path(error.location.rpartition(":")[0]) if error.location else None
    if not log or not log.is_file():
        return error.message
    kept, debug = [error.message], False
    for line in log.read_text(encoding="utf-8").rpartition("\n$ ")[2].split("\n"):
        debug = is_debug(line, debug)
        kept += [] if debug else [line]
    return "\n".join(kept)


def _build_hash_error(
    told: re.Match[str], where: str, *, locked: bool
) -> BadArtifactError | FetchError:
    wanted = " or ".join(dict.fromkeys(re.findall(r"[0-9a-f]{64}", told["wanted"])))
    name = told["uv"] or told["pip"]
    if not locked:
        what = "a file" if name == "unknown package" else name
        return FetchError(
            f"{what} came with sha256 {told['found']}, and its index says {wanted}",
            location=where,
            hint=_DAMAGED_HINT,
        )
    return BadArtifactError(
        f"the index gives {name} with sha256 {told['found']}, and {wanted} is locked",
        location=where,
        hint="find out who changed the file. To take it all the same: "
        "TORCHYARD__LOCK=false doit build, then doit lock",
    )
