"""A bundle made whole: its manifest last, then the name that a person gave it."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tasks.core.errors import BuildError, NotOwnedError
from tasks.lock.bundle import opening
from tasks.lock.bundle.manifest import MANIFEST, Bundle, Packed
from tasks.system import files, manifests

_TAR = ".tar"


def begun(dest: Path) -> Path:
    """The folder that is filled: beside `dest`, and what an earlier attempt brought is in it.
    `NotOwnedError` where `dest` holds something else than a bundle of ours.
    """
    is_tar = dest.suffix == _TAR
    if dest.exists() and not (_is_bundle(dest) and (is_tar or files.is_marked(dest))):
        raise NotOwnedError(
            "this is there already, and no bundle that torchyard made",
            where=str(dest),
            todo="name another place",
        )
    folder = files.own(dest.with_name(f"{dest.name}.part{'s' * is_tar}"))
    files.mark(folder)
    (folder / MANIFEST).unlink(missing_ok=True)
    return folder


def _is_bundle(place: Path) -> bool:
    try:
        return bool(opening.read(place))
    except BuildError:
        return False


def finish(folder: Path, dest: Path, bundle: Bundle) -> Bundle:
    """Write the manifest, and give all of it its name."""
    known = dict(_listed(folder))
    whole = replace(bundle, files=known)
    manifests.publish(folder / MANIFEST, whole)
    if dest.suffix == _TAR:
        part = dest.with_name(f"{dest.name}.part")
        _archive(folder, part, [MANIFEST, *sorted(known)])
        files.move(part, dest)
        files.remove_owned(folder)
        return whole
    old = dest.with_name(f"{dest.name}.old")
    files.remove_owned(old)
    if dest.exists():
        dest.rename(old)
    folder.rename(dest)
    files.remove_owned(old)
    return whole


def _listed(folder: Path) -> Iterator[tuple[str, Packed]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.name not in (files.TAG, MANIFEST):
            known = files.artifact(path)
            yield path.relative_to(folder).as_posix(), Packed(known.sha256, known.size)


def _archive(folder: Path, part: Path, names: list[str]) -> None:
    """The manifest first, where it is found without reading the rest."""
    with tarfile.open(part, "w") as tar:
        for name in names:
            tar.add(folder / name, name, recursive=False, filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member
