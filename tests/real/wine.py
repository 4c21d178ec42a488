"""Windows as far as Wine has it: cmd.exe and a Python for Windows, inside the Debian root."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

from tests.real.debian import VENV, Debian
from tests.support.yard import ROOT

HOME = PurePosixPath("/src/wine")
SITE = HOME / "site"
_TESTS = (
    "hypothesis",
    "jsonschema",
    "ninja",
    "pytest",
    "pytest-mock",
    "colorama",
    "tree-sitter",
    "tree-sitter-powershell",
)
_TARGET = ("--platform", "win_amd64", "--python-version", "3.12", "--only-binary", ":all:")
# no debugger that waits for somebody to look, and nothing that asks to be downloaded
_QUIET = {
    "WINEDEBUG": "-all",
    "WINEDLLOVERRIDES": "winedbg.exe=;mscoree=;mshtml=",
    "XDG_RUNTIME_DIR": "/tmp",
}


class Wine:
    """Programs for Windows in a Wine of their own; the root's disk is drive Z."""

    def __init__(self, debian: Debian) -> None:
        self.debian = debian

    def prepare(self) -> None:
        """Wine, its folder, and what torchyard and its tests need as packages for Windows."""
        self.debian.script("wine")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        wanted = [*project["dependencies"], *_TESTS]
        stamp = self.debian.outside(HOME / "packages")
        if not stamp.is_file() or stamp.read_text() != "\n".join(wanted):
            shutil.rmtree(self.debian.outside(SITE), ignore_errors=True)
            into = ("--quiet", "--target", str(SITE))
            self.debian.must(f"{VENV}/bin/pip", "install", *into, *_TARGET, *wanted)
            stamp.write_text("\n".join(wanted))
        self.cmd("/c", "ver")  # makes the folder that Wine keeps a machine in

    def cmd(
        self, *argv: str, at: PurePosixPath = HOME, env: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """cmd.exe: its exit code, and all that it printed."""
        return self.run(("cmd", *argv), at, env)

    def python(
        self, *argv: str, at: PurePosixPath = HOME, env: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """The Python for Windows, which finds torchyard's packages."""
        found = {
            "PYTHONPATH": windows(SITE),
            "WINEPATH": windows(SITE / "bin"),  # what Wine puts before its PATH: ninja.exe, uv.exe
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return self.run((str(HOME / "python" / "python.exe"), *argv), at, {**found, **(env or {})})

    def run(
        self, argv: Sequence[str], at: PurePosixPath, env: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """A program for Windows, with nothing to read."""
        ours = {"WINEPREFIX": str(HOME / "prefix"), **_QUIET}
        with self.debian.start(("wine", *argv), at, {**ours, **(env or {})}, text=False) as child:
            out, _ = child.communicate(timeout=900)
        return child.returncode, out

    def folder(self, name: str) -> Path:
        """An empty folder for a test, as it is called out here."""
        made = self.debian.outside(self.inside(name))
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        return made

    def inside(self, name: str) -> PurePosixPath:
        """That folder, as it is called in the root."""
        return HOME / "tests" / name


def windows(path: PurePosixPath) -> str:
    """A path of the root as programs for Windows have it."""
    return str(PureWindowsPath("Z:/", *path.parts[1:]))
