"""Read all facts from a wheel that its checks need."""

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

from tasks.core.errors import BadArtifactError
from tasks.core.model import Artifact
from tasks.core.pip_requirements import parse_requirements
from tasks.system import files
from tasks.system.output import show_progress
from tasks.wheels import dynamic_linkage_io, wheel_archive_io, wheelhouse_io
from tasks.wheels.library_linkage import Linkage, SystemDlls
from tasks.wheels.machine_code_io import MachineCodeImages, MachineCodeReader
from tasks.wheels.provenance_documents import SBOM_PATH


@dataclass(frozen=True)
class WheelInfo:
    """The contents of a wheel.

    `problem` describes a mismatch between RECORD and the members, "" if they match. `sbom` and
    `statement` are None if missing, {} if unreadable.

    `linkages` has the linkage of each Linux library, `dlls` the DLLs that each Windows library
    needs, `images` the machine code of each library that has any, `unreadable` the error for each
    library that cannot be read. `system` and `windows` are the libraries of other machines, None if
    unknown.
    """

    artifact: Artifact
    problem: str
    name: str = ""
    version: str = ""
    requires: tuple[Requirement, ...] = ()
    sbom: Mapping[str, Any] | None = None
    statement: Mapping[str, Any] | None = None
    linkages: Mapping[str, Linkage] = field(default_factory=dict)
    images: Mapping[str, MachineCodeImages] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    system: frozenset[str] | None = None
    dlls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    windows: SystemDlls | None = None


def inspect_wheel(wheel: Path, reader: MachineCodeReader) -> WheelInfo:
    """Return the contents of a wheel. A file that is not a wheel has a `problem`."""
    show_progress(f"reading {wheel.name}")
    artifact = files.read_artifact(wheel)
    stated = wheelhouse_io.resolve_statement_path(wheel)
    statement = _parse_json(stated.read_bytes()) if stated.is_file() else None
    try:
        return _inspect_archive(wheel, reader, artifact, statement)
    except BadArtifactError as error:
        return WheelInfo(artifact, error.message, statement=statement)


def _inspect_archive(
    wheel: Path, reader: MachineCodeReader, artifact: Artifact, statement: Mapping[str, Any] | None
) -> WheelInfo:
    with wheel_archive_io.open_wheel(wheel) as archive:
        recorded = wheel_archive_io.read_record(archive)
        if problem := _find_record_problem(wheel, archive, recorded):
            return WheelInfo(artifact, problem, statement=statement)
        info = wheel_archive_io.find_dist_info_file(archive, "METADATA")
        metadata = HeaderParser().parsestr(archive.read(info).decode("utf-8"))
        place = info.replace("METADATA", SBOM_PATH)
        sbom = _parse_json(archive.read(place)) if place in recorded else None
        contents = _inspect_libraries(archive, recorded, reader)
    return WheelInfo(
        artifact,
        "",
        name=str(metadata["Name"]),
        version=str(metadata["Version"]),
        requires=tuple(_parse_requirements(metadata)),
        sbom=sbom,
        statement=statement,
        linkages=contents.linkages,
        images=contents.images,
        unreadable=contents.unreadable,
        system=dynamic_linkage_io.read_manylinux_libraries(),
        dlls=contents.dlls,
        windows=dynamic_linkage_io.classify_dlls(
            name for names in contents.dlls.values() for name in names
        ),
    )


def _find_record_problem(wheel: Path, archive: zipfile.ZipFile, recorded: Mapping[str, str]) -> str:
    missing = sorted(recorded.keys() - set(archive.namelist()))
    if missing:
        return f"RECORD lists {', '.join(missing[:3])}, and the wheel does not hold it"
    wheel_archive_io.require_recorded(archive, recorded, wheel)
    return ""


@dataclass
class _LibraryContents:
    """The contents of the libraries, by their names in the wheel."""

    linkages: dict[str, Linkage] = field(default_factory=dict)
    dlls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    images: dict[str, MachineCodeImages] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)


def _inspect_libraries(
    archive: zipfile.ZipFile, recorded: Mapping[str, str], reader: MachineCodeReader
) -> _LibraryContents:
    """Extract and read one library at a time: those of torch have gigabytes."""
    contents = _LibraryContents()
    with tempfile.TemporaryDirectory(prefix="torchyard-verify-") as folder:
        for name in wheel_archive_io.list_libraries(recorded):
            path = Path(archive.extract(name, folder))
            try:
                _inspect_library(contents, name, path, reader)
            except BadArtifactError as error:
                contents.unreadable[name] = error.message
            path.unlink()
    return contents


def _inspect_library(
    found: _LibraryContents, name: str, path: Path, reader: MachineCodeReader
) -> None:
    if linkage := dynamic_linkage_io.read_elf_linkage(path):
        found.linkages[name] = linkage
    elif (needed := dynamic_linkage_io.read_needed_dlls(path)) is not None:
        found.dlls[name] = needed
    images = reader.read_images(path)
    if images.cubins or images.ptx:
        found.images[name] = images


def _parse_requirements(told: Message) -> Iterator[Requirement]:
    """Yield the requirements for all platforms, without those of extras."""
    for requirement in parse_requirements(told.get_all("Requires-Dist", [])):
        if not (requirement.marker and "extra" in str(requirement.marker)):
            yield requirement


def _parse_json(text: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
