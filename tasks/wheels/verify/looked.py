"""Everything that a check of a wheel asks of the disk, read once."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from tasks.core.dependencies import readable
from tasks.core.errors import BadArtifactError
from tasks.core.model import Artifact
from tasks.system import files
from tasks.system.voice import tick
from tasks.wheels.binaries import elf, manylinux, pe, windowsdlls
from tasks.wheels.binaries.codereader import Reader
from tasks.wheels.binaries.machinecode import Images
from tasks.wheels.files import wheelfile, wheelhouse
from tasks.wheels.linking.values import Dlls, Linkage
from tasks.wheels.provenance.sbom import PLACE


@dataclass(frozen=True)
class Looked:
    """A wheel as it is. `problem` is what RECORD and the members disagree in, "" where they agree;
    `sbom` and `statement` are None where there is none, {} where it cannot be read.

    `libraries` are their names; `held` has the linkage of each for Linux, `dlls` what each for
    Windows needs, `images` the machine code of each that has any, `unread` what keeps one from
    being read. `system` and `windows` are what other machines have, None where nobody here can
    tell.
    """

    artifact: Artifact
    problem: str
    name: str = ""
    version: str = ""
    requires: tuple[Requirement, ...] = ()
    sbom: Mapping[str, Any] | None = None
    statement: Mapping[str, Any] | None = None
    held: Mapping[str, Linkage] = field(default_factory=dict)
    images: Mapping[str, Images] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    system: frozenset[str] | None = None
    dlls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    windows: Dlls | None = None
    libraries: tuple[str, ...] = ()


def look(wheel: Path, reader: Reader) -> Looked:
    """Also of what is no wheel at all: that is its problem."""
    tick(f"reading {wheel.name}")
    artifact = files.artifact(wheel)
    statement = _json_of(wheelhouse.statement_of(wheel))
    try:
        return _look(wheel, reader, artifact, statement)
    except BadArtifactError as error:
        return Looked(artifact, error.what, statement=statement)


def _look(
    wheel: Path, reader: Reader, artifact: Artifact, statement: Mapping[str, Any] | None
) -> Looked:
    with wheelfile.opened(wheel) as archive:
        recorded = wheelfile.record(archive)
        if problem := _problem(wheel, archive, recorded):
            return Looked(artifact, problem, statement=statement)
        info = wheelfile.described(archive, "METADATA")
        told = HeaderParser().parsestr(archive.read(info).decode("utf-8"))
        place = info.replace("METADATA", PLACE)
        sbom = _parsed(archive.read(place)) if place in recorded else None
        found = _libraries(archive, recorded, reader)
    return Looked(
        artifact,
        "",
        name=str(told["Name"]),
        version=str(told["Version"]),
        requires=tuple(_requirements(told)),
        sbom=sbom,
        statement=statement,
        held=found.held,
        images=found.images,
        unread=found.unread,
        system=manylinux.libraries(),
        dlls=found.dlls,
        libraries=tuple(wheelfile.libraries(recorded)),
        windows=windowsdlls.known(name for names in found.dlls.values() for name in names),
    )


def _problem(wheel: Path, archive: zipfile.ZipFile, recorded: Mapping[str, str]) -> str:
    missing = sorted(recorded.keys() - set(archive.namelist()))
    if missing:
        return f"RECORD lists {', '.join(missing[:3])}, and the wheel does not hold it"
    wheelfile.require_recorded(archive, recorded, wheel)
    return ""


@dataclass
class _Found:
    """By the library's name in the wheel."""

    held: dict[str, Linkage] = field(default_factory=dict)
    dlls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    images: dict[str, Images] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


def _libraries(archive: zipfile.ZipFile, recorded: Mapping[str, str], reader: Reader) -> _Found:
    """One at a time on the disk: a whole torch holds gigabytes of them."""
    found = _Found()
    with tempfile.TemporaryDirectory(prefix="torchyard-verify-") as folder:
        for name in wheelfile.libraries(recorded):
            path = Path(archive.extract(name, folder))
            try:
                _read(found, name, path, reader)
            except BadArtifactError as error:
                found.unread[name] = error.what
            path.unlink()
    return found


def _read(found: _Found, name: str, path: Path, reader: Reader) -> None:
    if linkage := elf.read(path):
        found.held[name] = linkage
    elif pe.is_readable() and (needed := pe.needed(path)) is not None:
        found.dlls[name] = needed
    images = reader.images(path)
    if images.cubins or images.ptx:
        found.images[name] = images


def _requirements(told: Message) -> Iterator[Requirement]:
    """On whatever machine: a requirement of an extra alone is none."""
    for asked in readable(told.get_all("Requires-Dist", [])):
        if not (asked.marker and "extra" in str(asked.marker)):
            yield asked


def _json_of(path: Path) -> Mapping[str, Any] | None:
    return _parsed(path.read_bytes()) if path.is_file() else None


def _parsed(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
