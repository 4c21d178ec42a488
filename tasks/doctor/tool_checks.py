"""Check git, CMake, Ninja and compilers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from tasks.core.check_ids import CheckId
from tasks.core.deps_model import MIN_NINJA_VERSION
from tasks.core.errors import KnowledgeError
from tasks.doctor import check_result
from tasks.knowledge.host_compilers import MSVC_INSTALL_COMMAND
from tasks.knowledge.torch_releases import find_release

if TYPE_CHECKING:
    from tasks.core.deps_model import DepsJob
    from tasks.doctor.host_facts import HostFacts
    from tasks.knowledge import Knowledge
    from tasks.lock.opened_profile_io import Profile

_REQUIRED_NINJA = Version(MIN_NINJA_VERSION)


def check_build_tools(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check git, cmake and ninja."""
    job = find_deps_job(profile)
    yield _check_git(s, job, knowledge)
    yield _check_cmake(s, profile, knowledge)
    yield _check_ninja(s, profile)


def find_deps_job(profile: Profile | None) -> DepsJob | None:
    """Return the job of the first stage of the profile."""
    stages = profile.plan.find_stages("deps") if profile else ()
    job: DepsJob | None = next((stage.job for stage in stages), None)
    return job


def _check_git(s: HostFacts, job: DepsJob | None, knowledge: Knowledge) -> check_result.CheckResult:
    if s.git is None:
        return check_result.report_unchecked("git")
    if s.git.path:
        return check_result.report_ok("git", f"{s.git.version} at {s.git.path}")
    is_macos = s.host.system == "macos"
    hint = (
        check_result.format_command("xcode-select --install")
        if is_macos
        else check_result.format_install_hint(knowledge, s, "git")
    )
    if job and job.git_needed:
        return check_result.report_problem("git", f"not there, and needed {job.git_needed}", hint)
    return check_result.report_warning("git", "not there: nothing can be fetched from git", hint)


def _check_cmake(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> check_result.CheckResult:
    """Check CMake.

    The deps stage installs a suitable version; an unsuitable one was installed by someone else.
    """
    if s.cmake is None:
        return check_result.report_unchecked("cmake")
    bounds = _find_cmake_bounds(profile, knowledge)
    build_version = f"the build brings its own (>={bounds[0]}{f', <{bounds[1]}' * bool(bounds[1])})"
    if not s.cmake.path:
        return check_result.report_ok("cmake", f"none here; {build_version}")
    message = f"{s.cmake.version} at {s.cmake.path}"
    if not is_in_build_folder(s.cmake.path, profile):
        return check_result.report_ok("cmake", f"{message}; {build_version}")
    version, (minimum, upper_bound) = parse_tool_version(s.cmake.version), bounds
    if version and (
        version < Version(minimum) or (upper_bound and version >= Version(upper_bound))
    ):
        required = f">={minimum}" + (f" and <{upper_bound}" if upper_bound else "")
        return check_result.report_warning(
            "cmake", f"{message}; this torch wants {required}", _format_reinstall_command()
        )
    return check_result.report_ok("cmake", message)


def _find_cmake_bounds(profile: Profile | None, knowledge: Knowledge) -> tuple[str, str]:
    try:
        release = find_release(knowledge, profile.choice.torch) if profile else None
    except KnowledgeError:
        release = None
    return (release.cmake_min, release.cmake_below) if release else ("3.27", "")


def _check_ninja(s: HostFacts, profile: Profile | None) -> check_result.CheckResult:
    if s.ninja is None:
        return check_result.report_unchecked("ninja")
    build_version = f"the build brings its own (>={_REQUIRED_NINJA})"
    if not s.ninja.path:
        return check_result.report_ok("ninja", f"none here; {build_version}")
    message = f"{s.ninja.version} at {s.ninja.path}"
    version = parse_tool_version(s.ninja.version)
    if version is None or version >= _REQUIRED_NINJA:
        return check_result.report_ok("ninja", message)
    reason = (
        "1.11.1 loops and 1.13.0 breaks long link commands"
        if s.host.system == "windows"
        else "before 1.13 it knows no jobserver, so memory cannot govern it"
    )
    if is_in_build_folder(s.ninja.path, profile):
        return check_result.report_warning(
            "ninja", f"{message}: {reason}", _format_reinstall_command()
        )
    return check_result.report_ok("ninja", f"{message}; {build_version}")


def is_in_build_folder(path: str, profile: Profile | None) -> bool:
    """Return True if the program is in the build environment."""
    if profile is None:
        return False
    build = profile.layout.build
    return type(build)(path).is_relative_to(build)


def _format_reinstall_command() -> str:
    return check_result.format_command(
        "doit clean deps && doit deps", "install the build tools again:"
    )


def parse_tool_version(text: str) -> Version | None:
    """Return the version, None if the text is not a valid one: tools print various texts."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


INSTALL_COMPILER = {"windows": MSVC_INSTALL_COMMAND, "macos": "xcode-select --install"}
_WINDOWS_CHECKS: tuple[CheckId, ...] = ("visual-studio", "windows-sdk")
_NOT_NEEDED = "not needed: nothing is compiled"


def check_compilers(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check compiler, visual-studio and windows-sdk."""
    windows = s.host.system == "windows"
    if profile and not profile.choice.needs_compiler:
        yield check_result.report_ok("compiler", _NOT_NEEDED)
        yield from (
            check_result.report_ok(check, _NOT_NEEDED) for check in _WINDOWS_CHECKS if windows
        )
        return
    yield _check_compiler(s, knowledge)
    if windows:
        yield _check_visual_studio(s)
        yield _check_windows_sdk(s)


def _check_compiler(s: HostFacts, knowledge: Knowledge) -> check_result.CheckResult:
    if s.cxx is None:
        return check_result.report_unchecked("compiler")
    if not s.cxx.path:
        install_command = INSTALL_COMPILER.get(s.host.system)
        hint = (
            check_result.format_command(install_command)
            if install_command
            else check_result.format_install_hint(knowledge, s, "compiler")
        )
        message = s.cxx.why or "there is no C++ compiler here"
        return check_result.report_problem("compiler", message, s.cxx.todo or hint)
    reason = f": {s.cxx.why}" if s.cxx.why else ""
    return check_result.report_ok("compiler", f"{s.cxx.version} at {s.cxx.path}{reason}")


def _check_visual_studio(s: HostFacts) -> check_result.CheckResult:
    if s.visual_studio is None:
        return check_result.report_unchecked("visual-studio", "vswhere could not be asked")
    usable = [studio for studio in s.visual_studio if studio.tools]
    if usable:
        studio_list = "; ".join(
            f"{studio.name} {studio.version}, C++ {studio.tools}" for studio in usable
        )
        return check_result.report_ok("visual-studio", studio_list)
    hint = check_result.format_command(INSTALL_COMPILER["windows"])
    if s.visual_studio:
        incomplete = s.visual_studio[0]
        message = f"{incomplete.name} {incomplete.version} lacks the workload for C++"
        return check_result.report_problem(
            "visual-studio", message, _format_modify_command(incomplete.folder)
        )
    if s.cxx and s.cxx.path:
        message = "vswhere knows none; the compiler is that of this prompt"
        return check_result.report_warning(
            "visual-studio", message, f"for builds outside of this prompt:\n{hint}"
        )
    return check_result.report_problem("visual-studio", "there is none with the C++ tools", hint)


def _format_modify_command(folder: str) -> str:
    setup = r'"%ProgramFiles(x86)%\Microsoft Visual Studio\Installer\setup.exe"'
    options = "--add Microsoft.VisualStudio.Workload.VCTools --includeRecommended --passive"
    return check_result.format_command(
        f'{setup} modify --installPath "{folder}" {options}', "in cmd:"
    )


def _check_windows_sdk(s: HostFacts) -> check_result.CheckResult:
    if s.windows_sdk is None:
        return check_result.report_unchecked("windows-sdk")
    if s.windows_sdk:
        return check_result.report_ok("windows-sdk", ", ".join(s.windows_sdk))
    hint = check_result.format_command(
        INSTALL_COMPILER["windows"], "it comes with the recommended parts:"
    )
    return check_result.report_problem(
        "windows-sdk", "none: windows.h and the libraries of C are in it", hint
    )
