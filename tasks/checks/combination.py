"""What is known not to work together, with what is here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from tasks.checks.programs import ours
from tasks.checks.symptom import Level, Symptom, ok, unchecked
from tasks.knowledge.combinations import Combination, Finding
from tasks.knowledge.combinations import judge as judge_combination
from tasks.surroundings import msc_ver

if TYPE_CHECKING:
    from tasks.knowledge import Knowledge
    from tasks.reports.subject import Profile
    from tasks.surroundings import Surroundings, Tool

_LEVELS: dict[str, Level] = {"error": "problem", "warning": "warning", "info": "ok"}


def judge(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """known-bad: one symptom for each entry that is met."""
    if profile is None:
        yield unchecked("known-bad", "the profile does not open")
        return
    found = judge_combination(knowledge, combination_of(s, profile))
    if not found:
        yield ok("known-bad", f"none of {len(knowledge.known_bad)} known combinations is met")
    for finding in found:
        yield _symptom(finding)


def _symptom(finding: Finding) -> Symptom:
    level = _LEVELS[finding.level]
    return Symptom("known-bad", level, finding.id, finding.what, finding.fix, finding.id)


def combination_of(s: Surroundings, profile: Profile) -> Combination:
    """What would be built with what, as far as it was looked at; the one place that makes it."""
    choice = profile.choice
    windows = s.host.system == "windows"
    return Combination(
        system=s.host.system,
        cuda=_cuda(s, profile),
        torch=choice.torch,
        gcc=_gcc(s.cxx) if not windows else None,
        glibc=s.glibc or None,
        msvc=msc_ver(s.cxx.version) if windows and s.cxx else None,
        cmake=_of_the_build(s.cmake, profile),
        setuptools=_of_the_build(s.setuptools, profile),
        archs=choice.targets,
        strategy=choice.strategy,
    )


def _cuda(s: Surroundings, profile: Profile) -> str | None:
    """nvcc's own version where it is known, else the release that is to be installed."""
    chosen = profile.choice.toolkit
    if chosen.provider == "none":
        return None
    if s.nvcc and s.nvcc.version:
        return s.nvcc.version
    found = {kit.home: kit.version for kit in s.host.toolkits}
    return found.get(chosen.home) or chosen.version or None


def _gcc(cxx: Tool | None) -> str | None:
    if cxx is None or not cxx.version or "clang" in PurePath(cxx.path).name:
        return None
    return cxx.version


def _of_the_build(tool: Tool | None, profile: Profile) -> str | None:
    """That of the build environment: deps installs one that fits, whatever is on PATH."""
    return tool.version if tool and tool.version and ours(tool.path, profile) else None
