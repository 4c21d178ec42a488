"""What an installer made ready: each file by the path that it will have below the prefix."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from tasks.core.errors import TorchyardError
from tasks.stages.install.transaction.journal import InstalledFile
from tasks.system import files
from tasks.wheels.files import recordfile


@dataclass(frozen=True)
class StagedPackages:
    """`versions` by normalized name; `records` are their RECORDs, and `placed` all of their files,
    by paths below the prefix.
    """

    versions: Mapping[str, str]
    records: Mapping[str, str]
    placed: Mapping[str, InstalledFile]


def prepare_staging(staged: Path, links: Mapping[str, str]) -> None:
    """An empty folder, with the links that the prefix has: packages lie where they lie there."""
    staged.mkdir(parents=True)
    for link, folder in links.items():
        (staged / folder).mkdir(parents=True, exist_ok=True)
        place = staged / link
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(staged / folder, place.parent), target_is_directory=True)


def read_staging(staged: Path, sites: Iterable[str]) -> StagedPackages:
    """What lies in `staged`, where packages are in the folders `sites`."""
    versions: dict[str, str] = {}
    records: dict[str, str] = {}
    placed: dict[str, InstalledFile] = {}
    for info in _list_staged_infos(staged, sites):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        owner = canonicalize_name(name)
        versions[owner] = version
        records[owner] = (info / "RECORD").relative_to(staged).as_posix()
        placed.update(_list_staged_files(staged, info, owner))
    return StagedPackages(versions, records, placed)


def _list_staged_infos(staged: Path, sites: Iterable[str]) -> Iterator[Path]:
    for site in sites:
        yield from sorted((staged / site).glob("*.dist-info"))


def _list_staged_files(staged: Path, info: Path, owner: str) -> Iterator[tuple[str, InstalledFile]]:
    text = (info / "RECORD").read_text(encoding="utf-8")
    for row in recordfile.parse_record(text):
        path = resolve_below_prefix(staged, info.parent, row.path)
        if path is None or not (staged / path).is_file():
            raise TorchyardError(
                f"{owner} has {row.path} in its RECORD, and it is not there",
                location=str(info / "RECORD"),
                hint="this wheel cannot be installed anywhere",
            )
        digest = recordfile.convert_to_hex(row.digest) or files.read_artifact(staged / path).sha256
        found = (staged / path).lstat()
        yield path, InstalledFile(owner, digest, found.st_size, found.st_mtime_ns)


def resolve_below_prefix(prefix: Path, site: Path, name: str) -> str | None:
    """The path below `prefix` of what RECORD in `site` calls `name`; None where it is outside."""
    path = Path(os.path.normpath(site / name))
    if not path.is_relative_to(prefix):
        return None
    return PurePosixPath(path.relative_to(prefix).as_posix()).as_posix()
