"""A bundle that is there: its manifest, and every file of it as the manifest has it."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath

from pydantic import TypeAdapter, ValidationError

from tasks.core.errors import BadArtifactError, BuildError, SettingsError
from tasks.lock.bundle.manifest import MANIFEST, SCHEMA, WHEELS, Bundle
from tasks.system import files, manifests
from tasks.system.network import archive, offline
from tasks.system.voice import tick

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
    `BadArtifactError` for the first file that was changed or is not in the manifest.
    """
    folder = folder_of(place, build)
    seen = Path(build) / "offline.json"
    if folder != place:
        _unpack(place, bundle, folder)
    _require_listed(place, bundle, folder)
    tick("verifying the bundle")
    wheels = files.own(Path(build) / "offline-wheels")
    before = manifests.read(seen, Seen) if seen.is_file() else Seen()
    paths = {name: folder / name for name in bundle.files}
    paths |= _collect_wheels(paths, wheels)
    stamps = dict(_verified(bundle, folder, paths, before.stamps))
    manifests.publish(seen, Seen(str(place), stamps))
    offline.begin(wheels)


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


def _require_listed(place: Path, bundle: Bundle, folder: Path) -> None:
    """Raise `BadArtifactError` for a link or a file whose exact name is not in the manifest."""
    known = {*bundle.files, MANIFEST, files.TAG}
    for path in _entries(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or name not in known:
            if folder != place:
                files.remove_owned(folder)  # the archive is unpacked again once it is replaced
            raise BadArtifactError(
                f"{name} is in the bundle, but {MANIFEST} does not list it as a file",
                where=str(place),
                todo=_COPY if folder != place else f"remove {path}, or {_COPY}",
            )


def _entries(folder: Path) -> Iterator[Path]:
    """Yield all files and links below a folder, without following links."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _entries(path)
        else:
            yield path


def _collect_wheels(paths: Mapping[str, Path], dest: Path) -> dict[str, Path]:
    """Link or copy the wheels and sdists into `dest` and remove everything else there: pip and uv
    install whatever they find in a folder. Return the new paths by their names in the bundle.
    """
    listed = [name for name in paths if PurePosixPath(name).parent == PurePosixPath(WHEELS)]
    found = {name: dest / PurePosixPath(name).name for name in listed}
    for path in dest.iterdir():
        if path not in found.values():
            files.remove_owned(path)
    for name, path in found.items():
        _link_or_copy(paths[name], path)
    return found


def _link_or_copy(source: Path, dest: Path) -> None:
    if not source.is_file():
        raise _bad(source, "is not there")
    if dest.is_file() and _stamp(dest) == _stamp(source):
        return
    dest.unlink(missing_ok=True)
    try:
        os.link(source, dest)
    except OSError:  # another file system, or one without hard links
        shutil.copy2(source, dest)


def _stamp(path: Path) -> str:
    """Return size and modification time of a file as text."""
    stat = path.stat()
    return f"{stat.st_size} {stat.st_mtime_ns}"


def _verified(
    bundle: Bundle, folder: Path, paths: Mapping[str, Path], before: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Size and time of each file; what has those it had is not read again."""
    for name, packed in bundle.files.items():
        path = paths[name]
        key = f"{path} {packed.sha256}"
        if not path.is_file():
            raise _bad(path, "is not there")
        stamp = _stamp(path)
        if before.get(key) != stamp and files.artifact(path).sha256 != packed.sha256:
            if path != folder / name:
                path.unlink()  # else a corrected bundle would not be copied again
            raise _bad(folder / name, f"has other bytes than its sha256 {packed.sha256} says")
        yield key, stamp


def _bad(path: Path, what: str) -> BadArtifactError:
    return BadArtifactError(
        f"{path.name} of the bundle {what}",
        where=str(path),
        todo=_COPY,
    )
