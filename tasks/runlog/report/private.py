"""What is nobody else's business is taken out of what a report shows: tokens in URLs, home folders,
the names of the person and of the machine, addresses of mail. Pure.

Paths below the checkout are shown from there. A name that says nothing of a person, `root` or
`runner`, stays: as a word it is in every other line of a log.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar, cast

from tasks.core.errors import redact

T = TypeVar("T")

_NAMELESS = {
    *("admin", "administrator", "build", "builder", "ci", "container", "debian", "default", "dev"),
    *("docker", "ec2-user", "fedora", "host", "jenkins", "linux", "localhost", "nobody", "root"),
    *("runner", "test", "torch", "ubuntu", "user", "vagrant", "windows"),
}
# A path begins where no word does, or after the flag of a compiler
_BEGIN = r"(?:(?<![\w.~-])|(?<=-[BFIL])|(?<=-isystem))"
_SLASH = r"[\\/]+"
_PART = r"[^\\/\s\"':;,()<>|]+"
# On a drive of Windows, with WSL or MSYS as well, a name may be of some words
_WORDS = rf"(?:{_PART}(?: (?!-){_PART}){{1,3}}(?=[\\/])|{_PART})"
_OTHER_HOMES = re.compile(
    rf"{_BEGIN}(?:/(?:(?:mnt|cygdrive)/)?[a-z]/Users/{_WORDS}"
    rf"|(?<![^/\\][/\\])[A-Z]:(?:{_SLASH}{_PART})*?{_SLASH}(?:home|users){_SLASH}{_WORDS}"
    rf"|(?<!/)(?:/{_PART})*?/(?:home|users)/{_PART}"
    r"|/root(?![\w.-]))",
    re.IGNORECASE,
)
# Neither `git@github.com:` nor the version of an action or a symbol, which end in no name
_MAIL = re.compile(r"(?<![\w.+-])(?!git@)[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{2,}(?![\w-])")


@dataclasses.dataclass(frozen=True)
class Private:
    """What is left out: `homes` are folders, `users` and `hosts` names. `root` is the checkout."""

    root: str = ""
    homes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def clean(self, text: str) -> str:
        """`text` for everyone's eyes."""
        text = redact(text)
        for pattern, instead in self._patterns:
            text = pattern.sub(instead, text)
        return text

    def cleaned(self, value: T) -> T:
        """The same value, with each text in it clean: of a frozen dataclass, or of JSON."""
        return cast(T, self._cleaned(value))

    def _cleaned(self, value: Any) -> Any:
        match value:
            case str():
                return self.clean(value)
            case Mapping():
                return {self._cleaned(key): self._cleaned(item) for key, item in value.items()}
            case list() | tuple():
                return type(value)(self._cleaned(item) for item in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (item.name for item in dataclasses.fields(value))
            return dataclasses.replace(
                value, **{name: self._cleaned(getattr(value, name)) for name in names}
            )
        return value

    @cached_property
    def _patterns(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        root = [found for path in _longest([self.root]) for found in _checkout(path)]
        homes = [(_folder(path), "~") for path in _longest(self.homes)]
        users = [(_word(name), "USER") for name in _named(self.users)]
        hosts = [(_word(name), "HOST") for name in _named(self.hosts)]
        return (*root, *homes, (_OTHER_HOMES, "~"), *hosts, *users, (_MAIL, "MAIL"))


def _checkout(path: str) -> Iterator[tuple[re.Pattern[str], str]]:
    yield _folder(path, _SLASH), ""
    yield _folder(path), "."


def _folder(path: str, then: str = r"(?![\w-])") -> re.Pattern[str]:
    """A folder at the begin of a path, written with either slash, one or two of them."""
    parts = _SLASH.join(re.escape(part) for part in re.split(_SLASH, path.rstrip("\\/")))
    return re.compile(rf"{_BEGIN}{parts}{then}", re.IGNORECASE)


def _word(name: str) -> re.Pattern[str]:
    """A name that stands alone; one of two letters only where a path or an address has it."""
    word = re.escape(name)
    if len(name) < 3:
        return re.compile(rf"(?<=[\\/]){word}(?=[\\/]|$)|(?<![A-Za-z0-9]){word}(?=@)")
    return re.compile(rf"(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])", re.IGNORECASE)


def _named(names: Iterable[str]) -> list[str]:
    return [name for name in _longest(names) if name.lower() not in _NAMELESS]


def _longest(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.strip("\\/. ")}, key=lambda name: -len(name))
