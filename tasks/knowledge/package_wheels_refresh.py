"""Read from a package index for which Pythons the releases of packages have wheels."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from tasks.core.package_files import IndexFile
from tasks.knowledge.package_wheels import OLDEST_MINOR
from tasks.knowledge.wheel_facts import list_wheel_pythons

_PLATFORMS = {  # the machine of most users of a system
    "linux": ("linux", "x86_64"),
    "windows": ("windows", "x86_64"),
    "macos": ("macos", "aarch64"),
}
_NEWEST_PATCH = 99  # ">=3.6.1" is for the newest Python 3.6


def build_wheel_document(
    projects: Mapping[str, Sequence[IndexFile]],
) -> dict[str, dict[str, dict[str, str]]]:
    """Return the wheels of projects, by system: {"numpy": {"linux": {"3.8": "1.17.3 1.24.4"}}}.

    A text has the first and the last release with a wheel for a Python. The last is left out if it
    is the newest release with a wheel for the system. Yanked files and pre-releases do not count.
    """
    releases = {name: dict(_group_releases(files)) for name, files in projects.items()}
    tags = {
        python
        for wheels in releases.values()
        for files in wheels.values()
        for pythons in list_wheel_pythons(one.name for one in files).values()
        for python in pythons
    }
    newest = max((int(one.removeprefix("3.").rstrip("+")) for one in tags if "." in one), default=0)
    minors = [f"3.{minor}" for minor in range(OLDEST_MINOR, newest + 1)]
    return {name: dict(_build_systems(wheels, minors)) for name, wheels in sorted(releases.items())}


def _group_releases(files: Iterable[IndexFile]) -> Iterator[tuple[Version, list[IndexFile]]]:
    """Yield each final release, ascending, with its wheels that have compiled code."""
    found: defaultdict[Version, list[IndexFile]] = defaultdict(list)
    for file in files:
        try:
            version = parse_wheel_filename(file.name)[1]
        except (InvalidWheelFilename, InvalidVersion):
            continue
        is_compiled = not file.name.endswith("-any.whl")
        if is_compiled and not (version.is_prerelease or file.yanked):
            found[version].append(file)
    yield from sorted(found.items())


def _build_systems(
    wheels: Mapping[Version, Sequence[IndexFile]], minors: Sequence[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    for system, platform in _PLATFORMS.items():
        fitting = {
            version: {one for file in files for one in _list_fitting(file, minors, platform)}
            for version, files in wheels.items()
        }
        newest = max((version for version, pythons in fitting.items() if pythons), default=None)
        spans = {}
        for python in minors:
            found = [version for version, pythons in fitting.items() if python in pythons]
            if found:
                last = "" if found[-1] == newest else f" {found[-1]}"
                spans[python] = f"{found[0]}{last}"
        yield system, spans


def _list_fitting(
    file: IndexFile, minors: Iterable[str], platform: tuple[str, str]
) -> Iterator[str]:
    """Yield those of the Pythons, such as "3.12", with which a wheel fits a platform."""
    tags = list_wheel_pythons([file.name]).get(platform, [])
    oldest = [int(tag[:-1].partition(".")[2] or 0) for tag in tags if tag.endswith("+")]
    try:
        specifiers = SpecifierSet(file.requires_python)
    except InvalidSpecifier:
        specifiers = SpecifierSet()
    for python in minors:
        minor = int(python.partition(".")[2])
        is_tagged = python in tags or any(minor >= one for one in oldest)
        if is_tagged and f"{python}.{_NEWEST_PATCH}" in specifiers:
            yield python


_HEADER = """\
# The first and the last release on PyPI with a wheel for a Python, by system, as `doit refresh
# --pythons` reads them (tasks/knowledge/package_wheels_refresh.py). Without a last one, the newest
# release has a wheel. The packages are those of this file: to add one, write "NAME: {}", and read.
"""


def render_wheel_document(document: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str:
    """Return the text of config/knowledge/read/package_wheels.yaml."""
    lines = ["packages:"]
    for name, systems in document.items():
        lines.append(f"  {name}:")
        for system, spans in systems.items():
            texts = ", ".join(f'"{python}": "{span}"' for python, span in spans.items())
            lines.append(f"    {system}: {{{texts}}}")
    return _HEADER + "\n".join(lines) + "\n"
