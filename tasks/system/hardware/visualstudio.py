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

from tasks.core.deps_model import Limits, Program
from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command
from tasks.knowledge.hostcompilers import INSTALL_MSVC, HostCompiler, refusal
from tasks.knowledge.versions import every_number, major_minor
from tasks.system import shell

REQUIRED = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
_TOOLSETS = ("VC", "Tools", "MSVC")
_CL = Path("bin", "Hostx64", "x64", "cl.exe")
_PATIENCE = 10.0  # seconds


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
        return str(Path(self.path, *_TOOLSETS, toolset) / _CL)

    @property
    def vcvarsall(self) -> str:
        """The path of the script that makes the environment of a toolset."""
        return str(Path(self.path, "VC", "Auxiliary", "Build", "vcvarsall.bat"))


@dataclass(frozen=True)
class Taken:
    """The compiler, whose version is that of its toolset, and the installation it is of. `why` is a
    sentence where it is not the usual one.
    """

    cl: Program
    installation: Installation
    why: str = ""

    @property
    def named(self) -> str:
        """What sets it up, without what a servicing moves where no compiler does."""
        of, release = self.installation, major_minor(self.installation.version)
        return f"vcvarsall x64 of {of.name} {release}, toolset {major_minor(self.cl.version)}"


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
    return tuple(sorted(here, key=lambda item: every_number(item.version), reverse=True))


def choose(limits: Limits) -> Taken:
    """The newest toolset of the newest installation that has one which the toolkit takes; that of
    the developer prompt that this runs in, where it is one of them.

    Raises `MissingToolError` where there is none.
    """
    here = found()
    prompt = _of_prompt(here)
    usual = [_Toolset(item, toolset) for item in here for toolset in item.toolsets]
    every = [*prompt, *usual]
    if not every:
        raise MissingToolError("there is no C++ compiler here", todo=INSTALL_MSVC)
    fit = next((one for one in every if not one.refused(limits)), None)
    against = every[0].refused(limits)
    if fit is None:
        raise MissingToolError(against, where=every[0].of.path, todo=_add(limits))
    plain = next((one for one in usual if not one.refused(limits)), fit)
    if fit in prompt and (fit.of.path, fit.version) != (plain.of.path, plain.version):
        against = "this is its developer prompt"
    return fit.taken(against)


@dataclass(frozen=True)
class _Toolset:
    """One that could be taken; `name` is what messages call it."""

    of: Installation
    version: str
    name: str = ""

    def refused(self, limits: Limits) -> str:
        name = self.name or f"{self.of.name} {self.of.version}"
        return refusal(limits, HostCompiler(name, "msvc", self.version))

    def taken(self, why: str) -> Taken:
        used = f"{self.of.name} {self.of.version} with toolset {self.version} is used"
        cl = Program(self.of.cl(self.version), self.version)
        return Taken(cl, self.of, f"{why}: {used}" if why else "")


def _of_prompt(here: tuple[Installation, ...]) -> list[_Toolset]:
    """The toolset that is set up in the developer prompt that this runs in, then the others of its
    installation, which vswhere need not know. A prompt for 32 bits has compilers for x64 as well.
    """
    folder = os.environ.get("VSINSTALLDIR", "")
    if not folder:
        return []
    version = os.environ.get("VSCMD_VER", "")
    own = Installation("Visual Studio", version, folder, _toolsets(Path(folder, *_TOOLSETS)))
    own = next((item for item in here if Path(item.path) == Path(folder)), own)
    first = os.environ.get("VCTOOLSVERSION", "")
    others = [_Toolset(own, toolset) for toolset in own.toolsets if toolset != first]
    name = "the compiler of this developer prompt"
    return [_Toolset(own, first, name), *others] if first in own.toolsets else others


def _add(limits: Limits) -> str:
    below = limits.msvc[1] - 1901 if limits.msvc else 0
    return (
        f"Visual Studio Installer → Modify → Individual components → MSVC build tools up to "
        f"v14.{below}, or choose a newer toolkit.version"
    )


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
    return Installation(name, version, path, _toolsets(Path(path, *_TOOLSETS)))


def _toolsets(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        return ()
    names = [entry.name for entry in folder.iterdir() if (entry / _CL).is_file()]
    return tuple(sorted(names, key=every_number, reverse=True))
