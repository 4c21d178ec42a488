"""Read the facts of the machine that wrote a log: system, Python, torch, CUDA, compiler."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tasks.diagnosis.log_lines import LogLine

# Each group "value" is the fact; the first expression with a match decides
_PATTERNS: dict[str, tuple[re.Pattern[str], ...]] = {
    name: tuple(map(re.compile, patterns))
    for name, patterns in {
        "system": (
            r"(?P<value>Ubuntu|Debian|Fedora|CentOS|Alpine|openSUSE|Arch Linux)\b",
            r"(?P<value>WSL2?|macOS|Darwin)\b",
            r"\b(?P<value>[A-Za-z]):\\",
            r"\.el(?P<value>\d)\b|\.fc(?P<value2>\d+)\b",
            r"(?P<value>/(?:usr|home|opt|tmp|root|mnt)/)",
        ),
        "Python": (
            r"\bcp(?P<major>3)(?P<minor>\d{1,2})-",
            r"[Pp]ython(?P<value>3\.\d{1,2})\b",
            r"[Pp]ython (?P<value>3\.\d{1,2}(?:\.\d+)?)\b",
            r"\bPython(?P<major>3)(?P<minor>\d{1,2})\\",
            r"cpython-(?P<major>3)(?P<minor>\d{1,2})\b",
        ),
        "torch": (
            r"\btorch[=-]{1,2}(?P<value>\d+\.\d+\.\d+(?:\+\w+)?)\b",
            r"(?i:pytorch|torch) (?:version:? )?(?P<value>\d+\.\d+\.\d+(?:\+\w+)?)\b",
        ),
        "CUDA": (
            r"cuda[-/\\]v?(?P<value>\d{1,2}\.\d)\b",
            r"CUDA[/\\]v(?P<value>\d{1,2}\.\d)\b",
            r"release (?P<value>\d{1,2}\.\d), V\d",
            r"\+cu(?P<major>\d{2})(?P<minor>\d)\b",
        ),
        "GCC": (
            r"include/c\+\+/(?P<value>\d{1,2})\b",
            r"\bg(?:cc|\+\+)-(?P<value>\d{1,2})\b",
            r"\(GCC\) (?P<value>\d+\.\d+)",
        ),
        "MSVC": (r"MSVC\\(?P<value>14\.\d\d)", r"\bC/C\+\+.*?(?P<value>19\.\d\d)\b"),
    }.items()
}
_MANAGERS = {
    **dict.fromkeys(("Ubuntu", "Debian", "WSL", "WSL2"), ("apt", "conda")),
    **dict.fromkeys(("Fedora", "CentOS", "RHEL"), ("dnf", "conda")),
    **dict.fromkeys(("macOS", "Darwin"), ("brew", "conda", "pip")),
    "Windows": ("conda", "pip"),
    "Arch Linux": ("pacman", "conda"),
}
_MAX_LINES = 5000


@dataclass(frozen=True)
class LogFacts:
    """The facts by name ("Python": "3.10"), and the package managers that the machine has.

    `managers` is empty if the system is unknown.
    """

    values: dict[str, str]
    managers: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return "Windows, Python 3.10, CUDA 11.8", "" if nothing is known."""
        named = (
            value if name == "system" else f"{name} {value}" for name, value in self.values.items()
        )
        return ", ".join(named)


def parse_log_facts(lines: Iterable[LogLine]) -> LogFacts:
    """Return what a log says of the machine that wrote it. The most frequent value decides."""
    text = "\n".join(line.text for line, _ in zip(lines, range(_MAX_LINES), strict=False))
    values = {}
    for name, patterns in _PATTERNS.items():
        for pattern in patterns:
            found = Counter(map(_read_value, pattern.finditer(text)))
            if found:
                values[name] = found.most_common(1)[0][0]
                break
    values["system"] = _name_system(values.get("system", ""))
    managers = _MANAGERS.get(values["system"], ())
    return LogFacts({name: value for name, value in values.items() if value}, managers)


def _read_value(match: re.Match[str]) -> str:
    groups = match.groupdict()
    if groups.get("major"):
        return f"{groups['major']}.{groups['minor']}"
    return groups.get("value") or groups.get("value2") or ""


def _name_system(found: str) -> str:
    """Return the name of a system for what was found: a drive letter, a folder, a release."""
    if len(found) == 1 and found.isalpha():
        return "Windows"
    if found.startswith("/"):
        return "Linux"
    return "RHEL" if found.isdecimal() else found
