"""Store wheels in the directory that all profiles share, with a record of origin beside each.

A wheel is reused only for the same requirement from the same index, and only if its bytes are
unchanged.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import BadArtifactError, TorchyardError, redact_secrets
from tasks.core.model import Artifact
from tasks.system import files, manifests
from tasks.system.output import print_warning


@dataclass(frozen=True)
class WheelOrigin:
    """The origin of a wheel: the requirement and the source that it was fetched or built for."""

    asked: str
    source: str
    artifact: Artifact


def store_wheel(
    wheel: Path, wheelhouse: PurePath, asked: str, source: str
) -> tuple[Path, Artifact]:
    """Move a finished wheel into the wheelhouse atomically, with its origin beside it.

    A provenance statement of a replaced wheel is removed.
    """
    place = Path(wheelhouse) / wheel.name
    place.parent.mkdir(parents=True, exist_ok=True)
    artifact = files.read_artifact(wheel)
    _warn_name_conflict(place, asked, source)
    resolve_statement_path(place).unlink(missing_ok=True)
    partial = place.with_name(f".{place.name}.part")
    shutil.move(wheel, partial)
    files.replace_path(partial, place)
    manifests.write_manifest(
        resolve_origin_path(place), WheelOrigin(asked, redact_secrets(source), artifact)
    )
    return place, artifact


def _warn_name_conflict(place: Path, asked: str, source: str) -> None:
    """Warn if another build has the same name, for example of the same commit with other flags."""
    try:
        origin = manifests.read_manifest(resolve_origin_path(place), WheelOrigin)
    except TorchyardError:
        return
    if place.is_file() and (origin.asked, origin.source) != (asked, redact_secrets(source)):
        print_warning(
            f"{place.name} takes the place of another wheel of that name, made by {origin.source}; "
            "a wheel.wheelhouse or wheel.local_version of its own in one of the profiles keeps both"
        )


def find_stored_wheel(
    wheelhouse: PurePath, asked: str, source: str
) -> tuple[Path, Artifact] | None:
    """Return the stored wheel for a requirement and its source.

    None is returned if there is no such wheel or its bytes changed.
    """
    for path in sorted(Path(wheelhouse).glob("*.whl.json")):
        try:
            origin = manifests.read_manifest(path, WheelOrigin)
        except TorchyardError:
            continue
        wheel = path.with_suffix("")
        if (origin.asked, origin.source) == (asked, redact_secrets(source)) and wheel.is_file():
            artifact = files.read_artifact(wheel)
            return (wheel, artifact) if artifact == origin.artifact else None
    return None


def resolve_origin_path(wheel: PurePath) -> PurePath:
    """Return the path of the origin: `NAME.whl.json` for `NAME.whl`."""
    return wheel.with_name(f"{wheel.name}.json")


def resolve_statement_path(wheel: PurePath) -> Path:
    """Return the path of the provenance statement: `NAME.whl.provenance.json`.

    Only wheels that were built here have one.
    """
    return Path(wheel).with_name(f"{wheel.name}.provenance.json")


def require_locked_digest(found: Artifact, wanted: str, part: str) -> None:
    """Raise `BadArtifactError` if torchyard.lock has another digest for that part of the build."""
    if wanted and found.sha256 != wanted:
        raise BadArtifactError(
            f"{found.name} has sha256 {found.sha256}, and {wanted} is locked",
            location=f"torchyard.lock: {part}",
            hint="find out who changed the file. To take it all the same: "
            "TORCHYARD__LOCK=false doit build, then doit lock",
        )


def require_sha256(found: Artifact, wanted: str | None) -> None:
    """Raise `BadArtifactError` if the user set a digest and the file has another."""
    if wanted and found.sha256 != wanted:
        raise BadArtifactError(
            f"{found.name} has sha256 {found.sha256}, and {wanted} was asked for",
            location="torch.sha256",
            hint="correct the digest, or find out who changed the file",
        )
