"""Credentials of package indexes, kept out of argument lists and of what uv and pip start.

Every user of a machine can read an argument list, and the build backend of an sdist inherits the
environment of uv or pip. Both clients take a password from a netrc file as well as from a URL
(docs.astral.sh/uv, "HTTP credentials"; pip.pypa.io, "Authentication").
"""

from __future__ import annotations

import contextlib
import netrc
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import unquote

from tasks.core.errors import redact_secrets
from tasks.system.network import ownindex

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
# Keys of pip's own files: pip passes these indexes to the pip that it starts to build an sdist
_PIP_FILE_INDEXES = {"PIP_INDEX_URL": "index-url", "PIP_EXTRA_INDEX_URL": "extra-index-url"}
_UV_PASSWORD_VARIABLE = re.compile(r"UV_INDEX_(\w+)_PASSWORD")
# Characters that every netrc parser accepts: before 3.11 Python's knows no quotes and no escapes
_NETRC_HOST, _NETRC_WORD = re.compile(r"[\w.-]+"), re.compile(r'(?!")[!-\[\]-~]+')


class _Logins(dict[str, tuple[str, str]]):
    """User and password by host, for a netrc file."""

    def add_login(self, host: str, user: str, password: str) -> bool:
        """Add a login; return False if a netrc file cannot hold it, or has another for the host."""
        fits = (
            _NETRC_HOST.fullmatch(host)
            and _NETRC_WORD.fullmatch(user)
            and _NETRC_WORD.fullmatch(password)
        )
        return bool(fits) and self.setdefault(host.lower(), (user, password)) == (user, password)

    def strip_logins(self, text: str, *, for_uv: bool) -> str:
        """Return `text` without the logins in its URLs. Keep the user name for uv, which asks
        anonymously first without one; remove it for pip, since an older pip finds no login for a
        URL with a name. Keep a name without a password: it is a token.
        """

        def strip_url(url: re.Match[str]) -> str:
            user, _, password = url["who"].partition(":")
            if not self.add_login(url["host"], unquote(user), unquote(password)):
                return url[0]
            return f"{url['scheme']}{f'{user}@' * for_uv}{url['host']}"

        return _LOGIN_URL.sub(strip_url, text)

    def format_netrc_lines(self) -> str:
        """Return the lines to append to the user's netrc: the last login of a host is used."""
        return "".join(
            f"machine {host} login {user} password {password}\n"
            for host, (user, password) in self.items()
        )

    def is_stripped(self, text: str) -> bool:
        """Return True if `text` holds no secret, apart from the user names of these logins."""

        def remove_user_name(url: re.Match[str]) -> str:
            user, _ = self.get(url["host"].lower(), ("", ""))
            return url["host"] if unquote(url["who"]) == user else url[0]

        rest = _LOGIN_URL.sub(remove_user_name, text)
        return redact_secrets(rest) == rest


@contextlib.contextmanager
def hide_passwords(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[PreparedCommand]:
    """Give the command and its environment without passwords. uv and pip find them in a netrc file
    that only this user can read and that is removed after the block. A login that a netrc file
    cannot hold, such as a token without a user name, is passed in a variable.
    """
    logins = _Logins()
    words, moved = _move_secrets(argv, env, logins)
    given = {**_read_pip_file_indexes(env), **env, **moved}
    given |= {
        name: logins.strip_logins(given[name], for_uv=name.startswith("UV_"))
        for name in _INDEX_VARIABLES
        if name in given
    }
    for name in _find_uv_passwords(given, logins):
        del given[name]
    if not logins:
        yield words, given
        return
    with tempfile.TemporaryDirectory(prefix="torchyard-") as folder:  # of mode 700
        file = Path(folder, "netrc")
        file.touch(mode=0o600)
        file.write_text(_read_user_netrc(env) + logins.format_netrc_lines(), encoding="utf-8")
        yield words, {**given, "NETRC": str(file)}


def _move_secrets(argv: Sequence[str], env: Mapping[str, str], logins: _Logins) -> PreparedCommand:
    """Return the arguments without passwords, and the options that need one as variables of both
    clients. uv prefers an option to its variable; pip combines both, except for --index-url.
    """
    words: list[str] = []
    moved: dict[str, str] = {}
    for_uv = PurePath(argv[0]).stem == "uv"
    for word in (logins.strip_logins(one, for_uv=for_uv) for one in argv):
        if words[-1:] and words[-1] in _INDEX_OPTIONS and not logins.is_stripped(word):
            name = words.pop().removeprefix("--").replace("-", "_").upper()
            before = "" if name == "INDEX_URL" else env.get(f"PIP_{name}", "")
            moved |= {f"UV_{name}": word, f"PIP_{name}": f"{before} {word}".strip()}
        else:
            words.append(word)
    return tuple(words), moved


def _read_pip_file_indexes(env: Mapping[str, str]) -> dict[str, str]:
    """Return the indexes with a login in pip's files as variables, which take precedence."""
    found = {name: ownindex.read_pip_file_setting(key) for name, key in _PIP_FILE_INDEXES.items()}
    given = {name: " ".join(value.split()) for name, value in found.items() if name not in env}
    return {name: value for name, value in given.items() if _LOGIN_URL.search(value)}


def _find_uv_passwords(env: Mapping[str, str], logins: _Logins) -> list[str]:
    """Add the logins of UV_INDEX_NAME_PASSWORD; return the variables that netrc replaces."""
    named = [env.get(name, "").split() for name in ("UV_INDEX", "UV_DEFAULT_INDEX")]
    pairs = (one.partition("=") for words in named for one in words)
    urls = {**ownindex.read_uv_indexes(), **{name: url for name, _, url in pairs}}
    found_in = {name: _URL_HOST.match(url) for name, url in urls.items()}
    hosts = {re.sub(r"\W", "_", name).upper(): at["host"] for name, at in found_in.items() if at}
    found = []
    for variable in env:
        name = match[1] if (match := _UV_PASSWORD_VARIABLE.fullmatch(variable)) else ""
        user, host = env.get(f"UV_INDEX_{name}_USERNAME", ""), hosts.get(name, "")
        if name and logins.add_login(host, user, env[variable]):
            found.append(variable)
    return found


def _read_user_netrc(env: Mapping[str, str]) -> str:
    """Return the text of the user's netrc; "" if there is none or it cannot be parsed."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() fails without a home folder
    named = [Path(env["NETRC"])] if env.get("NETRC") else [home / ".netrc", home / "_netrc"]
    file = next((path for path in named if path.is_file()), None)
    if not file:
        return ""
    try:
        netrc.netrc(file)
        return f"{file.read_text(encoding='utf-8')}\n\n"
    except (netrc.NetrcParseError, OSError, UnicodeError):
        return ""
