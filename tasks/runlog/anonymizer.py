"""Remove private data from what a report shows.

Removed are tokens in URLs, home directories, user and host names, and mail addresses.

Paths below the checkout are shown relative to the checkout. Generic names such as `root` or
`runner` stay: they identify nobody, and as words they are in every other line of a log.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar, cast

from tasks.core.errors import redact_secrets

T = TypeVar("T")

_GENERIC_NAMES = {
    *("admin", "administrator", "build", "builder", "ci", "container", "debian", "default", "dev"),
    *("docker", "ec2-user", "fedora", "host", "jenkins", "linux", "localhost", "nobody", "root"),
    *("runner", "test", "torch", "ubuntu", "user", "vagrant", "windows"),
}
# A path does not begin inside a word, except directly after a compiler flag such as -I
_PATH_START = r"(?:(?<![\w.~-])|(?<=-[BFIL])|(?<=-isystem))"
_PATH_SEPARATOR = r"[\\/]+"
_PATH_PART = r"[^\\/\s\"':;,()<>|]+"
# On a Windows drive, also under WSL or MSYS, a user name may contain spaces
_PATH_WORDS = rf"(?:{_PATH_PART}(?: (?!-){_PATH_PART}){{1,3}}(?=[\\/])|{_PATH_PART})"
_OTHER_HOMES = re.compile(
    rf"{_PATH_START}(?:/(?:(?:mnt|cygdrive)/)?[a-z]/Users/{_PATH_WORDS}"
    rf"|(?<![^/\\][/\\])[A-Z]:(?:{_PATH_SEPARATOR}{_PATH_PART})*?{_PATH_SEPARATOR}(?:home|users){_PATH_SEPARATOR}{_PATH_WORDS}"
    rf"|(?<!/)(?:/{_PATH_PART})*?/(?:home|users)/{_PATH_PART}"
    r"|/root(?![\w.-]))",
    re.IGNORECASE,
)
# Not `git@github.com:`, and not the version of an action or a symbol: no top-level domain follows
_MAIL_ADDRESS = re.compile(r"(?<![\w.+-])(?!git@)[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{2,}(?![\w-])")


@dataclasses.dataclass(frozen=True)
class Anonymizer:
    """The private data to remove.

    `homes` are directories, `users` and `hosts` are names. `root` is the checkout.
    """

    root: str = ""
    homes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def clean_text(self, text: str) -> str:
        """Return `text` without secrets and private data."""
        text = redact_secrets(text)
        for pattern, replacement in self._patterns:
            text = pattern.sub(replacement, text)
        return text

    def clean_value(self, value: T) -> T:
        """Return a copy of a frozen dataclass or JSON value with every string cleaned."""
        return cast(T, self._clean_nested(value))

    def _clean_nested(self, value: Any) -> Any:
        match value:
            case str():
                return self.clean_text(value)
            case Mapping():
                return {
                    self._clean_nested(key): self._clean_nested(item) for key, item in value.items()
                }
            case list() | tuple():
                return type(value)(self._clean_nested(item) for item in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (item.name for item in dataclasses.fields(value))
            return dataclasses.replace(
                value, **{name: self._clean_nested(getattr(value, name)) for name in names}
            )
        return value

    @cached_property
    def _patterns(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        root = [
            pattern
            for path in _sort_by_length([self.root])
            for pattern in _build_checkout_patterns(path)
        ]
        homes = [(_compile_folder_pattern(path), "~") for path in _sort_by_length(self.homes)]
        users = [
            (_compile_name_pattern(name), "USER") for name in _select_specific_names(self.users)
        ]
        hosts = [
            (_compile_name_pattern(name), "HOST") for name in _select_specific_names(self.hosts)
        ]
        return (*root, *homes, (_OTHER_HOMES, "~"), *hosts, *users, (_MAIL_ADDRESS, "MAIL"))


def _build_checkout_patterns(path: str) -> Iterator[tuple[re.Pattern[str], str]]:
    yield _compile_folder_pattern(path, _PATH_SEPARATOR), ""
    yield _compile_folder_pattern(path), "."


def _compile_folder_pattern(path: str, then: str = r"(?![\w-])") -> re.Pattern[str]:
    """Return a pattern for a directory at the beginning of a path.

    Either slash separates its parts, single or doubled.
    """
    parts = _PATH_SEPARATOR.join(
        re.escape(part) for part in re.split(_PATH_SEPARATOR, path.rstrip("\\/"))
    )
    return re.compile(rf"{_PATH_START}{parts}{then}", re.IGNORECASE)


def _compile_name_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern for a whole name.

    A name of one or two letters matches only inside a path or before the `@` of an address.
    """
    escaped_name = re.escape(name)
    if len(name) < 3:
        return re.compile(
            rf"(?<=[\\/]){escaped_name}(?=[\\/]|$)|(?<![A-Za-z0-9]){escaped_name}(?=@)"
        )
    return re.compile(rf"(?<![A-Za-z0-9]){escaped_name}(?![A-Za-z0-9])", re.IGNORECASE)


def _select_specific_names(names: Iterable[str]) -> list[str]:
    return [name for name in _sort_by_length(names) if name.lower() not in _GENERIC_NAMES]


def _sort_by_length(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.strip("\\/. ")}, key=lambda name: -len(name))
