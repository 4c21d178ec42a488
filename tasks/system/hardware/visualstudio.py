"""The Visual Studios of this machine and their C++ toolsets, within what the CUDA toolkit takes.

An installation has the toolset of its own release, and older ones where a person added them. It
does not know which versions fit; that is a fact of config/knowledge.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.core.deps_model import CompilerLimits, Program
from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command
from tasks.knowledge.hostcompilers import (
    MSVC_INSTALL_COMMAND,
    HostCompiler,
    explain_compiler_rejection,
)
from tasks.knowledge.versions import format_major_minor, parse_version_numbers
from tasks.system import shell

REQUIRED_COMPONENT = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
_TOOLSETS_FOLDER = ("VC", "Tools", "MSVC")
_CL_PATH = Path("bin", "Hostx64", "x64", "cl.exe")
_VSWHERE_TIMEOUT = 10.0  # seconds


@dataclass(frozen=True)
class VisualStudioInstallation:
    """A Visual Studio, or its Build Tools, with the C++ tools for x64.

    `version` is that of the release, "17.14.36"; `toolsets` are those of MSVC that are in it, the
    newest first ("14.44.35207").
    """

    name: str
    version: str
    path: str
    toolsets: tuple[str, ...]

    def build_cl_path(self, toolset: str) -> str:
        """The path of a toolset's compiler."""
        return str(Path(self.path, *_TOOLSETS_FOLDER, toolset) / _CL_PATH)

    @property
    def vcvarsall(self) -> str:
        """The path of the script that makes the environment of a toolset."""
        return str(Path(self.path, "VC", "Auxiliary", "Build", "vcvarsall.bat"))


@dataclass(frozen=True)
class ChosenToolset:
    """The compiler, whose version is that of its toolset, and the installation it is of. `why` is a
    sentence where it is not the usual one.
    """

    cl: Program
    installation: VisualStudioInstallation
    why: str = ""

    @property
    def setup_name(self) -> str:
        """What sets it up, without what a servicing moves where no compiler does."""
        of, release = self.installation, format_major_minor(self.installation.version)
        return (
            f"vcvarsall x64 of {of.name} {release}, toolset {format_major_minor(self.cl.version)}"
        )


def run_vswhere(*options: str) -> list[Any] | None:
    """What vswhere tells of every edition, as its JSON is; None where it is not to be had."""
    programs = Path(os.environ.get("PROGRAMFILES(X86)", r"C:\Program Files (x86)"))
    vswhere = programs / "Microsoft Visual Studio" / "Installer" / "vswhere.exe"
    argv = (str(vswhere), "-products", "*", *options, "-format", "json", "-utf8")
    command = Command(
        argv, shell.build_host_env(), "look for Visual Studio", timeout=_VSWHERE_TIMEOUT
    )
    try:
        rows = json.loads(shell.capture_output(command) or "[]")
    except (CommandFailedError, MissingToolError, ValueError):
        return None
    return rows if isinstance(rows, list) else None


def find_installations() -> tuple[VisualStudioInstallation, ...]:
    """Every installation that has the C++ tools, the newest first; none where vswhere is not."""
    here = [_build_installation(row) for row in run_vswhere("-requires", REQUIRED_COMPONENT) or ()]
    return tuple(sorted(here, key=lambda item: parse_version_numbers(item.version), reverse=True))


def choose_toolset(limits: CompilerLimits) -> ChosenToolset:
    """The newest toolset of the newest installation that has one which the toolkit takes; that of
    the developer prompt that this runs in, where it is one of them.

    Raises `MissingToolError` where there is none.
    """
    here = find_installations()
    prompt = _find_prompt_toolsets(here)
    usual = [_ToolsetCandidate(item, toolset) for item in here for toolset in item.toolsets]
    every = [*prompt, *usual]
    if not every:
        raise MissingToolError("there is no C++ compiler here", hint=MSVC_INSTALL_COMMAND)
    fit = next((one for one in every if not one.explain_refusal(limits)), None)
    against = every[0].explain_refusal(limits)
    if fit is None:
        raise MissingToolError(
            against, location=every[0].installation.path, hint=_build_install_hint(limits)
        )
    plain = next((one for one in usual if not one.explain_refusal(limits)), fit)
    if fit in prompt and (fit.installation.path, fit.version) != (
        plain.installation.path,
        plain.version,
    ):
        against = "this is its developer prompt"
    return fit.build_chosen_toolset(against)


@dataclass(frozen=True)
class _ToolsetCandidate:
    """One that could be taken; `name` is what messages call it."""

    installation: VisualStudioInstallation
    version: str
    name: str = ""

    def explain_refusal(self, limits: CompilerLimits) -> str:
        name = self.name or f"{self.installation.name} {self.installation.version}"
        return explain_compiler_rejection(limits, HostCompiler(name, "msvc", self.version))

    def build_chosen_toolset(self, why: str) -> ChosenToolset:
        used = f"{self.installation.name} {self.installation.version} with toolset {self.version} is used"
        cl = Program(self.installation.build_cl_path(self.version), self.version)
        return ChosenToolset(cl, self.installation, f"{why}: {used}" if why else "")


def _find_prompt_toolsets(here: tuple[VisualStudioInstallation, ...]) -> list[_ToolsetCandidate]:
    """The toolset that is set up in the developer prompt that this runs in, then the others of its
    installation, which vswhere need not know. A prompt for 32 bits has compilers for x64 as well.
    """
    folder = os.environ.get("VSINSTALLDIR", "")
    if not folder:
        return []
    version = os.environ.get("VSCMD_VER", "")
    own = VisualStudioInstallation(
        "Visual Studio", version, folder, _list_toolsets(Path(folder, *_TOOLSETS_FOLDER))
    )
    own = next((item for item in here if Path(item.path) == Path(folder)), own)
    first = os.environ.get("VCTOOLSVERSION", "")
    others = [_ToolsetCandidate(own, toolset) for toolset in own.toolsets if toolset != first]
    name = "the compiler of this developer prompt"
    return [_ToolsetCandidate(own, first, name), *others] if first in own.toolsets else others


def _build_install_hint(limits: CompilerLimits) -> str:
    below = limits.msvc[1] - 1901 if limits.msvc else 0
    return (
        f"Visual Studio Installer → Modify → Individual components → MSVC build tools up to "
        f"v14.{below}, or choose a newer toolkit.version"
    )


def parse_vswhere_row(row: dict[str, object]) -> tuple[str, str, str]:
    """Name, version and folder of a row of vswhere: its catalog has the version that people know,
    17.14.36.
    """
    catalog = row.get("catalog")
    shown = catalog.get("productDisplayVersion") if isinstance(catalog, dict) else ""
    version = shown or row.get("installationVersion", "")
    name, path = row.get("displayName", "Visual Studio"), row.get("installationPath", "")
    return str(name), str(version), str(path)


def _build_installation(row: dict[str, object]) -> VisualStudioInstallation:
    name, version, path = parse_vswhere_row(row)
    return VisualStudioInstallation(
        name, version, path, _list_toolsets(Path(path, *_TOOLSETS_FOLDER))
    )


def _list_toolsets(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        return ()
    names = [entry.name for entry in folder.iterdir() if (entry / _CL_PATH).is_file()]
    return tuple(sorted(names, key=parse_version_numbers, reverse=True))
