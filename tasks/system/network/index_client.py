"""Run uv and pip against package indexes: hide passwords, explain failures and retry.

Passwords are not put in argument lists, which every user of a machine can read, nor, if possible,
in the environment, which the build backend of an sdist inherits. They are in a netrc file, which
both clients read (docs.astral.sh/uv, "HTTP credentials"; pip.pypa.io, "Authentication").
"""

import contextlib
import netrc
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import unquote, urlsplit

from tasks.core import errors
from tasks.core.model import Command
from tasks.diagnosis.resolver_conflicts import find_conflict
from tasks.system import shell
from tasks.system.network import network_access, package_indexes
from tasks.system.output import print_line

PreparedCommand = tuple[tuple[str, ...], dict[str, str]]  # the arguments, and the whole environment

# Not git+https: git only reads the netrc in the home folder
_LOGIN_URL = re.compile(r"(?<!\+)(?P<scheme>\bhttps?://)(?P<who>[^/\s]+)@(?P<host>[^/\s:]+)")
_URL_HOST = re.compile(r"https?://(?:[^/\s]+@)?(?P<host>[^/\s:]+)")
# Options of uv and pip that can also be set by a variable
_INDEX_OPTIONS = ("--index-url", "--extra-index-url", "--find-links")
_INDEX_VARIABLES = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX", "UV_DEFAULT_INDEX"),
    *("UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
)
# Keys in pip's files. To build an sdist, pip starts another pip and passes these indexes to it
_PIP_FILE_INDEXES = {"PIP_INDEX_URL": "index-url", "PIP_EXTRA_INDEX_URL": "extra-index-url"}
_UV_PASSWORD_VARIABLE = re.compile(r"UV_INDEX_(\w+)_PASSWORD")
# Characters that every netrc parser accepts: Python's, before 3.11, supports no quotes and no
# escapes
_NETRC_HOST, _NETRC_WORD = re.compile(r"[\w.-]+"), re.compile(r'(?!")[!-\[\]-~]+')


class _Logins(dict[str, tuple[str, str]]):
    """The logins to write to a netrc file: host → (user, password)."""

    def add_login(self, host: str, user: str, password: str) -> bool:
        """Add a login; return False if netrc cannot express it or the host has another login."""
        login = (user, password)
        fits = bool(_NETRC_HOST.fullmatch(host)) and all(map(_NETRC_WORD.fullmatch, login))
        return fits and self.setdefault(host.lower(), login) == login

    def strip_logins(self, text: str, *, for_uv: bool) -> str:
        """Move the logins in the URLs of `text` to this object. Return the new text.

        For uv, the user name stays in the URL; otherwise the first request would be anonymous. For
        pip, it is removed, because older versions find the login only without it.
        """

        def strip_url(url: re.Match[str]) -> str:
            user, _, password = url["who"].partition(":")
            if not self.add_login(url["host"], unquote(user), unquote(password)):
                return url[0]
            return f"{url['scheme']}{f'{user}@' * for_uv}{url['host']}"

        return _LOGIN_URL.sub(strip_url, text)

    def is_stripped(self, text: str) -> bool:
        """Return True if `text` has no secret, except for user names of known logins."""

        def remove_user_name(url: re.Match[str]) -> str:
            user, _ = self.get(url["host"].lower(), ("", ""))
            return url["host"] if unquote(url["who"]) == user else url[0]

        remaining = _LOGIN_URL.sub(remove_user_name, text)
        return errors.redact_secrets(remaining) == remaining


@contextlib.contextmanager
def hide_passwords(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[PreparedCommand]:
    """Yield the command without passwords, and an environment in which uv and pip find them.

    The environment names a netrc file that only this user can read, and that exists only during
    the block. A variable holds what netrc cannot express, such as a token without user name.
    """
    logins = _Logins()
    words, secret_variables = _move_secrets(argv, env, logins)
    # Variables override pip's files: only an index whose URL contains a login has to be moved
    read = package_indexes.read_pip_file_setting
    indexes = {name: read(key) for name, key in _PIP_FILE_INDEXES.items() if name not in env}
    with_login = (item for item in indexes.items() if _LOGIN_URL.search(item[1]))
    pip_indexes = {name: " ".join(value.split()) for name, value in with_login}
    variables = {**pip_indexes, **env, **secret_variables}
    for name in (name for name in _INDEX_VARIABLES if name in variables):
        for_uv = name.startswith("UV_")
        variables[name] = logins.strip_logins(variables[name], for_uv=for_uv)
    for name in _find_uv_passwords(variables, logins):
        del variables[name]
    if not logins:
        yield words, variables
        return
    lines = "".join(f"machine {host} login {u} password {p}\n" for host, (u, p) in logins.items())
    with tempfile.TemporaryDirectory(prefix="torchyard-") as folder:  # of mode 700
        file = Path(folder, "netrc")
        file.touch(mode=0o600)
        # The last login of a host in the file is used
        file.write_text(_read_user_netrc(env) + lines, encoding="utf-8")
        yield words, {**variables, "NETRC": str(file)}


def _move_secrets(argv: Sequence[str], env: Mapping[str, str], logins: _Logins) -> PreparedCommand:
    """Move passwords from `argv` to `logins` or, if netrc cannot hold them, to variables."""
    words: list[str] = []
    variables: dict[str, str] = {}
    for_uv = PurePath(argv[0]).stem == "uv"
    for word in (logins.strip_logins(argument, for_uv=for_uv) for argument in argv):
        if words[-1:] and words[-1] in _INDEX_OPTIONS and not logins.is_stripped(word):
            name = words.pop().removeprefix("--").replace("-", "_").upper()
            existing = "" if name == "INDEX_URL" else env.get(f"PIP_{name}", "")
            variables |= {f"UV_{name}": word, f"PIP_{name}": f"{existing} {word}".strip()}
        else:
            words.append(word)
    return tuple(words), variables


def _find_uv_passwords(env: Mapping[str, str], logins: _Logins) -> list[str]:
    """Add the logins in UV_INDEX_*_PASSWORD to `logins`; return the names of these variables."""
    index_lists = [env.get(name, "").split() for name in ("UV_INDEX", "UV_DEFAULT_INDEX")]
    pairs = (entry.partition("=") for words in index_lists for entry in words)
    urls = {**package_indexes.read_uv_indexes(), **{name: url for name, _, url in pairs}}
    matches = {name: _URL_HOST.match(url) for name, url in urls.items()}
    hosts = {re.sub(r"\W", "_", name).upper(): at["host"] for name, at in matches.items() if at}
    passwords = {match[1]: match[0] for match in map(_UV_PASSWORD_VARIABLE.fullmatch, env) if match}

    def add_login(name: str) -> bool:
        user = env.get(f"UV_INDEX_{name}_USERNAME", "")
        return logins.add_login(hosts.get(name, ""), user, env[passwords[name]])

    return [variable for name, variable in passwords.items() if add_login(name)]


def _read_user_netrc(env: Mapping[str, str]) -> str:
    """Return the text of the user's netrc; "" if it does not exist or cannot be parsed."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() fails without a home folder
    candidates = [Path(env["NETRC"])] if env.get("NETRC") else [home / ".netrc", home / "_netrc"]
    file = next((path for path in candidates if path.is_file()), None)
    with contextlib.suppress(netrc.NetrcParseError, OSError, UnicodeError):
        if file and netrc.netrc(file):
            return f"{file.read_text(encoding='utf-8')}\n\n"
    return ""


_CERTIFICATE_HINT = (
    "the certificate of the package index is not trusted: set SSL_CERT_FILE, and PIP_CERT for pip, "
    "to the certificate bundle of your organisation"
)
_NO_ANSWER_HINT = (
    "the package index did not answer: check the network, proxy and index settings "
    "(UV_INDEX_URL, PIP_INDEX_URL, torch.index), then run the same command again; "
    f"{errors.OFFLINE_HINT}"
)
_CONNECTION_HINT = (
    "run the same command again to continue: complete files are not fetched again; on a slow "
    "connection, set a longer timeout in seconds (UV_HTTP_TIMEOUT, PIP_DEFAULT_TIMEOUT) or a "
    "nearer index (mirrors in the settings)"
)
_DAMAGED_HINT = (
    "run the same command again; if the error remains, a proxy or mirror changes files: use the "
    "original index, and trust no file of the proxy or mirror"
)
_NO_VERSION_HINT = "the index has no such version for this Python and platform"
_CONFLICT_HINT = (
    "change one of the two requirements: set another torch.version, toolkit.version or requires of "
    "an extension, or use another release of the package that has the requirement"
)
_NOT_BUNDLED_HINT = (
    "the bundle in the setting offline does not contain this package: on a machine with a network, "
    "build and create the bundle again: doit build, then doit bundle --dest"
)

_BROKEN_SIGNS = (
    *("incomplete-download", "error decoding response body", "error reading a body"),
    *("IncompleteRead", "end of file before message length", "Connection broken:"),
    "Connection reset by peer",
)
_NO_ANSWER_SIGNS = (
    *("Failed to fetch", "error sending request", "Could not connect", "Max retries exceeded"),
    *("connection broken by", "NewConnectionError", "Temporary failure in name resolution"),
    *("ConnectTimeoutError", "dns error"),
)
_TIMEOUT_SIGNS = ("network timeout", "Read timed out", "ReadTimeoutError")
_DAMAGE_SIGNS = ("Bad CRC", "Failed to extract archive", "BadZipFile")
_VERSION_SIGNS = ("No solution found", "No matching distribution", "Could not find a version")
# Rows of hint, reason for a retry, and messages of uv or pip; the first match is used. The reason
# is "" if a retry does not help: uv and pip have already tried to connect several times.
_FAILURE_KINDS = (
    (_CERTIFICATE_HINT, "", ("invalid peer certificate", "CERTIFICATE_VERIFY_FAILED")),
    (_CONNECTION_HINT, "the connection stalled", _TIMEOUT_SIGNS),
    (_CONNECTION_HINT, "the connection broke", _BROKEN_SIGNS),
    (_DAMAGED_HINT, "the downloaded file is damaged", _DAMAGE_SIGNS),
    (_NO_ANSWER_HINT, "", _NO_ANSWER_SIGNS),
    (_NO_VERSION_HINT, "", _VERSION_SIGNS),
)

# uv: Hash mismatch for `a==1` / Expected: sha256:X / Computed: sha256:Y; pip: a==1 from URL: /
# Expected sha256 X / Got Y, or "unknown package:" where it is the index that names X
_HASH_MISMATCH = re.compile(
    r"(?:Hash mismatch for `(?P<uv>[^`]+)`|^\s*(?P<pip>\S+==\S+|unknown package)(?: .*?)?:$)"
    r"(?P<expected>.*?)(?:Computed:|Got)\s*(?:sha256:)?(?P<found>[0-9a-f]{64})",
    re.DOTALL | re.MULTILINE,
)

# uv: Failed to fetch: `https://host/torch/`; pip: HTTPSConnectionPool(host='host', port=443)
_FAILED_HOST = re.compile(
    r"Failed to fetch: `?https?://(?:[^@/\s]*@)?(?P<uv>[^/\s`]+)|Pool\(host='(?P<pip>[^']+)'"
)


def explain_client_failure(
    error: errors.CommandFailedError,
) -> errors.CommandFailedError | errors.FetchError | errors.BadArtifactError:
    """Return a more specific error for a known failure of uv or pip, otherwise `error`."""
    text, where = _read_failure_text(error), error.location
    if mismatch := _HASH_MISMATCH.search(text):
        return _build_hash_error(mismatch, where, is_locked="--require-hashes" in text)
    if conflict := find_conflict(text.splitlines()):
        message = f"{error.exit_description}: {conflict}" if error.exit_description else conflict
        return errors.FetchError(message, location=where, hint=_CONFLICT_HINT)
    kinds = (hint for hint, _, signs in _FAILURE_KINDS if any(sign in text for sign in signs))
    if not (hint := next(kinds, "")):
        return error
    hint = _NOT_BUNDLED_HINT if network_access.is_offline() else hint
    # Name the host (without login) that did not answer: there may be several indexes
    hosts = [match["uv"] or match["pip"] for match in _FAILED_HOST.finditer(text)]
    if hint == _NO_ANSWER_HINT and hosts:
        hint = hint.replace("did not answer", f"did not answer ({hosts[-1]})", 1)
    return errors.FetchError(error.message, location=where, hint=hint)


def find_retry_reason(error: Exception) -> str:
    """Return the reason for a retry after a failure of uv or pip; "" if a retry cannot help."""
    failed = error.__cause__ if isinstance(error.__cause__, errors.CommandFailedError) else error
    if not isinstance(failed, errors.CommandFailedError) or network_access.is_offline():
        return ""
    text = _read_failure_text(failed)
    if _HASH_MISMATCH.search(text):
        return "the file has another sha256"
    kinds = (reason for _, reason, signs in _FAILURE_KINDS if any(sign in text for sign in signs))
    return next(kinds, "")


def _read_failure_text(error: errors.CommandFailedError) -> str:
    """Return an error's message and log, without lines on retries, which may have succeeded."""
    lines = error.parsed_log.lines if error.parsed_log else ()
    return "\n".join([error.message, *(line.text for line in lines)])


def _build_hash_error(
    mismatch: re.Match[str], where: str, *, is_locked: bool
) -> errors.BadArtifactError | errors.FetchError:
    expected = " or ".join(dict.fromkeys(re.findall(r"[0-9a-f]{64}", mismatch["expected"])))
    name, found = mismatch["uv"] or mismatch["pip"], mismatch["found"]
    if not is_locked:
        subject = "a downloaded file" if name == "unknown package" else name
        message = f"{subject} has sha256 {found}, but its index lists {expected}"
        return errors.FetchError(message, location=where, hint=_DAMAGED_HINT)
    provided = f"the index provides {name} with sha256 {found}"
    message = f"{provided}, but torchyard.lock requires {expected}"
    accept = "TORCHYARD__LOCK=false doit build, then doit lock"
    hint = f"find out who changed the file; to accept the changed file, run: {accept}"
    return errors.BadArtifactError(message, location=where, hint=hint)


# Seconds without a byte, and the number of retries for a connection or an incomplete file.
# pip before 25.1 has no --resume-retries and ignores PIP_RESUME_RETRIES.
CLIENT_DEFAULTS = {
    "UV_HTTP_TIMEOUT": "60",
    "UV_HTTP_RETRIES": "4",
    "PIP_DEFAULT_TIMEOUT": "60",
    "PIP_RETRIES": "5",
    "PIP_RESUME_RETRIES": "10",
    "RUST_LOG": "uv_client::retry=debug",  # without this, uv does not report retries
}
_ALTERNATIVE_NAMES = {"UV_HTTP_TIMEOUT": "UV_REQUEST_TIMEOUT", "PIP_DEFAULT_TIMEOUT": "PIP_TIMEOUT"}
# The keys in pip's files that a variable overrides; uv's files have no such keys
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
    """Run uv or pip. Run it once more after a failure that a retry may solve."""
    env = shell.build_installer_env() if env is None else env
    client_env = add_client_defaults(env, find_pip_file_defaults())
    is_retry = False

    def report_line(line: str) -> None:
        if message := format_retry_message(line, what):
            print_line(message)
        on_line(line)

    def run_once() -> None:
        nonlocal is_retry
        # pip's cache may contain the file with the wrong digest
        cache_options = {"PIP_NO_CACHE_DIR": "1"} if is_retry else {}
        try:
            with hide_passwords(argv, {**client_env, **cache_options}) as (words, variables):
                shell.run_command(Command(words, variables, what, log=log), report_line)
        except errors.CommandFailedError as error:
            is_retry = True
            raise explain_client_failure(error) from error

    network_access.retry_action(what, run_once, find_retry_reason, network_access.RETRY_PAUSES[:1])


def find_pip_file_defaults() -> frozenset[str]:
    """Return the names in `CLIENT_DEFAULTS` that have a value in the user's pip files."""
    read = package_indexes.read_pip_file_setting
    return frozenset(name for name, keys in _PIP_FILE_KEYS.items() if read(*keys))


def add_client_defaults(env: Mapping[str, str], configured: Collection[str] = ()) -> dict[str, str]:
    """Return `env` and the `CLIENT_DEFAULTS` that it lacks, except those in `configured`."""
    names = (name for name in CLIENT_DEFAULTS if name not in configured)
    unset = (name for name in names if _ALTERNATIVE_NAMES.get(name, name) not in env)
    return {**{name: CLIENT_DEFAULTS[name] for name in unset}, **env}


def format_retry_message(line: str, what: str) -> str:
    """Return the message for a line in which uv or pip reports a retry, "" for other lines."""
    problem = "the connection broke or stalled"
    if match := _UV_RETRY.search(line):
        name = PurePosixPath(unquote(urlsplit(match["url"]).path)).name
        return f"{name or what}: {problem}; uv fetches the file again"
    if match := _PIP_RESUME.search(line):
        return f"{what}: {problem}; pip continues at {match['have']} of {match['all']}"
    return ""
