"""A bundle that is there: its manifest, and every file of it as the manifest has it."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tasks.effects import files, manifests
from tasks.effects.network import archive, offline
from tasks.effects.voice import tick
from tasks.errors import BadArtifactError, BuildError, SettingsError
from tasks.sourcing.bundled import MANIFEST, SCHEMA, WHEELS, Bundle

_AGAIN = "make it where there is a network: doit bundle --dest PATH"
_COPY = "copy the bundle again, or make it again: doit bundle"


@dataclass(frozen=True)
class Seen:
    """Which files were found to be what the manifest says: size and time of each, by path."""

    manifest: str = ""
    stamps: dict[str, str] = field(default_factory=dict)


def read(place: Path) -> Bundle:
    """The manifest of a folder or archive. `SettingsError` where it is none that we know."""
    try:
        found: Bundle = TypeAdapter(Bundle).validate_json(_manifest(place))
    except (OSError, KeyError, tarfile.TarError, ValidationError) as error:
        meant = "name the bundle itself, a folder with bundle.json or a tar"
        raise SettingsError(
            f"there is no bundle in {place}" if place.exists() else f"there is no {place}",
            where="offline",
            todo=f"{meant if place.exists() else 'correct the path'}; or {_AGAIN}",
        ) from error
    names = [*found.files, *found.repositories.values(), *found.archives.values()]
    if found.schema != SCHEMA or any(map(_leads_out, names)):
        raise SettingsError(f"the bundle {place} is of another make", where="offline", todo=_AGAIN)
    return found


def require_whole(place: Path, bundle: Bundle) -> None:
    """A copy of a tar that was cut off begins well and is too short: `SettingsError`."""
    there, least = place.stat().st_size, sum(packed.size for packed in bundle.files.values())
    if place.is_file() and there < least:
        raise SettingsError(
            f"the bundle {place} is cut off: {there} bytes, and its files alone have {least}",
            where="offline",
            todo=f"copy it again; or {_AGAIN}",
        )


def _manifest(place: Path) -> bytes:
    if place.is_dir():
        return (place / MANIFEST).read_bytes()
    with tarfile.open(place, "r:") as tar:
        first = tar.next()
        stream = tar.extractfile(first) if first and first.name == MANIFEST else None
        if stream is None:
            raise KeyError(MANIFEST)
        return stream.read()


def _leads_out(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name


def folder_of(place: Path, build: PurePath) -> Path:
    """Where its files are, or will be: an archive is unpacked into the build folder."""
    return place if place.is_dir() else Path(build) / "offline"


def begin(place: Path, bundle: Bundle, build: PurePath) -> None:
    """Unpack what is an archive, verify, and take everything from there from now on. Raises
    `BadArtifactError` for the first file that is not as it was bundled.
    """
    folder = folder_of(place, build)
    seen = Path(build) / "offline.json"
    if folder != place:
        _unpack(place, bundle, folder)
    before = manifests.read(seen, Seen) if seen.is_file() else Seen()
    stamps = dict(_verified(bundle, folder, before.stamps))
    manifests.publish(seen, Seen(str(place), stamps))
    offline.begin(folder / WHEELS)


def _unpack(place: Path, bundle: Bundle, folder: Path) -> None:
    if folder.is_dir() and _same(read_or_none(folder), bundle):
        return
    files.remove_owned(folder)
    tick(f"unpacking {place.name}")
    try:
        archive.extract(place, folder)
    except BadArtifactError as error:
        raise BadArtifactError(error.what, where=error.where, todo=_COPY) from error


def _same(one: Bundle | None, other: Bundle) -> bool:
    return one == other


def read_or_none(folder: Path) -> Bundle | None:
    """As `read`, None where there is none."""
    try:
        return read(folder)
    except BuildError:
        return None


def _verified(bundle: Bundle, folder: Path, before: Any) -> Iterator[tuple[str, str]]:
    """Size and time of each file; what has those it had is not read again."""
    tick("verifying the bundle")
    for name, packed in bundle.files.items():
        path = folder / name
        key = f"{path} {packed.sha256}"
        if not path.is_file():
            raise _bad(path, "is not there")
        stat = path.stat()
        stamp = f"{stat.st_size} {stat.st_mtime_ns}"
        if before.get(key) != stamp and files.artifact(path).sha256 != packed.sha256:
            raise _bad(path, f"has other bytes than its sha256 {packed.sha256} says")
        yield key, stamp


def _bad(path: Path, what: str) -> BadArtifactError:
    return BadArtifactError(
        f"{path.name} of the bundle {what}",
        where=str(path),
        todo=_COPY,
    )
