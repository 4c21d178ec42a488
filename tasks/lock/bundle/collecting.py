"""Packages into the folder of a bundle: those that are here by copying, the others by pip, which
asks the index and takes the locked files alone. What arrived before a connection broke stays.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import BadArtifactError
from tasks.core.model import Locked
from tasks.system import files
from tasks.system.network import indexclient, indexes
from tasks.system.python.packages import with_digests


@dataclass(frozen=True)
class Shelf:
    """The folder of wheels and sdists, filled for the interpreter `python`."""

    folder: Path
    python: str
    scratch: PurePath
    log: PurePath

    def copy(self, file: Path, sha256: str) -> None:
        """A file that is here. `BadArtifactError` where it is not that any more."""
        target = self.folder / file.name
        if target.is_file() and files.artifact(target).sha256 == sha256:
            return
        if not file.is_file() or files.artifact(file).sha256 != sha256:
            raise BadArtifactError(
                f"{file.name} is not here any more as it was built with",
                where=str(file),
                todo="doit clean, doit build, and the same command again",
            )
        arriving = target.with_name(f"{target.name}.part")
        shutil.copyfile(file, arriving)
        files.move(arriving, target)

    def download(self, locked: Locked, index: str = "") -> None:
        """Those of an index; pip fetches no file that is here."""
        if not locked:
            return
        listed = self.scratch / "bundle.txt"
        files.write_atomic(listed, with_digests(locked))
        argv = (self.python, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps")
        options = ("--require-hashes", "--progress-bar", "off", "-d", str(self.folder))
        command = (*argv, *options, *indexes.beside(index), "-r", str(listed))
        indexclient.run(command, "fetch the packages", self.log)

    def keep_only(self, digests: set[str]) -> None:
        """What an earlier attempt left goes."""
        for path in self.folder.iterdir():
            if files.artifact(path).sha256 not in digests:
                path.unlink()
