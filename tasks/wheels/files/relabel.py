"""A wheel under a version with another local part: what it was built against stands in its name.

Its files stay as they are, compressed bytes included; the folders that are called after the
version, METADATA and RECORD tell the new one. Formats:
https://packaging.python.org/specifications/binary-distribution-format/, local versions:
https://packaging.python.org/specifications/version-specifiers/#local-version-identifiers.
"""

from __future__ import annotations

import copy
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from packaging.version import Version

from tasks.wheels.files import recordfile, repack, wheelfile
from tasks.wheels.files.distinfo import SIGNATURE_FILES, write_member
from tasks.wheels.files.recordfile import RecordRow

_VERSION_LINE = re.compile(rb"^Version:[ \t]*(\S+)[ \t]*$", re.MULTILINE)


def relabel_wheel(wheel: Path, label: str) -> Path:
    """In place of `wheel`, and beside it, one whose version ends in `label` ("torch2.15.0.cpu").

    A local part that the project gave itself stays before it. Raises `BadArtifactError` where it is
    no wheel.
    """
    with wheelfile.open_wheel(wheel) as archive:
        place = wheelfile.find_dist_info_file(archive, "METADATA")
        metadata = archive.read(place)
        before = _VERSION_LINE.search(metadata)
        if not before:
            raise wheelfile.build_member_error(place, wheel)
        version = append_version_label(before[1].decode(), label)
        told = metadata[: before.start(1)] + version.encode() + metadata[before.end(1) :]
        labelled_wheel = wheel.with_name(_replace_name_part(wheel.name, 1, version))
        _write_relabelled(archive, labelled_wheel, version, {place: told})
    wheel.unlink()
    return labelled_wheel


def append_version_label(version: str, label: str) -> str:
    """`1.6.3` and `torch2.15.0.cpu` → `1.6.3+torch2.15.0.cpu`. Pure."""
    found = Version(version)
    return f"{found.public}+{found.local}.{label}" if found.local else f"{found.public}+{label}"


def _replace_name_part(name: str, place: int, version: str) -> str:
    """`name` with the part between two hyphens that is a version put in: of a wheel's file name."""
    parts = name.split("-")
    return "-".join([*parts[:place], version, *parts[place + 1 :]])


def _write_relabelled(
    archive: zipfile.ZipFile, wheel: Path, version: str, changed: Mapping[str, bytes]
) -> None:
    new: list[RecordRow] = []
    listing = wheelfile.find_dist_info_file(archive, "RECORD")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for member in archive.infolist():
            name = _rename_member(member.filename, version)
            if member.filename in changed:
                new.append(write_member(out, member, name, changed[member.filename]))
            elif member.filename == listing:
                record = member
            elif not name.endswith(SIGNATURE_FILES) and not repack.copy_raw_member(
                out, _copy_member_info(member, name), archive, member
            ):
                raise wheelfile.build_member_error(member.filename, wheel)
        listed = recordfile.parse_record(archive.read(record).decode("utf-8"))
        kept = [
            row._replace(path=_rename_member(row.path, version))
            for row in listed
            if row.path not in changed and not row.path.endswith(SIGNATURE_FILES)
        ]
        text = recordfile.format_record([*kept, *new], "\n")
        write_member(out, record, _rename_member(record.filename, version), text.encode())


def _rename_member(path: str, version: str) -> str:
    """Where it lies now: `name-1.0.dist-info/…` and `name-1.0.data/…` are called after the
    version.
    """
    folder, slash, rest = path.partition("/")
    for ending in (".dist-info", ".data"):
        if slash and folder.endswith(ending):
            return f"{folder.partition('-')[0]}-{version}{ending}/{rest}"
    return path


def _copy_member_info(member: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo:
    other = copy.copy(member)
    other.filename = name
    return other
