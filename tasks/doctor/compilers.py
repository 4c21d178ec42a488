"""Compilers, and on Windows what they come with: asked for where something is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.check_ids import CheckId
from tasks.doctor.symptom import Symptom, command, install, ok, problem, unchecked, warning
from tasks.knowledge.hostcompilers import INSTALL_MSVC

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Surroundings
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

INSTALL_COMPILER = {"windows": INSTALL_MSVC, "macos": "xcode-select --install"}
_BESIDE: tuple[CheckId, ...] = ("visual-studio", "windows-sdk")
_NOT_NEEDED = "not needed: nothing is compiled"


def judge(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """compiler, visual-studio, windows-sdk."""
    windows = s.host.system == "windows"
    if profile and not profile.choice.compiles:
        yield ok("compiler", _NOT_NEEDED)
        yield from (ok(check, _NOT_NEEDED) for check in _BESIDE if windows)
        return
    yield _compiler(s, knowledge)
    if windows:
        yield _visual_studio(s)
        yield _windows_sdk(s)


def _compiler(s: Surroundings, knowledge: Knowledge) -> Symptom:
    if s.cxx is None:
        return unchecked("compiler")
    if not s.cxx.path:
        own = INSTALL_COMPILER.get(s.host.system)
        todo = command(own) if own else install(knowledge, s, "compiler")
        seen = s.cxx.why or "there is no C++ compiler here"
        return problem("compiler", seen, s.cxx.todo or todo)
    why = f": {s.cxx.why}" if s.cxx.why else ""
    return ok("compiler", f"{s.cxx.version} at {s.cxx.path}{why}")


def _visual_studio(s: Surroundings) -> Symptom:
    if s.visual_studio is None:
        return unchecked("visual-studio", "vswhere could not be asked")
    usable = [found for found in s.visual_studio if found.tools]
    if usable:
        named = "; ".join(f"{found.name} {found.version}, C++ {found.tools}" for found in usable)
        return ok("visual-studio", named)
    todo = command(INSTALL_COMPILER["windows"])
    if s.visual_studio:
        lacking = s.visual_studio[0]
        seen = f"{lacking.name} {lacking.version} lacks the workload for C++"
        return problem("visual-studio", seen, _modify(lacking.folder))
    if s.cxx and s.cxx.path:
        seen = "vswhere knows none; the compiler is that of this prompt"
        return warning("visual-studio", seen, f"for builds outside of this prompt:\n{todo}")
    return problem("visual-studio", "there is none with the C++ tools", todo)


def _modify(folder: str) -> str:
    setup = r'"%ProgramFiles(x86)%\Microsoft Visual Studio\Installer\setup.exe"'
    options = "--add Microsoft.VisualStudio.Workload.VCTools --includeRecommended --passive"
    return command(f'{setup} modify --installPath "{folder}" {options}', "in cmd:")


def _windows_sdk(s: Surroundings) -> Symptom:
    if s.windows_sdk is None:
        return unchecked("windows-sdk")
    if s.windows_sdk:
        return ok("windows-sdk", ", ".join(s.windows_sdk))
    todo = command(INSTALL_COMPILER["windows"], "it comes with the recommended parts:")
    return problem("windows-sdk", "none: windows.h and the libraries of C are in it", todo)
