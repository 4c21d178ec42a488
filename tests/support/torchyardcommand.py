"""The command `torchyard` with the code of this checkout, for a project outside of it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.snippets import ROOT

_CODE = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from torchyard.__main__ import main; main()"
)
# As the installed program does, it puts neither the current folder nor this checkout on the path
ARGV = (sys.executable, "-P", "-c", _CODE, str(ROOT / "src"))


def make_command(folder: Path) -> None:
    """Write the program `torchyard` into a folder for PATH."""
    folder.mkdir()
    program = folder / "torchyard"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(ARGV)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)


def torchyard(root: Path, *arguments: str, offline: str = "") -> str:
    """Return the output of a command that has to succeed, in the project `root`."""
    env = {
        **({"TORCHYARD__OFFLINE": offline} if offline else {}),
        **os.environ,
        "CI": "true",
        "TORCHYARD__BUILD__CACHE": "off",
        "TORCHYARD_CACHE_DIR": str(root.with_name("cache")),
        "TORCHYARD_CONFIG_DIR": str(root.with_name("config")),
    }
    argv = [*ARGV, "-C", str(root), *arguments]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
