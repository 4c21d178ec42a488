"""Remove tokens, home directories, user and host names, and mail addresses from a report."""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar, cast

from tasks.core.errors import redact_secrets

T = TypeVar("T")

_GENERIC_NAMES = {  # kept, because they identify nobody and are frequent in logs
    *("admin", "administrator", "build", "builder", "ci", "container", "debian", "default", "dev"),
    *("docker", "ec2-user", "fedora", "host", "jenkins", "linux", "localhost", "nobody", "root"),
    *("runner", "test", "torch", "ubuntu", "user", "vagrant", "windows"),
}
# A path begins at the start of a word, or directly after a compiler flag such as -I
_PATH_START = r"(?:(?<![\w.~-])|(?<=-[BFIL])|(?<=-isystem))"
_PATH_SEPARATOR = r"[\\/]+"
_PATH_PART = r"[^\\/\s\"':;,()<>|]+"
# A user name on a Windows drive (also in WSL or MSYS) may contain spaces
_PATH_WORDS = rf"(?:{_PATH_PART}(?: (?!-){_PATH_PART}){{1,3}}(?=[\\/])|{_PATH_PART})"
_OTHER_HOMES = re.compile(
    rf"{_PATH_START}(?:/(?:(?:mnt|cygdrive)/)?[a-z]/Users/{_PATH_WORDS}"
    rf"|(?<![^/\\][/\\])[A-Z]:(?:{_PATH_SEPARATOR}{_PATH_PART})*?{_PATH_SEPARATOR}(?:home|users){_PATH_SEPARATOR}{_PATH_WORDS}"
    rf"|(?<!/)(?:/{_PATH_PART})*?/(?:home|users)/{_PATH_PART}"
    r"|/root(?![\w.-]))",
    re.IGNORECASE,
)
# Excludes `git@github.com:`, and versions such as `checkout@v4`: no top-level domain follows
_MAIL_ADDRESS = re.compile(r"(?<![\w.+-])(?!git@)[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{2,}(?![\w-])")


@dataclasses.dataclass(frozen=True)
class Anonymizer:
    """The private data to remove. Paths below `root`, the checkout, become relative paths."""

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
                clean = self._clean_nested
                return {clean(key): clean(item) for key, item in value.items()}
            case list() | tuple():
                return type(value)(self._clean_nested(item) for item in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [item.name for item in dataclasses.fields(value)]
            cleaned = {name: self._clean_nested(getattr(value, name)) for name in names}
            return dataclasses.replace(value, **cleaned)
        return value

    @cached_property
    def _patterns(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        patterns = []
        for path in _sort_by_length([self.root]):
            patterns.append((_compile_folder_pattern(path, _PATH_SEPARATOR), ""))
            patterns.append((_compile_folder_pattern(path), "."))
        patterns += [(_compile_folder_pattern(path), "~") for path in _sort_by_length(self.homes)]
        patterns.append((_OTHER_HOMES, "~"))
        for names, replacement in ((self.hosts, "HOST"), (self.users, "USER")):
            for name in _sort_by_length(names):
                if name.lower() in _GENERIC_NAMES:
                    continue
                word = re.escape(name)
                pattern = re.compile(rf"(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])", re.IGNORECASE)
                if len(name) < 3:  # only a path component, or directly before the `@` of an address
                    short = rf"(?<=[\\/]){word}(?=[\\/]|$)|(?<![A-Za-z0-9]){word}(?=@)"
                    pattern = re.compile(short)
                patterns.append((pattern, replacement))
        return (*patterns, (_MAIL_ADDRESS, "MAIL"))


def _compile_folder_pattern(path: str, then: str = r"(?![\w-])") -> re.Pattern[str]:
    """Return a pattern for a directory with any separators, followed by the pattern `then`."""
    parts = map(re.escape, re.split(_PATH_SEPARATOR, path.rstrip("\\/")))
    return re.compile(rf"{_PATH_START}{_PATH_SEPARATOR.join(parts)}{then}", re.IGNORECASE)


def _sort_by_length(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.strip("\\/. ")}, key=lambda name: -len(name))
