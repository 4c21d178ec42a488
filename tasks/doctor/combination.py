"""What is known not to work together, with what is here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath, PureWindowsPath
from typing import TYPE_CHECKING

from tasks.core.resolution import Combination
from tasks.doctor.programs import ours
from tasks.doctor.symptom import Level, Symptom, ok, unchecked
from tasks.knowledge.combinations import Finding
from tasks.knowledge.combinations import judge as judge_combination
from tasks.knowledge.hostcompilers import msc_ver
from tasks.knowledge.minimums import below
from tasks.planning.decide import attempt
from tasks.planning.suggestions import advice, known_bad

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Surroundings, Tool
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

_ELSEWHERE = {"driver-min", "python-min"}  # the check driver, and planning itself
_LEVELS: dict[str, Level] = {"error": "problem", "warning": "warning", "info": "ok"}


def judge(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """known-bad: one symptom for each entry that is met."""
    if profile is None:
        yield unchecked("known-bad", "the profile does not open")
        return
    combination = combination_of(s, profile)
    old = (finding for finding in below(knowledge, combination) if finding.id not in _ELSEWHERE)
    found = (*judge_combination(knowledge, combination), *old)
    if not found:
        yield ok("known-bad", f"none of {len(knowledge.known_bad)} known combinations is met")
    for finding in found:
        yield _symptom(finding, profile, knowledge)


def _symptom(finding: Finding, profile: Profile, knowledge: Knowledge) -> Symptom:
    if finding.cured:
        seen = f"taken care of by {finding.cured}: {finding.what}"
        return Symptom("known-bad", "ok", finding.id, seen, known=finding.id)
    level = _LEVELS[finding.level]
    todo = finding.fix
    if level == "problem" and known_bad(knowledge, profile.choice, profile.host):
        here = advice(profile.loaded.settings, profile.host, knowledge, attempt)
        todo += f"\nfor this profile: {here}" if here else ""
    return Symptom("known-bad", level, finding.id, finding.what, todo, finding.id)


def combination_of(s: Surroundings, profile: Profile) -> Combination:
    """What would be built with what, as far as it was looked at."""
    planned = profile.choice.combination(s.host)
    found = replace(
        planned,
        cuda=s.nvcc.version if planned.cuda and s.nvcc and s.nvcc.version else planned.cuda,
        driver=s.nvidia.driver or None if s.nvidia else None,
        ninja=_of_the_build(s.ninja, profile),
        cmake=_of_the_build(s.cmake, profile),
        setuptools=_of_the_build(s.setuptools, profile),
    )
    return _with_compilers(found, s) if profile.choice.compiles else found


def _with_compilers(found: Combination, s: Surroundings) -> Combination:
    """And the C library, whose headers nvcc reads; where nothing is compiled they do not count."""
    version = _version(s.cxx)
    if s.host.system == "windows":
        msvc, installation = _msc_ver(s.cxx), _installation(s)
        return replace(found, msvc=msvc, msvc_tools=version, visual_studio=installation)
    glibc = s.glibc or None
    if _is_clang(s.cxx):
        return replace(found, clang=version, glibc=glibc)
    return replace(found, gcc=version, glibc=glibc)


def _version(cxx: Tool | None) -> str | None:
    return cxx.version or None if cxx else None


def _is_clang(cxx: Tool | None) -> bool:
    return cxx is not None and "clang" in PurePath(cxx.path).name


def _msc_ver(cxx: Tool | None) -> str | None:
    found = msc_ver(cxx.version) if cxx else None
    return str(found) if found else None


def _installation(s: Surroundings) -> str | None:
    """The version of the Visual Studio that the compiler is of."""
    path = PureWindowsPath(s.cxx.path) if s.cxx else None
    every = s.visual_studio or ()
    return next((v.version for v in every if path and path.is_relative_to(v.folder)), None)


def _of_the_build(tool: Tool | None, profile: Profile) -> str | None:
    """That of the build environment: deps installs one that fits, whatever is on PATH."""
    return tool.version if tool and tool.version and ours(tool.path, profile) else None
