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
from tasks.wheels.files.distinfo import SIGNATURES, put
from tasks.wheels.files.recordfile import Row

_VERSION = re.compile(rb"^Version:[ \t]*(\S+)[ \t]*$", re.MULTILINE)


def relabel(wheel: Path, label: str) -> Path:
    """In place of `wheel`, and beside it, one whose version ends in `label` ("torch2.15.0.cpu").

    A local part that the project gave itself stays before it. Raises `BadArtifactError` where it is
    no wheel.
    """
    with wheelfile.opened(wheel) as archive:
        place = wheelfile.described(archive, "METADATA")
        metadata = archive.read(place)
        before = _VERSION.search(metadata)
        if not before:
            raise wheelfile.changed(place, wheel)
        version = labelled(before[1].decode(), label)
        told = metadata[: before.start(1)] + version.encode() + metadata[before.end(1) :]
        labelled_wheel = wheel.with_name(_renamed(wheel.name, 1, version))
        _write(archive, labelled_wheel, version, {place: told})
    wheel.unlink()
    return labelled_wheel


def labelled(version: str, label: str) -> str:
    """`1.6.3` and `torch2.15.0.cpu` → `1.6.3+torch2.15.0.cpu`. Pure."""
    found = Version(version)
    return f"{found.public}+{found.local}.{label}" if found.local else f"{found.public}+{label}"


def _renamed(name: str, place: int, version: str) -> str:
    """`name` with the part between two hyphens that is a version put in: of a wheel's file name."""
    parts = name.split("-")
    return "-".join([*parts[:place], version, *parts[place + 1 :]])


def _write(
    archive: zipfile.ZipFile, wheel: Path, version: str, changed: Mapping[str, bytes]
) -> None:
    new: list[Row] = []
    listing = wheelfile.described(archive, "RECORD")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for member in archive.infolist():
            name = _moved(member.filename, version)
            if member.filename in changed:
                new.append(put(out, member, name, changed[member.filename]))
            elif member.filename == listing:
                record = member
            elif not name.endswith(SIGNATURES) and not repack.take(
                out, _as(member, name), archive, member
            ):
                raise wheelfile.changed(member.filename, wheel)
        listed = recordfile.rows(archive.read(record).decode("utf-8"))
        kept = [
            row._replace(path=_moved(row.path, version))
            for row in listed
            if row.path not in changed and not row.path.endswith(SIGNATURES)
        ]
        text = recordfile.text([*kept, *new], "\n")
        put(out, record, _moved(record.filename, version), text.encode())


def _moved(path: str, version: str) -> str:
    """Where it lies now: `name-1.0.dist-info/…` and `name-1.0.data/…` are called after the
    version.
    """
    folder, slash, rest = path.partition("/")
    for ending in (".dist-info", ".data"):
        if slash and folder.endswith(ending):
            return f"{folder.partition('-')[0]}-{version}{ending}/{rest}"
    return path


def _as(member: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo:
    other = copy.copy(member)
    other.filename = name
    return other
