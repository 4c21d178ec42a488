"""What is known not to work together, with what is here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath, PureWindowsPath
from typing import TYPE_CHECKING

from tasks.core.resolution import Combination
from tasks.doctor.programs import is_in_build_folder
from tasks.doctor.symptom import CheckResult, Level, report_ok, report_unchecked
from tasks.knowledge.combinations import Finding
from tasks.knowledge.combinations import find_known_bad as judge_combination
from tasks.knowledge.hostcompilers import parse_msc_ver
from tasks.knowledge.minimums import find_too_old_versions
from tasks.planning.decide import resolve_without_suggestions
from tasks.planning.suggestions import format_suggestions, is_known_bad

if TYPE_CHECKING:
    from tasks.doctor.host_facts import HostFacts, Tool
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

_CHECKED_ELSEWHERE = {"driver-min", "python-min"}  # the check driver, and planning itself
_LEVELS: dict[str, Level] = {"error": "problem", "warning": "warning", "info": "ok"}


def check_known_bad(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[CheckResult]:
    """known-bad: one symptom for each entry that is met."""
    if profile is None:
        yield report_unchecked("known-bad", "the profile does not open")
        return
    combination = build_combination(s, profile)
    old = (
        finding
        for finding in find_too_old_versions(knowledge, combination)
        if finding.id not in _CHECKED_ELSEWHERE
    )
    found = (*judge_combination(knowledge, combination), *old)
    if not found:
        yield report_ok(
            "known-bad", f"none of {len(knowledge.known_bad)} known combinations is met"
        )
    for finding in found:
        yield _build_known_bad_result(finding, profile, knowledge)


def _build_known_bad_result(
    finding: Finding, profile: Profile, knowledge: Knowledge
) -> CheckResult:
    if finding.fixed_by:
        seen = f"taken care of by {finding.fixed_by}: {finding.message}"
        return CheckResult("known-bad", "ok", finding.id, seen, known=finding.id)
    level = _LEVELS[finding.level]
    todo = finding.fix
    if level == "problem" and is_known_bad(knowledge, profile.choice, profile.host):
        here = format_suggestions(
            profile.loaded.settings, profile.host, knowledge, resolve_without_suggestions
        )
        todo += f"\nfor this profile: {here}" if here else ""
    return CheckResult("known-bad", level, finding.id, finding.message, todo, finding.id)


def build_combination(s: HostFacts, profile: Profile) -> Combination:
    """What would be built with what, as far as it was looked at."""
    planned = profile.choice.build_combination(s.host)
    found = replace(
        planned,
        cuda=s.nvcc.version if planned.cuda and s.nvcc and s.nvcc.version else planned.cuda,
        driver=s.nvidia.driver or None if s.nvidia else None,
        ninja=_read_build_tool_version(s.ninja, profile),
        cmake=_read_build_tool_version(s.cmake, profile),
        setuptools=_read_build_tool_version(s.setuptools, profile),
    )
    return _add_compilers(found, s) if profile.choice.needs_compiler else found


def _add_compilers(found: Combination, s: HostFacts) -> Combination:
    """And the C library, whose headers nvcc reads; where nothing is compiled they do not count."""
    version = _read_compiler_version(s.cxx)
    if s.host.system == "windows":
        msvc, installation = _find_msc_ver(s.cxx), _find_visual_studio_version(s)
        return replace(found, msvc=msvc, msvc_tools=version, visual_studio=installation)
    glibc = s.glibc or None
    if _is_clang(s.cxx):
        return replace(found, clang=version, glibc=glibc)
    return replace(found, gcc=version, glibc=glibc)


def _read_compiler_version(cxx: Tool | None) -> str | None:
    return cxx.version or None if cxx else None


def _is_clang(cxx: Tool | None) -> bool:
    return cxx is not None and "clang" in PurePath(cxx.path).name


def _find_msc_ver(cxx: Tool | None) -> str | None:
    found = parse_msc_ver(cxx.version) if cxx else None
    return str(found) if found else None


def _find_visual_studio_version(s: HostFacts) -> str | None:
    """The version of the Visual Studio that the compiler is of."""
    path = PureWindowsPath(s.cxx.path) if s.cxx else None
    every = s.visual_studio or ()
    return next((v.version for v in every if path and path.is_relative_to(v.folder)), None)


def _read_build_tool_version(tool: Tool | None, profile: Profile) -> str | None:
    """That of the build environment: deps installs one that fits, whatever is on PATH."""
    return (
        tool.version if tool and tool.version and is_in_build_folder(tool.path, profile) else None
    )
