"""git, CMake and Ninja."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from tasks.core.deps_model import NINJA
from tasks.core.errors import KnowledgeError
from tasks.doctor.symptom import Symptom, command, install, ok, problem, unchecked, warning
from tasks.knowledge.releases import release

if TYPE_CHECKING:
    from tasks.core.deps_model import DepsJob
    from tasks.doctor.host_facts import Surroundings
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

_NINJA = Version(NINJA)


def judge(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """git, cmake, ninja."""
    job = deps_job(profile)
    yield _git(s, job, knowledge)
    yield _cmake(s, profile, knowledge)
    yield _ninja(s, profile)


def deps_job(profile: Profile | None) -> DepsJob | None:
    """What the first stage of the profile is given."""
    stages = profile.plan.of("deps") if profile else ()
    job: DepsJob | None = next((stage.job for stage in stages), None)
    return job


def _git(s: Surroundings, job: DepsJob | None, knowledge: Knowledge) -> Symptom:
    if s.git is None:
        return unchecked("git")
    if s.git.path:
        return ok("git", f"{s.git.version} at {s.git.path}")
    mac = s.host.system == "macos"
    todo = command("xcode-select --install") if mac else install(knowledge, s, "git")
    if job and job.git_needed:
        return problem("git", f"not there, and needed {job.git_needed}", todo)
    return warning("git", "not there: nothing can be fetched from git", todo)


def _cmake(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Symptom:
    """deps installs one that fits: another can only be there where somebody put it."""
    if s.cmake is None:
        return unchecked("cmake")
    bounds = _bounds(profile, knowledge)
    wanted = f"the build brings its own (>={bounds[0]}{f', <{bounds[1]}' * bool(bounds[1])})"
    if not s.cmake.path:
        return ok("cmake", f"none here; {wanted}")
    seen = f"{s.cmake.version} at {s.cmake.path}"
    if not ours(s.cmake.path, profile):
        return ok("cmake", f"{seen}; {wanted}")
    found, (least, below) = version_of(s.cmake.version), bounds
    if found and (found < Version(least) or (below and found >= Version(below))):
        asked = f">={least}" + (f" and <{below}" if below else "")
        return warning("cmake", f"{seen}; this torch wants {asked}", _again())
    return ok("cmake", seen)


def _bounds(profile: Profile | None, knowledge: Knowledge) -> tuple[str, str]:
    try:
        found = release(knowledge, profile.choice.torch) if profile else None
    except KnowledgeError:
        found = None
    return (found.cmake_min, found.cmake_below) if found else ("3.27", "")


def _ninja(s: Surroundings, profile: Profile | None) -> Symptom:
    if s.ninja is None:
        return unchecked("ninja")
    wanted = f"the build brings its own (>={_NINJA})"
    if not s.ninja.path:
        return ok("ninja", f"none here; {wanted}")
    seen = f"{s.ninja.version} at {s.ninja.path}"
    found = version_of(s.ninja.version)
    if found is None or found >= _NINJA:
        return ok("ninja", seen)
    why = (
        "1.11.1 loops and 1.13.0 breaks long link commands"
        if s.host.system == "windows"
        else "before 1.13 it knows no jobserver, so memory cannot govern it"
    )
    if ours(s.ninja.path, profile):
        return warning("ninja", f"{seen}: {why}", _again())
    return ok("ninja", f"{seen}; {wanted}")


def ours(path: str, profile: Profile | None) -> bool:
    """Whether a program lies in the build environment."""
    if profile is None:
        return False
    build = profile.layout.build
    return type(build)(path).is_relative_to(build)


def _again() -> str:
    return command("doit clean deps && doit deps", "install the build tools again:")


def version_of(text: str) -> Version | None:
    """None for what is none: tools say all kinds of things."""
    try:
        return Version(text)
    except InvalidVersion:
        return None
