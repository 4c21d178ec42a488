"""Read the contents of a wheel for its checks."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.parser import HeaderParser
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import ZipFile

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
    """The contents of a wheel. The keys of each `dict` are library paths.

    `problem` says why the wheel is invalid, or is "". `sbom` and `statement` are `None` if missing,
    {} if unreadable. `dlls` are the DLLs that each library needs. `system` names the libraries that
    every Linux machine has, `windows` those of Windows; `None` if unknown.
    """

    artifact: Artifact
    problem: str
    name: str = ""
    version: str = ""
    requires: tuple[Requirement, ...] = ()
    sbom: Mapping[str, Any] | None = None
    statement: Mapping[str, Any] | None = None
    linkages: dict[str, Linkage] = field(default_factory=dict)
    images: dict[str, MachineCodeImages] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    system: frozenset[str] | None = None
    dlls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    windows: SystemDlls | None = None


def inspect_wheel(wheel: Path, reader: MachineCodeReader) -> WheelInfo:
    """Return the contents of a wheel. If the wheel is invalid, `problem` describes the error."""
    show_progress(f"reading {wheel.name}")
    artifact = files.read_artifact(wheel)
    stated = wheelhouse_io.resolve_statement_path(wheel)
    statement = _parse_json(stated.read_bytes()) if stated.is_file() else None
    damaged = WheelInfo(artifact, "", statement=statement)
    try:
        with wheel_archive_io.open_wheel(wheel) as archive:
            recorded = wheel_archive_io.read_record(archive)
            if missing := sorted(recorded.keys() - set(archive.namelist())):
                problem = f"the wheel lacks {', '.join(missing[:3])}, which RECORD lists"
                return replace(damaged, problem=problem)
            wheel_archive_io.require_recorded(archive, recorded, wheel)
            return _inspect_archive(archive, recorded, reader, damaged)
    except BadArtifactError as error:
        return replace(damaged, problem=error.message)


def _inspect_archive(
    archive: ZipFile, recorded: Mapping[str, str], reader: MachineCodeReader, info: WheelInfo
) -> WheelInfo:
    metadata_path = wheel_archive_io.find_dist_info_file(archive, "METADATA")
    metadata = HeaderParser().parsestr(archive.read(metadata_path).decode("utf-8"))
    requires = parse_requirements(metadata.get_all("Requires-Dist", []))  # of all platforms
    with tempfile.TemporaryDirectory(prefix="torchyard-verify-") as folder:
        for name in wheel_archive_io.list_libraries(recorded):
            # extract one library at a time: torch has libraries of gigabytes
            path = Path(archive.extract(name, folder))
            try:
                if linkage := dynamic_linkage_io.read_elf_linkage(path):
                    info.linkages[name] = linkage
                elif (needed := dynamic_linkage_io.read_needed_dlls(path)) is not None:
                    info.dlls[name] = needed
                images = reader.read_images(path)
                if images.cubins or images.ptx:
                    info.images[name] = images
            except BadArtifactError as error:
                info.unreadable[name] = error.message
            path.unlink()
    sbom_path = metadata_path.replace("METADATA", SBOM_PATH)
    return replace(
        info,
        name=str(metadata["Name"]),
        version=str(metadata["Version"]),
        requires=tuple(one for one in requires if "extra" not in str(one.marker)),
        sbom=_parse_json(archive.read(sbom_path)) if sbom_path in recorded else None,
        system=dynamic_linkage_io.read_manylinux_libraries(),
        windows=dynamic_linkage_io.classify_dlls(chain.from_iterable(info.dlls.values())),
    )


def _parse_json(text: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
