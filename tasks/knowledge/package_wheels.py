"""Explain why pip compiles a package: its release has no wheel for the Python of the environment.

The source needs a compiler and libraries, and does not compile if it is older than the Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

OLDEST_MINOR = 6  # of the Pythons 3 in read/package_wheels.yaml
_OLDEST_SUPPORTED = 9  # a package with wheels for older ones only is not maintained


@dataclass(frozen=True)
class SourceBuild:
    """A package that pip compiles. `version`, `python` and `system` are "" if unknown.

    `system` is a name such as "Windows" or "Ubuntu 22.04".
    """

    package: str
    version: str = ""
    python: str = ""
    system: str = ""

    def __str__(self) -> str:
        return f"{self.package} {self.version}".strip()

    @property
    def minor(self) -> str:
        """The Python as "3.12", "" if unknown."""
        return ".".join(self.python.split(".")[:2])

    @property
    def family(self) -> str:
        """The system as in the document; Linux if unknown."""
        return {"Windows": "windows", "macOS": "macos"}.get(self.system, "linux")

    @property
    def release(self) -> Version | None:
        """The version, `None` if unknown."""
        try:
            return Version(self.version)
        except InvalidVersion:
            return None


@dataclass(frozen=True)
class MissingWheel:
    """Why a release of a package is compiled, and what to install instead."""

    reason: str
    step: str


@dataclass(frozen=True)
class WheelHistory:
    """The releases of packages that have wheels, as in read/package_wheels.yaml."""

    document: Mapping[str, Any] = field(default_factory=dict)

    def explain_build(self, build: SourceBuild) -> MissingWheel | None:
        """Return why pip compiles a package; `None` if unknown, or if there is a wheel."""
        packages = self.document.get("packages", {})
        spans = (packages.get(canonicalize_name(build.package)) or {}).get(build.family) or {}
        is_recorded = not build.minor or _parse_minor(build.minor) >= OLDEST_MINOR
        if not spans or not is_recorded or _parse_minor(list(spans)[-1]) < _OLDEST_SUPPORTED:
            return None
        if build.release is None:
            return _explain_unknown_release(build, spans)
        pythons = [one for one, span in spans.items() if _is_within(build.release, span)]
        if build.minor in pythons or (not build.minor and list(spans)[-1] in pythons):
            return None
        known = f"use {_format_pythons(pythons)}, for which {build} has a wheel" if pythons else ""
        if build.minor:
            return _explain_python(build, spans, known)
        if not pythons:
            return None
        reason = f"{build} has wheels for {_format_pythons(pythons)} only"
        return MissingWheel(reason, f"{_format_install(build.package)}; or {known}")


def _explain_unknown_release(build: SourceBuild, spans: Mapping[str, str]) -> MissingWheel | None:
    """Return what is known of a package without the release that pip chose."""
    if build.minor and build.minor not in spans:
        return _explain_python(build, spans, "")
    python = f"Python {build.minor}" if build.minor else "this Python"
    reason = f"the release of {build.package} that pip chose has no wheel for {python}"
    if build.minor:
        first, _, last = spans[build.minor].partition(" ")
        return MissingWheel(reason, _format_install(build.package, first, last))
    pythons = [one for one, span in spans.items() if " " not in span]
    newest = f"its newest release has wheels for {_format_pythons(pythons)}"
    return MissingWheel(reason, f"{_format_install(build.package)}; {newest}")


def _explain_python(build: SourceBuild, spans: Mapping[str, str], known: str) -> MissingWheel:
    """Return why no wheel fits the Python of a build. `known` says which fits this release."""
    name, minor = build.package, build.minor
    if minor not in spans:
        newest = list(spans)[-1]
        other = newest if _parse_minor(minor) > _parse_minor(newest) else next(iter(spans))
        step = f"use Python {other} and a release with a wheel for it: uv venv --python {other}"
        return MissingWheel(f"no release of {name} has a wheel for Python {minor}", known or step)
    first, _, last = spans[minor].partition(" ")
    is_older = build.release is not None and build.release < Version(first)
    end = f"the first with one is {first}" if is_older else f"the last with one is {last}"
    step = _format_install(name, first if is_older else "", "" if is_older else last)
    return MissingWheel(
        f"{build} has no wheel for Python {minor}: {end}", f"{step}; or {known}" if known else step
    )


def _format_install(name: str, first: str = "", last: str = "") -> str:
    """Return how to install a release of a package with a wheel, from `first` to `last`."""
    bounds = ",".join(filter(None, (first and f">={first}", last and f"<={last}")))
    what = f'"{name}{bounds}"' if bounds else f"-U {name}"
    return f"install a release with a wheel: pip install --only-binary=:all: {what}"


def _parse_minor(python: str) -> int:
    return int(python.partition(".")[2] or 0)


def _is_within(release: Version, span: str) -> bool:
    first, _, last = span.partition(" ")
    return Version(first) <= release and (not last or release <= Version(last))


def _format_pythons(pythons: Sequence[str]) -> str:
    """Return "Python 3.8 to 3.10" for the ascending Pythons."""
    last = f" to {pythons[-1]}" if len(pythons) > 1 else ""
    return f"Python {pythons[0]}{last}"
