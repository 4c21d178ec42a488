"""Build the wheel of torchyard, install it into an empty venv, and run the command there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tasks.system import environments
from tests.support.checkout import ROOT

_VERSION = re.compile(r'(?m)^__version__ = ".*"$')


def build_distribution(kind: str, folder: Path, source: Path = ROOT) -> Path:
    """Return the wheel or sdist of the checkout `source`, built into `folder`."""
    argv = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(argv, cwd=source, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


def set_version(source: Path, version: str) -> None:
    """Change the version of a copied checkout."""
    path = source / "tasks" / "__init__.py"
    text, count = _VERSION.subn(f'__version__ = "{version}"', path.read_text(encoding="utf-8"))
    assert count == 1
    path.write_text(text, encoding="utf-8")


class Installed:
    """A venv that has only torchyard, as `pipx install` or `uv tool install` make it."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        uv = environments.find_uv()
        assert uv
        subprocess.run([uv, "venv", "-q", "-p", sys.executable, str(folder)], check=True)
        self.folder = folder
        self.python = environments.find_venv_python(folder)
        argv = [uv, "pip", "install", "-q", "--python", str(self.python), str(wheel)]
        subprocess.run(argv, check=True)
        self.program = self.python.with_name(f"torchyard{'.exe' * (sys.platform == 'win32')}")

    def run(
        self, *argv: str, cwd: Path, env: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Return the exit code, the output and the error output of the command."""
        done = subprocess.run(
            [str(self.program), *argv],
            cwd=cwd,
            env={**os.environ, "CI": "true", **(env or {})},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def must(self, *argv: str, cwd: Path) -> str:
        """Return the output of a command that has to succeed."""
        code, out, error = self.run(*argv, cwd=cwd)
        assert code == 0, out + error
        return out
