"""Files made ready beside the place where they are to go, each with its row for RECORD; then they
only have to be renamed.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePath

from tasks.system import files
from tasks.wheels.files import recordfile, wheelfile
from tasks.wheels.files.recordfile import RecordRow


class StagedFiles:
    """Files by the path that RECORD has for them, under numbers in a folder of ours."""

    def __init__(self, folder: PurePath) -> None:
        files.remove_owned(folder)
        self.folder = files.create_owned_folder(folder)
        self.rows: dict[str, RecordRow] = {}
        self._places: dict[str, Path] = {}

    def unpack_members(self, wheel: zipfile.ZipFile, names: Iterable[str]) -> None:
        """Take members out of a wheel, with the modes that uv and pip give them: the umask's, and
        whatever was executable is.
        """
        recorded = wheelfile.read_record(wheel)
        for name in names:
            member, place = wheel.getinfo(name), self._reserve_path(name)
            with wheel.open(member) as source, place.open("xb") as target:
                digest = wheelfile.copy_and_hash(source, target)
            if digest != recorded[name]:
                raise wheelfile.build_member_error(name, PurePath(wheel.filename or ""))
            if member.external_attr >> 16 & 0o111:
                place.chmod(place.stat().st_mode | 0o111)
            self.rows[name] = RecordRow(name, digest, str(member.file_size))

    def write_file(self, name: str, data: bytes) -> None:
        """Make a file of `data`; one of that name that is not placed yet is forgotten."""
        place = self._reserve_path(name)
        place.write_bytes(data)
        digest = recordfile.encode_digest(hashlib.sha256(data).digest())
        self.rows[name] = RecordRow(name, digest, str(len(data)))

    def move_into_place(self, name: str, target: Path) -> None:
        """Move a file to `target`, over what lies there."""
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self._places[name], target)  # noqa: PTH105 - the one call a test cuts off

    def _reserve_path(self, name: str) -> Path:
        place = self.folder / f"{len(self._places)}"
        self._places[name] = place
        return place
