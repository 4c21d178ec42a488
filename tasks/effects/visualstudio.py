"""The Visual Studios of this machine and their C++ toolsets, within what the CUDA toolkit takes.

An installation has the toolset of its own release, and older ones where a person added them. It
does not know which versions fit; that is a fact of config/knowledge.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.effects import shell
from tasks.errors import CommandFailedError, MissingToolError
from tasks.knowledge.hostcompilers import HostCompiler, Limits, refusal
from tasks.model import Command
from tasks.stages.deps.job import Program

REQUIRED = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
_CL = Path("bin", "Hostx64", "x64", "cl.exe")
_PATIENCE = 10.0  # seconds
_INSTALL = (
    "winget install Microsoft.VisualStudio.2022.BuildTools --override "
    f'"--passive --add Microsoft.VisualStudio.Workload.VCTools --add {REQUIRED}"'
)


@dataclass(frozen=True)
class Installation:
    """A Visual Studio, or its Build Tools, with the C++ tools for x64.

    `version` is that of the release, "17.14.36"; `toolsets` are those of MSVC that are in it, the
    newest first ("14.44.35207").
    """

    name: str
    version: str
    path: str
    toolsets: tuple[str, ...]

    def cl(self, toolset: str) -> str:
        """The path of a toolset's compiler."""
        return str(Path(self.path, "VC", "Tools", "MSVC", toolset) / _CL)


def ask(*options: str) -> list[Any] | None:
    """What vswhere tells of every edition, as its JSON is; None where it is not to be had."""
    programs = Path(os.environ.get("PROGRAMFILES(X86)", r"C:\Program Files (x86)"))
    vswhere = programs / "Microsoft Visual Studio" / "Installer" / "vswhere.exe"
    argv = (str(vswhere), "-products", "*", *options, "-format", "json", "-utf8")
    command = Command(argv, shell.host_env(), "look for Visual Studio", timeout=_PATIENCE)
    try:
        rows = json.loads(shell.capture(command) or "[]")
    except (CommandFailedError, MissingToolError, ValueError):
        return None
    return rows if isinstance(rows, list) else None


def found() -> tuple[Installation, ...]:
    """Every installation that has the C++ tools, the newest first; none where vswhere is not."""
    here = [_installation(row) for row in ask("-requires", REQUIRED) or ()]
    return tuple(sorted(here, key=lambda item: _numbers(item.version), reverse=True))


def choose(limits: Limits) -> tuple[Program, str]:
    """The compiler, and why it is not the newest one ("" where it is).

    The one of a developer prompt counts alone: setuptools takes no other. Else it is the newest
    toolset of the newest installation that has one which the toolkit takes. Raises
    `MissingToolError` where there is none.
    """
    here = found()
    if cl := shutil.which("cl"):
        return _of_prompt(cl, limits, here), ""
    fit = _fitting(here, limits)
    if not fit:
        raise _nothing_fits(here, limits)
    installation, toolset = fit
    why = _refused(here[0], here[0].toolsets[0], limits) if here[0].toolsets else ""
    taken = f"{installation.name} {installation.version} with toolset {toolset} is used"
    return Program(installation.cl(toolset), toolset), f"{why}: {taken}" if why else ""


def _of_prompt(cl: str, limits: Limits, here: tuple[Installation, ...]) -> Program:
    version = os.environ.get("VCTOOLSVERSION", "")
    why = refusal(limits, HostCompiler("the compiler of this developer prompt", "msvc", version))
    if why:
        fit = _fitting(here, limits)
        raise MissingToolError(why, todo=_prompt(*fit) if fit else _add(limits))
    return Program(cl, version)


def _fitting(here: tuple[Installation, ...], limits: Limits) -> tuple[Installation, str] | None:
    every = ((item, toolset) for item in here for toolset in item.toolsets)
    return next((pair for pair in every if not _refused(*pair, limits)), None)


def _refused(installation: Installation, toolset: str, limits: Limits) -> str:
    name = f"{installation.name} {installation.version}"
    return refusal(limits, HostCompiler(name, "msvc", toolset))


def _nothing_fits(here: tuple[Installation, ...], limits: Limits) -> MissingToolError:
    newest = next((item for item in here if item.toolsets), None)
    if not newest:
        return MissingToolError("there is no C++ compiler here", todo=_INSTALL)
    why = _refused(newest, newest.toolsets[0], limits)
    return MissingToolError(why, where=newest.path, todo=_add(limits))


def _add(limits: Limits) -> str:
    below = limits.msvc[1] - 1901 if limits.msvc else 0
    return (
        f"Visual Studio Installer → Modify → Individual components → MSVC build tools up to "
        f"v14.{below}, or choose a newer toolkit.version"
    )


def _prompt(installation: Installation, toolset: str) -> str:
    script = Path(installation.path, "VC", "Auxiliary", "Build", "vcvarsall.bat")
    minor = ".".join(toolset.split(".")[:2])
    return f'open a new prompt, and there: "{script}" x64 -vcvars_ver={minor}'


def named(row: dict[str, object]) -> tuple[str, str, str]:
    """Name, version and folder of a row of vswhere: its catalog has the version that people know,
    17.14.36.
    """
    catalog = row.get("catalog")
    shown = catalog.get("productDisplayVersion") if isinstance(catalog, dict) else ""
    version = shown or row.get("installationVersion", "")
    name, path = row.get("displayName", "Visual Studio"), row.get("installationPath", "")
    return str(name), str(version), str(path)


def _installation(row: dict[str, object]) -> Installation:
    name, version, path = named(row)
    return Installation(name, version, path, _toolsets(Path(path, "VC", "Tools", "MSVC")))


def _toolsets(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        return ()
    names = [entry.name for entry in folder.iterdir() if (entry / _CL).is_file()]
    return tuple(sorted(names, key=_numbers, reverse=True))


def _numbers(version: str) -> tuple[int, ...]:
    """Of a preview too: "18.0.0 Insiders [11116.177]"."""
    number = version.partition(" ")[0]
    return tuple(int(part) for part in number.split(".") if part.isdigit())
