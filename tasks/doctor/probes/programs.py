"""git, uv, compilers, CMake, Ninja, setuptools; on Windows what vswhere and the registry know."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.core.errors import MissingToolError
from tasks.doctor.host_facts import Asked, Tool, VisualStudio
from tasks.settings.workers import PROGRAMS
from tasks.system.hardware import compilers, visualstudio
from tasks.system.python import environments
from tasks.system.python.frozen import site_of

_TOOLSET = "VC/Auxiliary/Build/Microsoft.VCToolsVersion.default.txt"


def look(asked: Asked, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`git`, `uv`, `cc`, `cxx`, `cmake`, `ninja`, `setuptools`, `hands_on`,
    `visual_studio`, `windows_sdk`.
    """
    found: dict[str, Any] = {}
    if "uv" in wanted:
        found["uv"] = Tool(environments.find_uv() or "")
    if "git" in wanted:
        found["git"] = _tool("git")
    found |= _handing_on(asked, wanted)
    if wanted & {"compiler", "known-bad", "torch-checks"}:
        found["cc"], found["cxx"] = _compilers(asked)
    if "cmake" in wanted:
        found["cmake"] = _of_the_build(asked.venv, "cmake")
        found["setuptools"] = _setuptools(asked.venv)
    if "ninja" in wanted:
        found["ninja"] = _of_the_build(asked.venv, "ninja")
    if asked.host.system == "windows" and "visual-studio" in wanted:
        found["visual_studio"] = visual_studio()
    if asked.host.system == "windows" and "windows-sdk" in wanted:
        found["windows_sdk"] = windows_sdk(_kits())
    return found


def _handing_on(asked: Asked, wanted: frozenset[CheckId]) -> dict[str, Tool]:
    kind = asked.workers.kind
    if kind == "off" or "workers" not in wanted:
        return {}
    return {"hands_on": Tool(shutil.which(PROGRAMS[kind]) or "")}


def _tool(name: str) -> Tool:
    found = compilers.program(name)
    return Tool(found.path, found.version) if found else Tool()


def _compilers(asked: Asked) -> tuple[Tool, Tool]:
    try:
        found = compilers.choose((asked.cc, asked.cxx), asked.limits)
    except MissingToolError as error:
        missing = Tool(why=error.what, todo=error.todo)
        return missing, missing
    cc, cxx = found.cc, found.cxx
    return Tool(cc.path, cc.version), Tool(cxx.path, cxx.version, why=found.why)


def _of_the_build(venv: PurePath | None, name: str) -> Tool:
    """That of the build environment, else the one on PATH."""
    if venv:
        within = environments.program_in(environments.scripts_folder(venv), name)
        if within.is_file():
            return _tool(str(within))
    return _tool(name)


def _setuptools(venv: PurePath | None) -> Tool:
    for found in site_of(venv).glob("setuptools-*.dist-info") if venv else ():
        return Tool(str(found), found.name.split("-")[1].removesuffix(".dist"))
    return Tool()


def visual_studio() -> tuple[VisualStudio, ...] | None:
    """Every installation with the toolset that it takes by itself; None where vswhere is not to be
    had.
    """
    rows = visualstudio.ask("-all", "-prerelease")
    return None if rows is None else tuple(_installations(rows))


def _installations(rows: Any) -> Iterator[VisualStudio]:
    for row in rows:
        name, version, folder = visualstudio.named(row)
        yield VisualStudio(name, version, folder, tools=_read(Path(folder) / _TOOLSET))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig").strip()
    except OSError:
        return ""


def windows_sdk(kits: Path | None) -> tuple[str, ...]:
    """The versions that have windows.h, ascending."""
    headers = kits.glob("Include/10.*/um/Windows.h") if kits else ()
    return tuple(sorted(header.parent.parent.name for header in headers))


def _kits() -> Path | None:
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415 - there on Windows alone

        key = r"SOFTWARE\Microsoft\Windows Kits\Installed Roots"
        view = winreg.KEY_READ | winreg.KEY_WOW64_32KEY
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key, 0, view) as opened:
                return Path(winreg.QueryValueEx(opened, "KitsRoot10")[0])
        except OSError:
            return None
    return None
