"""Find the package whose source pip or uv could not build, and the message of its script."""

import re
from collections.abc import Iterable, Sequence

from packaging.utils import canonicalize_name

from tasks.diagnosis.first_error import is_noise
from tasks.diagnosis.kind_matches import KindMatch
from tasks.diagnosis.log_facts import LogFacts
from tasks.diagnosis.log_lines import LogLine
from tasks.knowledge.error_kinds import ErrorKind, fill_text
from tasks.knowledge.package_wheels import SourceBuild

NO_WHEEL = ErrorKind(  # of an error that no other kind explains
    slug="package-without-wheel",
    about="pip",
    patterns=(),
    cause="",
    remedy=(),
    status="verified: the files on PyPI, config/knowledge/read/package_wheels.yaml",
)
_SCRIPT_MESSAGE = ErrorKind(  # of a build script that prints a message and ends
    slug="build-script-message",
    about="pip",
    patterns=(),
    cause="the build script of the package ends with its own message: {message}",
    remedy=("do what the message says, then run the same command again",),
    status="verified: the output of pip has nothing else",
)
_OUTPUT_START = re.compile(r"^\s*(?:╰─> )?\[\d+ lines of output\]$")
_OUTPUT_END = re.compile(r"^\s*\[end of output\]$")
_MAX_MESSAGE_LINES = 6
_PROGRESS = re.compile(
    r"^\s*(?:Collecting|Using|Downloading|Installing|Building|Loading|Compiling|Traceback|running|"
    r"creating|copying|writing|reading)\b|^\s*[\w. ]+ version\b"
)
_SAYS_WHY = re.compile(
    r"[.!]$|\b(?:must|needs?|requires?|required|please|install|cannot|can't|unable|unsupported|"
    r"not (?:supported|found|available|compatible))\b",
    re.IGNORECASE,
)
_NAME = r"(?P<name>[A-Za-z0-9](?:[\w.-]*\w)?)"
_FAILED = tuple(
    re.compile(pattern)
    for pattern in (
        (
            rf"Failed to (?:download and )?build [`']?(?!installable\b|one or more\b){_NAME}"
            r"(?:==(?P<version>\d[\w.]*))?(?:[ @`']|$)"
        ),
        rf"Failed building (?:wheel|editable) for {_NAME}\s*$",
        rf"Could not build wheels for {_NAME}(?:,| which\b|$)",
        rf"projects \({_NAME}\)",
        rf"Running setup\.py install for {_NAME}[: ].*error",
    )
)
_METADATA_FAILED = re.compile(
    r"metadata-generation-failed|egg_info did not run|Getting requirements to build wheel.*error|"
    r"Preparing (?:wheel )?metadata.*error|\(setup\.py egg_info\)|\"python setup\.py egg_info\""
)
_COLLECTED = re.compile(rf"^\s*Collecting {_NAME}(?:==(?P<version>\d[\w.]*))?(?:[<>!=~\[; ]|$)")
_BUILT_BY_MESON = re.compile(rf"^\s*Project name: {_NAME}\s*$")
_VERSION_OF_MESON = re.compile(r"^\s*Project version: (?P<version>\d[\w.]*)")
_OTHER_MACHINE = re.compile(  # for which fewer packages have wheels, and builds that were asked for
    r"aarch64|\barmv[67]|musl|ppc64|riscv|\bi[36]86\b|[.-]win32\b|win-arm64|32 bit \(|"
    r"macosx[-_]\d+[._]\d+[-_]x86_64|x86_64-apple|--no-binary|"
    r"\b(?:jetson|tegra|termux)\b|linux-android",
    re.IGNORECASE,
)


def find_source_build(texts: Sequence[str], machine: LogFacts) -> SourceBuild | None:
    """Return the package that was not built, `None` if none is named.

    Also `None` if its requirement names a repository or file, or if the machine is one for which
    fewer packages have wheels, such as a Jetson.
    """
    found = next((match for one in _FAILED if (match := _search(one, texts))), None)
    if not found and any(map(_METADATA_FAILED.search, texts)):
        collected = [match for text in texts if (match := _COLLECTED.match(text))]
        found = collected[-1] if collected else _search(_BUILT_BY_MESON, texts)
    if not found or any(map(_OTHER_MACHINE.search, texts)):
        return None
    name, groups = found["name"], found.groupdict()
    requirement = re.compile(rf"(?<![\w.-]){_match_name(name)} @ ", re.IGNORECASE)
    if any(map(requirement.search, texts)):
        return None
    version = groups.get("version") or _find_version(name, texts)
    return SourceBuild(
        name, version, machine.values.get("Python", ""), machine.values.get("system", "")
    )


def find_script_message(lines: Sequence[LogLine]) -> KindMatch | None:
    """Return the message of a build script whose output, as pip shows it, is only a message.

    Progress, a traceback and output that does not say why the script ended are no message.
    """
    start: int | None = None
    for index, line in enumerate(lines):
        if _OUTPUT_START.match(line.text):
            start = index
        elif start is not None and _OUTPUT_END.match(line.text):
            shown = [at for at in range(start + 1, index) if lines[at].text.strip()]
            texts = [lines[at].text.strip() for at in shown]
            is_other = any(is_noise(text) or _PROGRESS.match(text) for text in texts)
            is_short = 0 < len(shown) <= _MAX_MESSAGE_LINES
            if is_short and _SAYS_WHY.search(texts[0]) and not is_other:
                words = {"message": texts[0]}
                cause = fill_text(_SCRIPT_MESSAGE.cause, words)
                return KindMatch(_SCRIPT_MESSAGE, shown[0], cause, _SCRIPT_MESSAGE.remedy)
    return None


def _search(pattern: re.Pattern[str], texts: Iterable[str]) -> re.Match[str] | None:
    return next((match for text in texts if (match := pattern.search(text))), None)


def _match_name(name: str) -> str:
    """Return a regular expression for all spellings of a package's name."""
    return "[-_.]+".join(map(re.escape, canonicalize_name(name).split("-")))


def _find_version(name: str, texts: Sequence[str]) -> str:
    """Return the version in the name of the source archive, a requirement or Meson's head."""
    words = _match_name(name)
    release = (
        rf"(?<![\w-]){words}(?:-|==| )v?(?P<version>\d+(?:\.\d+)+(?:\.?(?:post|dev|rc|a|b)\d+)?)"
    )
    patterns = (
        re.compile(rf"{release}\.(?:tar\.gz|zip|tar\.bz2)", re.IGNORECASE),
        re.compile(rf"{release}(?!\S*\.whl)", re.IGNORECASE),
        re.compile(rf"(?<![\w-]){words} \((?P<version>\d[\w.]*)\)", re.IGNORECASE),
    )
    found = next((match for one in patterns if (match := _search(one, texts))), None)
    is_meson = any(
        match["name"].lower() == name.lower()
        for text in texts
        if (match := _BUILT_BY_MESON.match(text))
    )
    if not found and is_meson:
        found = _search(_VERSION_OF_MESON, texts)
    return found["version"] if found else ""
