"""A wheel with more files in its dist-info: all else stays as it is, compressed bytes included."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from tasks.system import files
from tasks.wheels.files import distinfo, repack, wheelfile


def add_dist_info_files(wheel: Path, added: Mapping[str, bytes]) -> None:
    """Put `added`, named within dist-info, into `wheel` where it lies, all or nothing. Raises
    `BadArtifactError` where it is no wheel.
    """
    packed = wheel.with_name(f".{wheel.name}.part")
    with (
        wheelfile.open_wheel(wheel) as archive,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out,
    ):
        gone = distinfo.list_replaced_members(archive, added)
        for member in archive.infolist():
            if member.filename not in gone and not repack.copy_raw_member(
                out, member, archive, member
            ):
                raise wheelfile.build_member_error(member.filename, wheel)
        distinfo.write_dist_info(out, archive, added)
    files.replace_path(packed, wheel)
