"""Check git, CMake, Ninja, compilers, Visual Studio and the Windows SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from tasks.core.check_ids import CheckId
from tasks.core.deps_model import MIN_NINJA_VERSION
from tasks.core.errors import KnowledgeError
from tasks.doctor.check_result import (
    CheckResult,
    Results,
    format_command,
    format_install_hint,
    report_ok,
    report_problem,
    report_unchecked,
    report_warning,
)
from tasks.knowledge.host_compilers import MSVC_INSTALL_COMMAND
from tasks.knowledge.torch_releases import find_release

if TYPE_CHECKING:
    from tasks.core.deps_model import DepsJob
    from tasks.doctor.host_facts import HostFacts
    from tasks.knowledge import Knowledge
    from tasks.lock.opened_profile_io import Profile

_REQUIRED_NINJA = Version(MIN_NINJA_VERSION)
_REINSTALL_HINT = format_command("doit clean deps && doit deps", "install the build tools again:")


def check_build_tools(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Yield the results of the checks git, cmake and ninja."""
    yield _check_git(s, find_deps_job(profile), knowledge)
    yield _check_cmake(s, profile, knowledge)
    yield _check_ninja(s, profile)


def find_deps_job(profile: Profile | None) -> DepsJob | None:
    """Return the job of the deps stage, None without a profile or a deps stage."""
    stages = profile.plan.find_stages("deps") if profile else ()
    job: DepsJob | None = next((stage.job for stage in stages), None)
    return job


def _check_git(s: HostFacts, job: DepsJob | None, knowledge: Knowledge) -> CheckResult:
    if s.git is None:
        return report_unchecked("git")
    if s.git.path:
        return report_ok("git", f"{s.git.version} at {s.git.path}")
    if s.host.system == "macos":
        hint = format_command("xcode-select --install")
    else:
        hint = format_install_hint(knowledge, s, "git")
    if job and job.git_needed:
        return report_problem("git", f"git is missing, and needed {job.git_needed}", hint)
    return report_warning("git", "git is missing, so nothing can be fetched with it", hint)


def _check_cmake(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> CheckResult:
    """Warn if the CMake in the build environment is unsuitable for this torch version.

    The deps stage installs a suitable CMake; only a later installation can have replaced it.
    """
    if s.cmake is None:
        return report_unchecked("cmake")
    try:
        release = find_release(knowledge, profile.choice.torch) if profile else None
    except KnowledgeError:
        release = None
    minimum, upper_bound = (release.cmake_min, release.cmake_below) if release else ("3.27", "")
    required = f">={minimum}" + (f", <{upper_bound}" if upper_bound else "")
    build_version = f"the build installs its own ({required})"
    if not s.cmake.path:
        return report_ok("cmake", f"not installed; {build_version}")
    message = f"{s.cmake.version} at {s.cmake.path}"
    if not is_in_build_folder(s.cmake.path, profile):
        return report_ok("cmake", f"{message}; {build_version}")
    version = parse_tool_version(s.cmake.version)
    if version and (
        version < Version(minimum) or (upper_bound and version >= Version(upper_bound))
    ):
        message += f"; this torch needs {required}"
        return report_warning("cmake", message, _REINSTALL_HINT)
    return report_ok("cmake", message)


def _check_ninja(s: HostFacts, profile: Profile | None) -> CheckResult:
    if s.ninja is None:
        return report_unchecked("ninja")
    build_version = f"the build installs its own (>={_REQUIRED_NINJA})"
    if not s.ninja.path:
        return report_ok("ninja", f"not installed; {build_version}")
    message = f"{s.ninja.version} at {s.ninja.path}"
    version = parse_tool_version(s.ninja.version)
    if version is None or version >= _REQUIRED_NINJA:
        return report_ok("ninja", message)
    if not is_in_build_folder(s.ninja.path, profile):
        return report_ok("ninja", f"{message}; {build_version}")
    if s.host.system == "windows":
        message += ": Ninja 1.11.1 loops, and 1.13.0 breaks long link commands"
    else:
        message += ": before 1.13 Ninja has no jobserver, so memory cannot limit the jobs"
    return report_warning("ninja", message, _REINSTALL_HINT)


def is_in_build_folder(path: str, profile: Profile | None) -> bool:
    """Return True if the program is in the build directory, False without a profile."""
    if profile is None:
        return False
    build = profile.layout.build
    return type(build)(path).is_relative_to(build)


def parse_tool_version(text: str) -> Version | None:
    """Parse a version that a tool printed; return None if it is not a valid version."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


INSTALL_COMPILER = {"windows": MSVC_INSTALL_COMMAND, "macos": "xcode-select --install"}
_WINDOWS_CHECKS: tuple[CheckId, ...] = ("visual-studio", "windows-sdk")
_NOT_NEEDED = "not needed: nothing is compiled"


def check_compilers(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Yield the results of the checks compiler, visual-studio and windows-sdk."""
    windows = s.host.system == "windows"
    if profile and not profile.choice.needs_compiler:
        yield report_ok("compiler", _NOT_NEEDED)
        yield from (report_ok(check, _NOT_NEEDED) for check in _WINDOWS_CHECKS if windows)
        return
    yield _check_compiler(s, knowledge)
    if windows:
        yield _check_visual_studio(s)
        yield _check_windows_sdk(s)


def _check_compiler(s: HostFacts, knowledge: Knowledge) -> CheckResult:
    if s.cxx is None:
        return report_unchecked("compiler")
    if s.cxx.path:
        reason = f": {s.cxx.why}" if s.cxx.why else ""
        return report_ok("compiler", f"{s.cxx.version} at {s.cxx.path}{reason}")
    hint = s.cxx.todo
    if not hint and (command := INSTALL_COMPILER.get(s.host.system)):
        hint = format_command(command)
    hint = hint or format_install_hint(knowledge, s, "compiler")
    return report_problem("compiler", s.cxx.why or "no C++ compiler is installed", hint)


def _check_visual_studio(s: HostFacts) -> CheckResult:
    if s.visual_studio is None:
        return report_unchecked("visual-studio", "vswhere could not be run")
    if usable := [studio for studio in s.visual_studio if studio.tools]:
        names = "; ".join(f"{one.name} {one.version}, C++ {one.tools}" for one in usable)
        return report_ok("visual-studio", names)
    if s.visual_studio:
        incomplete = s.visual_studio[0]
        message = f"{incomplete.name} {incomplete.version} lacks the workload for C++"
        setup = r'"%ProgramFiles(x86)%\Microsoft Visual Studio\Installer\setup.exe"'
        options = "--add Microsoft.VisualStudio.Workload.VCTools --includeRecommended --passive"
        command = f'{setup} modify --installPath "{incomplete.folder}" {options}'
        return report_problem("visual-studio", message, format_command(command, "run in cmd:"))
    if s.cxx and s.cxx.path:
        message = "vswhere found no Visual Studio; the compiler comes from this command prompt"
        hint = format_command(MSVC_INSTALL_COMMAND, "to build outside of this command prompt:")
        return report_warning("visual-studio", message, hint)
    message = "no Visual Studio with the C++ tools is installed"
    return report_problem("visual-studio", message, format_command(MSVC_INSTALL_COMMAND))


def _check_windows_sdk(s: HostFacts) -> CheckResult:
    if s.windows_sdk is None:
        return report_unchecked("windows-sdk")
    if s.windows_sdk:
        return report_ok("windows-sdk", ", ".join(s.windows_sdk))
    message = "no Windows SDK is installed: it contains windows.h and the C libraries"
    hint = format_command(MSVC_INSTALL_COMMAND, "install it with the recommended components:")
    return report_problem("windows-sdk", message, hint)
