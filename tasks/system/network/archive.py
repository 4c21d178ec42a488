"""Unpack source archives, but only if every member stays inside the target folder."""

import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Literal

from tasks.core.errors import BadArtifactError
from tasks.system import files

MemberKind = Literal["file", "folder", "symlink", "hardlink", "device"]
_ARCHIVE_TOP = PurePosixPath()


@dataclass(frozen=True)
class ArchiveMember:
    """One entry of an archive; `link` is a link's target, `size` is in bytes."""

    name: str
    kind: MemberKind
    link: str = ""
    size: int = 0


def _explain_escape(member: ArchiveMember, links: Collection[str | None]) -> str:
    """Return why unpacking a member is unsafe. `links` are the paths of symbolic links."""
    if member.kind == "device":
        return "is a device"
    path = _resolve_inside(member.name)
    if path is None:
        return "is outside of the target folder"
    if any(str(folder) in links for folder in PurePosixPath(path).parents):
        return "has a path through a link"
    if member.kind in ("symlink", "hardlink"):
        start = PurePosixPath(path).parent if member.kind == "symlink" else _ARCHIVE_TOP
        if _resolve_inside(member.link, start, links) is None:
            return f'links to "{member.link}", which is outside of the target folder'
    return ""


def _resolve_inside(
    name: str, start: PurePosixPath = _ARCHIVE_TOP, links: Collection[str | None] = ()
) -> str | None:
    """Return the path of `name` in `start`; `None` if it leaves the archive or crosses a link."""
    if PureWindowsPath(name).anchor or PurePosixPath(name).is_absolute():
        return None
    parts = [part.casefold() for part in start.parts]
    for part in PureWindowsPath(name).parts:
        # Below a link, ".." is the parent of the link's target
        if "/".join(parts) in links or (part == ".." and not parts):
            return None
        parts = parts[:-1] if part == ".." else [*parts, part.casefold()]
    return "/".join(parts)


_DAMAGE_ERRORS = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, LZMAError),
    *(RuntimeError, NotImplementedError, OSError),
)


def extract_archive(archive: PurePath, dest: PurePath) -> None:
    """Unpack a tar or zip to the new folder `dest`; a bad archive raises `BadArtifactError`."""
    source, target = Path(archive), Path(dest)
    if target.exists():
        raise FileExistsError(target)
    # the end of a tar may look like that of a zip inside of it
    is_zip = zipfile.is_zipfile(source) and not tarfile.is_tarfile(source)
    try:
        members = list(_list_members(source, is_zip=is_zip))
    except _DAMAGE_ERRORS as error:
        raise _build_archive_error(source, f"cannot be read as an archive: {error}") from error
    links = {_resolve_inside(member.name) for member in members if member.kind == "symlink"}
    for member in members:
        if reason := _explain_escape(member, links):
            raise _build_archive_error(source, f'has the member "{member.name}", which {reason}')
    needed_mib = sum(member.size for member in members) // 2**20 + 1
    files.require_disk_space(target.parent, needed_mib, f"unpacking {source.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = target.with_name(f".{target.name}.unpacking")
    shutil.rmtree(folder, ignore_errors=True)  # left by a killed run
    folder.mkdir()
    try:
        _unpack(source, folder, is_zip=is_zip)
    except _DAMAGE_ERRORS as error:
        raise _build_archive_error(source, f"cannot be unpacked: {error}") from error
    else:
        entries = list(folder.iterdir())
        top = entries[0] if len(entries) == 1 and entries[0].is_dir() else folder
        files.replace_path(top, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_TAR_KINDS: dict[bytes, MemberKind]
_TAR_KINDS = {tarfile.DIRTYPE: "folder", tarfile.SYMTYPE: "symlink", tarfile.LNKTYPE: "hardlink"}
_ZIP_KINDS: dict[int, MemberKind] = {0: "file", stat.S_IFREG: "file", stat.S_IFLNK: "symlink"}


def _list_members(source: Path, *, is_zip: bool) -> Iterator[ArchiveMember]:
    if not is_zip:
        with tarfile.open(source) as tar:
            for member in tar:
                kind = _TAR_KINDS.get(member.type) or ("file" if member.isreg() else "device")
                yield ArchiveMember(member.name, kind, member.linkname, member.size)
        return
    with zipfile.ZipFile(source) as archive:
        for info in archive.infolist():
            kind = _ZIP_KINDS.get(stat.S_IFMT(info.external_attr >> 16), "device")
            kind = "folder" if info.is_dir() else kind
            link = archive.read(info).decode() if kind == "symlink" else ""
            yield ArchiveMember(info.filename, kind, link, info.file_size)


def _unpack(source: Path, dest: Path, *, is_zip: bool) -> None:
    """Unpack an archive. For a zip, set modes and links, which Python's zipfile ignores."""
    if not is_zip:
        with tarfile.open(source) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # from 3.11.4 on
            tar.extractall(dest)  # noqa: S202 - every member was checked
        return
    with zipfile.ZipFile(source) as archive:
        archive.extractall(dest)  # noqa: S202 - every member was checked
        for info in archive.infolist():
            mode, path = info.external_attr >> 16, dest / info.filename
            if stat.S_ISLNK(mode):
                _create_link(path, archive.read(info).decode())
            elif stat.S_ISREG(mode):
                path.chmod(stat.S_IMODE(mode) & 0o755 | 0o600)


def _create_link(path: Path, to: str) -> None:
    """Replace the file `path` by a link to `to`, or by a copy of `to` if Windows forbids links."""
    path.unlink()
    try:
        path.symlink_to(to)
    except OSError:
        if os.name != "nt":
            raise
        link_target = path.parent / to
        (shutil.copytree if link_target.is_dir() else shutil.copy2)(link_target, path)


def _build_archive_error(source: Path, problem: str) -> BadArtifactError:
    message = f"{source.name} {problem}; torchyard unpacked no file of this archive"
    hint = "download the archive again from its release page, and compare its sha256"
    return BadArtifactError(message, location=str(source), hint=hint)
