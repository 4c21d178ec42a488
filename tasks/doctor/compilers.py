"""Compilers, and on Windows what they come with: asked for where something is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.check_ids import CheckId
from tasks.doctor.symptom import (
    CheckResult,
    format_command,
    format_install_hint,
    report_ok,
    report_problem,
    report_unchecked,
    report_warning,
)
from tasks.knowledge.hostcompilers import MSVC_INSTALL_COMMAND

if TYPE_CHECKING:
    from tasks.doctor.host_facts import HostFacts
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

INSTALL_COMPILER = {"windows": MSVC_INSTALL_COMMAND, "macos": "xcode-select --install"}
_WINDOWS_CHECKS: tuple[CheckId, ...] = ("visual-studio", "windows-sdk")
_NOT_NEEDED = "not needed: nothing is compiled"


def check_compilers(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[CheckResult]:
    """compiler, visual-studio, windows-sdk."""
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
    if not s.cxx.path:
        own = INSTALL_COMPILER.get(s.host.system)
        todo = format_command(own) if own else format_install_hint(knowledge, s, "compiler")
        seen = s.cxx.why or "there is no C++ compiler here"
        return report_problem("compiler", seen, s.cxx.todo or todo)
    why = f": {s.cxx.why}" if s.cxx.why else ""
    return report_ok("compiler", f"{s.cxx.version} at {s.cxx.path}{why}")


def _check_visual_studio(s: HostFacts) -> CheckResult:
    if s.visual_studio is None:
        return report_unchecked("visual-studio", "vswhere could not be asked")
    usable = [found for found in s.visual_studio if found.tools]
    if usable:
        named = "; ".join(f"{found.name} {found.version}, C++ {found.tools}" for found in usable)
        return report_ok("visual-studio", named)
    todo = format_command(INSTALL_COMPILER["windows"])
    if s.visual_studio:
        lacking = s.visual_studio[0]
        seen = f"{lacking.name} {lacking.version} lacks the workload for C++"
        return report_problem("visual-studio", seen, _format_modify_command(lacking.folder))
    if s.cxx and s.cxx.path:
        seen = "vswhere knows none; the compiler is that of this prompt"
        return report_warning("visual-studio", seen, f"for builds outside of this prompt:\n{todo}")
    return report_problem("visual-studio", "there is none with the C++ tools", todo)


def _format_modify_command(folder: str) -> str:
    setup = r'"%ProgramFiles(x86)%\Microsoft Visual Studio\Installer\setup.exe"'
    options = "--add Microsoft.VisualStudio.Workload.VCTools --includeRecommended --passive"
    return format_command(f'{setup} modify --installPath "{folder}" {options}', "in cmd:")


def _check_windows_sdk(s: HostFacts) -> CheckResult:
    if s.windows_sdk is None:
        return report_unchecked("windows-sdk")
    if s.windows_sdk:
        return report_ok("windows-sdk", ", ".join(s.windows_sdk))
    todo = format_command(INSTALL_COMPILER["windows"], "it comes with the recommended parts:")
    return report_problem("windows-sdk", "none: windows.h and the libraries of C are in it", todo)
