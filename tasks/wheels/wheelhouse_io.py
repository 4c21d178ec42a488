"""Store wheels, each with a record of its origin, in the directory that all profiles share."""

import contextlib
import shutil
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tasks.core.errors import BadArtifactError, TorchyardError, redact_secrets
from tasks.core.model import Artifact
from tasks.system import files, manifests
from tasks.system.output import print_warning


@dataclass(frozen=True)
class WheelOrigin:
    """The origin of a wheel: the requirement `asked`, and an index URL or other `source`."""

    asked: str
    source: str
    artifact: Artifact


def store_wheel(
    wheel: Path, wheelhouse: PurePath, requirement: str, source: str
) -> tuple[Path, Artifact]:
    """Move a wheel to the wheelhouse, record its origin, and remove an old provenance statement."""
    place = Path(wheelhouse) / wheel.name
    place.parent.mkdir(parents=True, exist_ok=True)
    artifact = files.read_artifact(wheel)
    new_origin = WheelOrigin(requirement, redact_secrets(source), artifact)
    with contextlib.suppress(TorchyardError):  # a different build, for example with other flags
        old_origin = manifests.read_manifest(resolve_origin_path(place), WheelOrigin)
        if place.is_file() and replace(old_origin, artifact=artifact) != new_origin:
            print_warning(
                f"{place.name} replaces a different wheel with the same name, built by "
                f"{old_origin.source}. To keep both, set another wheel.wheelhouse or "
                "wheel.local_version in one of the profiles"
            )
    resolve_statement_path(place).unlink(missing_ok=True)
    partial = place.with_name(f".{place.name}.part")
    shutil.move(wheel, partial)
    files.replace_path(partial, place)
    manifests.write_manifest(resolve_origin_path(place), new_origin)
    return place, artifact


def find_stored_wheel(
    wheelhouse: PurePath, requirement: str, source: str
) -> tuple[Path, Artifact] | None:
    """Return the stored wheel of a requirement and a source, None if it is missing or changed."""
    for path in sorted(Path(wheelhouse).glob("*.whl.json")):
        try:
            origin = manifests.read_manifest(path, WheelOrigin)
        except TorchyardError:
            continue
        wheel = path.with_suffix("")
        same = (origin.asked, origin.source) == (requirement, redact_secrets(source))
        if same and wheel.is_file():
            artifact = files.read_artifact(wheel)
            return (wheel, artifact) if artifact == origin.artifact else None
    return None


def resolve_origin_path(wheel: PurePath) -> PurePath:
    """Return the path of the origin record of a wheel: `NAME.whl.json`."""
    return wheel.with_name(f"{wheel.name}.json")


def resolve_statement_path(wheel: PurePath) -> Path:
    """Return the path of the provenance statement of a wheel: `NAME.whl.provenance.json`."""
    return Path(wheel).with_name(f"{wheel.name}.provenance.json")


def require_locked_digest(found: Artifact, locked: str, part: str) -> None:
    """Raise `BadArtifactError` if the digest of `found` is not `locked`; "" allows any."""
    if locked and found.sha256 != locked:
        message = f"{found.name} has sha256 {found.sha256}, but {locked} is locked"
        command = "TORCHYARD__LOCK=false doit build, then doit lock"
        hint = f"find out why the file changed. To accept the file, run: {command}"
        raise BadArtifactError(message, location=f"torchyard.lock: {part}", hint=hint)


def require_sha256(found: Artifact, required: str | None) -> None:
    """Raise `BadArtifactError` if the digest of `found` is not `required`; None allows any."""
    if required and found.sha256 != required:
        message = f"{found.name} has sha256 {found.sha256}, but {required} is required"
        hint = "correct torch.sha256, or find out why the file changed"
        raise BadArtifactError(message, location="torch.sha256", hint=hint)
