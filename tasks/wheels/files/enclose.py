"""A wheel with more files in its dist-info: all else stays as it is, compressed bytes included."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from tasks.system import files
from tasks.wheels.files import distinfo, repack, wheelfile


def enclose(wheel: Path, added: Mapping[str, bytes]) -> None:
    """Put `added`, named within dist-info, into `wheel` where it lies, all or nothing. Raises
    `BadArtifactError` where it is no wheel.
    """
    packed = wheel.with_name(f".{wheel.name}.part")
    with (
        wheelfile.opened(wheel) as archive,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out,
    ):
        gone = distinfo.replaced(archive, added)
        for member in archive.infolist():
            if member.filename not in gone and not repack.take(out, member, archive, member):
                raise wheelfile.changed(member.filename, wheel)
        distinfo.close(out, archive, added)
    files.move(packed, wheel)
