"""git, uv, compilers, CMake, Ninja, setuptools; on Windows what vswhere and the registry know."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.core.errors import MissingToolError
from tasks.doctor.host_facts import ProbeRequest, Tool, VisualStudio
from tasks.settings.workers import DISTRIBUTOR_PROGRAMS
from tasks.system.hardware import compilers, visualstudio
from tasks.system.python import environments
from tasks.system.python.frozen import find_site_folder

_TOOLSET = "VC/Auxiliary/Build/Microsoft.VCToolsVersion.default.txt"


def read_tool_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`git`, `uv`, `cc`, `cxx`, `cmake`, `ninja`, `setuptools`, `hands_on`,
    `visual_studio`, `windows_sdk`.
    """
    found: dict[str, Any] = {}
    if "uv" in wanted:
        found["uv"] = Tool(environments.find_uv() or "")
    if "git" in wanted:
        found["git"] = _find_tool("git")
    found |= _find_distribution_tool(asked, wanted)
    if wanted & {"compiler", "known-bad", "torch-checks"}:
        found["cc"], found["cxx"] = _find_compilers(asked)
    if "cmake" in wanted:
        found["cmake"] = _find_build_tool(asked.venv, "cmake")
        found["setuptools"] = _find_setuptools(asked.venv)
    if "ninja" in wanted:
        found["ninja"] = _find_build_tool(asked.venv, "ninja")
    if asked.host.system == "windows" and "visual-studio" in wanted:
        found["visual_studio"] = find_visual_studios()
    if asked.host.system == "windows" and "windows-sdk" in wanted:
        found["windows_sdk"] = list_windows_sdks(_find_windows_kits())
    return found


def _find_distribution_tool(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Tool]:
    kind = asked.workers.kind
    if kind == "off" or "workers" not in wanted:
        return {}
    return {"hands_on": Tool(shutil.which(DISTRIBUTOR_PROGRAMS[kind]) or "")}


def _find_tool(name: str) -> Tool:
    found = compilers.find_program(name)
    return Tool(found.path, found.version) if found else Tool()


def _find_compilers(asked: ProbeRequest) -> tuple[Tool, Tool]:
    try:
        found = compilers.choose_compilers((asked.cc, asked.cxx), asked.limits)
    except MissingToolError as error:
        missing = Tool(why=error.message, todo=error.hint)
        return missing, missing
    cc, cxx = found.cc, found.cxx
    return Tool(cc.path, cc.version), Tool(cxx.path, cxx.version, why=found.why)


def _find_build_tool(venv: PurePath | None, name: str) -> Tool:
    """That of the build environment, else the one on PATH."""
    if venv:
        within = environments.build_program_path(environments.find_scripts_folder(venv), name)
        if within.is_file():
            return _find_tool(str(within))
    return _find_tool(name)


def _find_setuptools(venv: PurePath | None) -> Tool:
    for found in find_site_folder(venv).glob("setuptools-*.dist-info") if venv else ():
        return Tool(str(found), found.name.split("-")[1].removesuffix(".dist"))
    return Tool()


def find_visual_studios() -> tuple[VisualStudio, ...] | None:
    """Every installation with the toolset that it takes by itself; None where vswhere is not to be
    had.
    """
    rows = visualstudio.run_vswhere("-all", "-prerelease")
    return None if rows is None else tuple(_parse_installations(rows))


def _parse_installations(rows: Any) -> Iterator[VisualStudio]:
    for row in rows:
        name, version, folder = visualstudio.parse_vswhere_row(row)
        yield VisualStudio(
            name, version, folder, tools=_read_toolset_version(Path(folder) / _TOOLSET)
        )


def _read_toolset_version(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig").strip()
    except OSError:
        return ""


def list_windows_sdks(kits: Path | None) -> tuple[str, ...]:
    """The versions that have windows.h, ascending."""
    headers = kits.glob("Include/10.*/um/Windows.h") if kits else ()
    return tuple(sorted(header.parent.parent.name for header in headers))


def _find_windows_kits() -> Path | None:
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
