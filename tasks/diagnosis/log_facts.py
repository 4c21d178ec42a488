"""Read the facts of the machine that wrote a log: system, Python, torch, CUDA, compiler."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from tasks.diagnosis.log_lines import LogLine

# Each group "value" is the fact, or "major" and "minor"; the first expression with a match decides
_PATTERNS: dict[str, tuple[re.Pattern[str], ...]] = {
    name: tuple(map(re.compile, patterns))
    for name, patterns in {
        "system": (
            r"(?:~|[Uu]buntu[ -]?)(?P<release>(?:18|20|22|24|26)\.04)\b(?P<value>)",
            r"\b(?P<value>Ubuntu)\b",
            r"\b(?P<value>Debian)\b(?: GNU/Linux)?(?: (?P<release>1\d)\b)?",
            r"(?P<value>WSL2?|microsoft-standard-WSL2)\b",
            r"\b(?P<value>Fedora|CentOS|Rocky|AlmaLinux)\b(?: Linux)?(?: (?P<release>\d{1,2}))?",
            r"\b(?P<value>Alpine|openSUSE|Arch Linux)\b",
            r"(?P<value>macOS|Darwin|macosx|/opt/homebrew|/Library/Developer|arm64-apple|-darwin\.so)",
            r"(?P<value>dyld(?=\[\d+\]: )|Library(?= not loaded: )|(?<![\w\\:/.])/Users/(?=\w))",
            r"(?<![\w:])(?P<value>[A-Za-z]):[\\/](?![\\/])",
            r"\.el(?P<value>\d)\b",
            r"\.(?P<value>fc)(?P<release>\d{2})\b",
            r"(?P<value>win_amd64|win32|\bMSVC\b|\bLNK\d{4}\b)",
            r"(?P<value>/(?:usr|home|opt|tmp|root|mnt|workspace|data\w*)/)",
        ),
        "in": (
            r"(?P<value>Dockerfile|docker(?:-| )?build|buildkit|/var/lib/docker)",
            r"(?m)(?P<value>^#\d+ \d+\.\d+ |^Step \d+/\d+ : )",
            r"(?P<value>/content/|google\.colab)",
            r"(?P<value>(?:mini|ana)conda3?\b|miniforge3?\b|[/\\]envs[/\\]|/opt/conda\b)",
        ),
        "Python": (
            r"(?:You require|you're using|Using) C?Python (?P<value>3\.\d{1,2}(?:\.\d+)?)\b",  # uv
            r"(?m)^\W*Python (?P<value>3\.\d{1,2}\.\d+)(?: [(|]|\s*$)",  # python --version
            r"\bcp(?P<major>3)(?P<minor>\d{1,2})-",
            r"cpython-(?P<major>3)(?P<minor>\d{1,2})[mt]?\b",
            r"[/\\][Pp]ython(?P<value>2\.7|3\.\d{1,2})\b",
            r"\bPython(?P<major>3)(?P<minor>\d{1,2})[\\/]",
            r"(?:lib\.|temp\.)\S+-(?P<value>2\.7|3\.\d{1,2})\b",
            r"\bpy(?P<major>3)(?P<minor>\d{1,2})_cu\d",
            r"[Pp]ython[ :=]+(?:version:? )?(?P<value>3\.\d{1,2}(?:\.\d+)?)\b",
        ),
        "torch": (
            r"\btorch[=-]{1,2}(?P<value>\d+\.\d+\.\d+(?:\+\w+)?)",
            r"(?i:torch(?:\.__version__| version)?)[ :=]{1,5}(?P<value>\d+\.\d+\.\d+[+\w]*)",
            r"\bUsing PyTorch (?P<value>\d+\.\d+(?:\.\d+)?(?:\+\w+)?)",
            r"(?P<value>\d+\.\d+\.\d+\+cu\d{2,3})\b",
        ),
        "CUDA": (
            r"(?i:cuda)[-/\\]v?(?P<value>\d{1,2}\.\d{1,2})\b",
            r"release (?P<value>\d{1,2}\.\d{1,2}), V\d",
            r"(?i:cuda) (?:toolkit )?(?:version:? )?(?P<value>\d{1,2}\.\d)\b",
            r"nvidia/cuda:(?P<value>\d{1,2}\.\d)",
            r"[+_]cu(?P<major>\d{2})(?P<minor>\d)\b",
        ),
        "GCC": (
            r"include/c\+\+/(?P<value>\d{1,2})\b",
            r"lib/gcc/[\w-]+/(?P<value>\d{1,2})[./]",
            r"\bg(?:cc|\+\+)-(?P<value>\d{1,2})\b",
            r"\b(?:GCC|GNU|gcc)(?: version)? (?P<value>\d{1,2}\.\d+)",
            r"\((?:GCC|Ubuntu|Debian)\)? [^)\n]*\) (?P<value>\d{1,2}\.\d+)",
            r"\(GCC\) (?P<value>\d+\.\d+)",
        ),
        "clang": (
            r"\bclang version (?P<value>\d{1,2}\.\d+)",
            r"\bclang(?:\+\+)?-(?P<value>\d{1,2})\b",
            r"lib/clang/(?P<value>\d{1,2})\b",
        ),
        "package": (  # the one that was not built
            r"Failed building (?:wheel|editable) for (?P<value>[A-Za-z][\w.-]*)",
            r"[Ff]ailed to build [`']?(?P<value>[A-Za-z][\w.-]*?)(?:[ @=`']|$)",
            r"^\s*Building (?:wheel|editable) for (?P<value>[A-Za-z][\w.-]*) \(",
            r"installable wheels for some pyproject.toml based projects \((?P<value>[\w.-]+)\)",
        ),
        "Visual Studio": (r"Microsoft Visual Studio[\\/]+(?P<value>20\d\d)\b",),
        "MSVC": (
            r"MSVC[\\/]+(?P<value>14\.\d\d)",
            r"\b(?:C/C\+\+|MSVC)\D{0,40}?(?P<value>19\.\d\d)\b",
        ),
    }.items()
}
_SYSTEMS = {
    **dict.fromkeys(("Darwin", "macosx", "arm64-apple", "-darwin.so"), "macOS"),
    **dict.fromkeys(("/opt/homebrew", "/Library/Developer"), "macOS"),
    **dict.fromkeys(("dyld", "Library", "/Users/"), "macOS"),
    **dict.fromkeys(("win_amd64", "win32", "MSVC"), "Windows"),
    "microsoft-standard-WSL2": "WSL2",
    "fc": "Fedora",
    "": "Ubuntu",  # only its release was found
}
_MANAGERS = {
    **dict.fromkeys(("Ubuntu", "Debian", "WSL", "WSL2"), ("apt", "conda")),
    **dict.fromkeys(("Fedora", "CentOS", "RHEL", "Rocky", "AlmaLinux"), ("dnf", "conda")),
    "macOS": ("brew", "conda", "pip"),
    "Windows": ("conda", "pip"),
    "Arch Linux": ("pacman", "conda"),
}
# The Python of a log that does not name it, by the oldest torch that pip offers to it, or by the
# newest where a later one was wanted
_TORCH_OFFERS = tuple(
    (python, re.compile(rf"requirement torch(?:\[\S*\])?{offer}"))
    for python, offer in (
        ("3.14", r"[^\n]*\(from versions: 2\.9\.\d(?:\+(?:cpu|cu12[68]))?[,)]"),
        ("3.13", r"[^\n]*\(from versions: 2\.(?:5\.\d|6\.0)(?:\+(?:cpu|cu118|cu12[14]))?[,)]"),
        ("3.12", r"[^\n]*\(from versions: 2\.2\.\d(?:\+(?:cpu|cu118|cu121))?[,)]"),
        ("3.11", r"[^\n]*\(from versions: (?:1\.13\.\d|2\.0\.0)[,)]"),
        ("3.10", r"[^\n]*\(from versions: 1\.11\.0(?:\+(?:cpu|cu102|cu113))?[,)]"),
        ("3.9", r"[=>]=2\.(?:9|1\d)[^\n]*\b2\.8\.0(?:\+(?:cpu|cu12[68]))?\)"),
        ("3.9", r"[^\n]*\(from versions: (?:0\.1\.2[\w.]*, )*1\.7\.\d[,)]"),
        ("3.8", r"[=>]=2\.(?:[5-9]|1\d)[^\n]*\b2\.4\.1(?:\+\w+)?\)"),
        ("3.8", r"[^\n]*\(from versions: (?:0\.1\.2[\w.]*, )*1\.4\.0[,)]"),
        ("3.7", r"[=>]=2\.\d[^\n]*\b1\.13\.[01](?:\+(?:cpu|cu117))?\)"),
        ("3.6", r"[=>]=(?:1\.1[123]|2\.\d)[^\n]*\b1\.10\.[012](?:\+(?:cpu|cu113))?\)"),
    )
)
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
        unnamed = {"system", "in"}
        named = (
            value if name in unnamed else f"{name} {value}"
            for name, value in self.values.items()
            if name != "package"
        )
        return ", ".join(named)

    @property
    def words(self) -> dict[str, str]:
        """The values of {log_python}, {log_cuda}, {log_cu} ("cu124") and others in texts."""
        words = {
            f"log_{name.lower().replace(' ', '_')}": value for name, value in self.values.items()
        }
        if cuda := self.values.get("CUDA"):
            words["log_cu"] = f"cu{cuda.replace('.', '')}"
        return words

    def matches(self, machine: Iterable[str]) -> bool:
        """Return True if the log names each of these versions, such as "GCC <5"."""
        required = (one.rpartition(" ") for one in machine)
        return all(_is_in_range(self.values.get(name, ""), text) for name, _, text in required)


NO_FACTS = LogFacts({})


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
    if "Python" not in values:
        offers = (python for python, offer in _TORCH_OFFERS if offer.search(text))
        values["Python"] = next(offers, "")
    values["system"] = system = _name_system(values.get("system", ""))
    if "in" in values:
        values["in"] = _name_place(values["in"])
    if system == "Windows":
        values.pop("GCC", None)
    managers = _MANAGERS.get(system) or _MANAGERS.get(system.partition(" ")[0], ())
    return LogFacts({key: value for key, value in values.items() if value}, managers)


def _is_in_range(version: str, specifier: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(version.partition("+")[0], prereleases=True)
    except InvalidVersion:
        return False


def _read_value(match: re.Match[str]) -> str:
    groups = match.groupdict()
    if groups.get("major"):
        return f"{groups['major']}.{groups['minor']}"
    return f"{groups['value']} {groups['release']}" if groups.get("release") else groups["value"]


def _name_system(found: str) -> str:
    """Return the name of a system for what was found: a drive letter, a folder, a release."""
    value, _, release = found.partition(" ")
    if found.startswith("LNK") or (len(found) == 1 and found.isalpha()):
        return "Windows"
    if found.isdecimal():
        return f"RHEL {found}"
    if found.startswith("/") and found not in _SYSTEMS:
        return "Linux"
    return f"{_SYSTEMS.get(value, value)} {release}".strip() if found else ""


def _name_place(found: str) -> str:
    """Return what the build ran in, for what was found: conda, Docker or Colab."""
    lower = found.lower()
    if any(word in lower for word in ("conda", "envs", "miniforge")):
        return "conda"
    return "Colab" if "content" in lower or "colab" in lower else "Docker"
