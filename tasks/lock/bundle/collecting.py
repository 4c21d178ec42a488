"""Packages into the folder of a bundle: those that are here by copying, the others by pip, which
asks the index and takes the locked files alone. What arrived before a connection broke stays.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import BadArtifactError
from tasks.core.model import LockedPackages
from tasks.system import files
from tasks.system.network import indexclient, indexes
from tasks.system.python.packages import format_hashed_requirements


@dataclass(frozen=True)
class PackageCollector:
    """The folder of wheels and sdists, filled for the interpreter `python`."""

    folder: Path
    python: str
    scratch: PurePath
    log: PurePath

    def copy_file(self, file: Path, sha256: str) -> None:
        """A file that is here. `BadArtifactError` where it is not that any more."""
        target = self.folder / file.name
        if target.is_file() and files.read_artifact(target).sha256 == sha256:
            return
        if not file.is_file() or files.read_artifact(file).sha256 != sha256:
            raise BadArtifactError(
                f"{file.name} is not here any more as it was built with",
                location=str(file),
                hint="doit clean, doit build, and the same command again",
            )
        arriving = target.with_name(f"{target.name}.part")
        shutil.copyfile(file, arriving)
        files.replace_path(arriving, target)

    def download_packages(self, locked: LockedPackages, index: str = "") -> None:
        """Those of an index; pip fetches no file that is here."""
        if not locked:
            return
        listed = self.scratch / "bundle.txt"
        files.write_atomic(listed, format_hashed_requirements(locked))
        argv = (self.python, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps")
        options = ("--require-hashes", "--progress-bar", "off", "-d", str(self.folder))
        command = (*argv, *options, *indexes.build_extra_index_options(index), "-r", str(listed))
        indexclient.run_index_client(command, "fetch the packages", self.log)

    def remove_unlisted(self, digests: set[str]) -> None:
        """What an earlier attempt left goes."""
        for path in self.folder.iterdir():
            if files.read_artifact(path).sha256 not in digests:
                path.unlink()
