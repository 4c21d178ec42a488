"""A bundle made whole: its manifest last, then the name that a person gave it."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tasks.core.errors import NotOwnedError, TorchyardError
from tasks.lock.bundle import opening
from tasks.lock.bundle.manifest import MANIFEST_NAME, Bundle, BundledFile
from tasks.system import files, manifests

_TAR_SUFFIX = ".tar"


def prepare_bundle_folder(dest: Path) -> Path:
    """The folder that is filled: beside `dest`, and what an earlier attempt brought is in it.
    `NotOwnedError` where `dest` holds something else than a bundle of ours.
    """
    is_tar = dest.suffix == _TAR_SUFFIX
    if dest.exists() and not (_is_bundle(dest) and (is_tar or files.is_marked(dest))):
        raise NotOwnedError(
            "this is there already, and no bundle that torchyard made",
            location=str(dest),
            hint="name another place",
        )
    folder = files.create_owned_folder(dest.with_name(f"{dest.name}.part{'s' * is_tar}"))
    files.mark_owned(folder)
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    return folder


def _is_bundle(place: Path) -> bool:
    try:
        return bool(opening.read_bundle(place))
    except TorchyardError:
        return False


def finish_bundle(folder: Path, dest: Path, bundle: Bundle) -> Bundle:
    """Write the manifest, and give all of it its name."""
    known = dict(_list_files(folder))
    whole = replace(bundle, files=known)
    manifests.write_manifest(folder / MANIFEST_NAME, whole)
    if dest.suffix == _TAR_SUFFIX:
        part = dest.with_name(f"{dest.name}.part")
        _write_tar(folder, part, [MANIFEST_NAME, *sorted(known)])
        files.replace_path(part, dest)
        files.remove_owned(folder)
        return whole
    old = dest.with_name(f"{dest.name}.old")
    files.remove_owned(old)
    if dest.exists():
        dest.rename(old)
    folder.rename(dest)
    files.remove_owned(old)
    return whole


def _list_files(folder: Path) -> Iterator[tuple[str, BundledFile]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.name not in (files.TAG, MANIFEST_NAME):
            known = files.read_artifact(path)
            yield path.relative_to(folder).as_posix(), BundledFile(known.sha256, known.size)


def _write_tar(folder: Path, part: Path, names: list[str]) -> None:
    """The manifest first, where it is found without reading the rest."""
    with tarfile.open(part, "w") as tar:
        for name in names:
            tar.add(folder / name, name, recursive=False, filter=_normalize_member)


def _normalize_member(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member
