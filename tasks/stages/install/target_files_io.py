"""Compare, link, replace and list files of the user's environment.

A file is never overwritten in place, since it may be mapped or shared: a new file is renamed to it.
"""

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from tasks.core.errors import TorchyardError
from tasks.stages.install.install_journal_io import BackupFile, InstalledFile
from tasks.system import files
from tasks.wheels import wheel_record

TEMPORARY_NAME = ".torchyard-part"  # a fixed name, so that it is found after a SIGKILL


def compute_sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    return files.read_artifact(path).sha256


def is_present(path: Path) -> bool:
    """Return True if the path exists. A broken link counts."""
    return os.path.lexists(path)


def read_link(link: Path) -> str:
    """Return the target of a link as text. A Path would drop a leading "./"."""
    return os.readlink(link)  # noqa: PTH115


def is_installed_file(path: Path, placed: InstalledFile | None) -> bool:
    """Return True if the file is unchanged since the install; False if `placed` is None."""
    if placed is None or not is_present(path):
        return False
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size != placed.size:
        return False
    return status.st_mtime_ns == placed.mtime_ns or compute_sha256(path) == placed.sha256


def is_original_file(path: Path, backup: BackupFile, store: Path | None = None) -> bool:
    """Return True if the file is the one from before the install. `store` is the backup."""
    if backup.link or path.is_symlink():
        return path.is_symlink() and read_link(path) == backup.link
    if not path.is_file():
        return False
    if store and store.is_file() and path.samefile(store):
        return True
    if store and store.is_file() and path.stat().st_size != store.stat().st_size:
        return False
    return compute_sha256(path) == backup.sha256


def link_or_copy(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it with its time and mode. Copy a symbolic link as a link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if source.is_symlink():
        target.symlink_to(read_link(source))
        return
    try:
        os.link(source, target)
    except OSError:  # another disk, a file system without hard links, another user's file
        shutil.copy2(source, target)


def replace_file(source: Path, target: Path) -> None:
    """Replace `target` with a hard link to `source`, or with a copy."""
    part = target.with_name(TEMPORARY_NAME)
    link_or_copy(source, part)
    files.replace_path(part, target)
    part.unlink(missing_ok=True)  # a rename between two hard links of one file does nothing


def list_bytecode(path: Path) -> Iterator[Path]:
    """Yield the bytecode files of a Python source file."""
    if path.suffix == ".py" and (folder := path.parent / "__pycache__").is_dir():
        beginning = f"{path.stem}."
        for file in folder.iterdir():
            if file.name.startswith(beginning) and file.suffix == ".pyc":
                yield file


def remove_empty_folders(prefix: Path, folders: Iterable[str]) -> None:
    """Remove empty folders, the deepest first, and temporary files that a SIGKILL left."""
    for name in sorted(folders, key=lambda name: name.count("/"), reverse=True):
        (prefix / name / TEMPORARY_NAME).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty or missing
            (prefix / name / "__pycache__").rmdir()
        with contextlib.suppress(OSError):
            (prefix / name).rmdir()


def list_parents(paths: Iterable[str]) -> set[str]:
    """Return all parent folders of relative paths."""
    parents: set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in parents:
            parents.add(parent)
            parent = parent.rpartition("/")[0]
    return parents


@dataclass(frozen=True)
class StagedPackages:
    """The unpacked packages: their versions and RECORD paths by normalized name.

    `placed` are all files by path. Paths are relative to the prefix.
    """

    versions: Mapping[str, str]
    records: Mapping[str, str]
    placed: Mapping[str, InstalledFile]


def prepare_staging(staged: Path, links: Mapping[str, str]) -> None:
    """Create the folder `staged` with the links of the prefix, so that all paths are the same."""
    staged.mkdir(parents=True)
    for link, folder in links.items():
        (staged / folder).mkdir(parents=True, exist_ok=True)
        place = staged / link
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(staged / folder, place.parent), target_is_directory=True)


def read_staging(staged: Path, sites: Iterable[str]) -> StagedPackages:
    """Return the packages in the site-packages folders `sites` of `staged`."""
    versions: dict[str, str] = {}
    records: dict[str, str] = {}
    placed: dict[str, InstalledFile] = {}
    infos = (info for site in sites for info in sorted((staged / site).glob("*.dist-info")))
    for info in infos:
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        owner = canonicalize_name(name)
        versions[owner] = version
        records[owner] = (info / "RECORD").relative_to(staged).as_posix()
        for row in wheel_record.parse_record((info / "RECORD").read_text(encoding="utf-8")):
            path = _resolve_below_prefix(staged, info.parent, row.path)
            if path is None or not (staged / path).is_file():
                raise TorchyardError(
                    f"the RECORD of {owner} lists {row.path}, and this file is missing",
                    location=str(info / "RECORD"),
                    hint="build or download this wheel again: its RECORD is wrong",
                )
            digest = wheel_record.convert_to_hex(row.digest) or compute_sha256(staged / path)
            status = (staged / path).lstat()
            placed[path] = InstalledFile(owner, digest, status.st_size, status.st_mtime_ns)
    return StagedPackages(versions, records, placed)


def _resolve_below_prefix(prefix: Path, site: Path, name: str) -> str | None:
    """Return the path of the RECORD entry `name` relative to `prefix`, None if it is outside."""
    path = Path(os.path.normpath(site / name))
    return path.relative_to(prefix).as_posix() if path.is_relative_to(prefix) else None


_INFO_SUFFIXES = (".dist-info", ".egg-info", ".egg-link", ".egg")


@dataclass(frozen=True)
class InstalledDistribution:
    """A distribution of the environment, which can be installed more than once.

    `infos` are the dist-info folders, or the egg-info and egg files of older tools. `version` joins
    all versions. `listed` are the files, relative to the prefix, of infos that only conda lists.
    """

    name: str
    version: str
    infos: tuple[Path, ...]
    listed: Mapping[Path, tuple[str, ...]]

    @property
    def unrecorded_infos(self) -> tuple[Path, ...]:
        """Return the infos whose files are unknown: without RECORD, and not listed by conda."""
        unlisted = (info for info in self.infos if info not in self.listed)
        return tuple(info for info in unlisted if not (info / "RECORD").is_file())

    @property
    def record_digest(self) -> str:
        """Return the sha256 of the RECORD, "" if it is missing or there are several infos."""
        return compute_record_digest(self.infos[0] / "RECORD") if len(self.infos) == 1 else ""


def compute_record_digest(record: Path) -> str:
    """Return the sha256 of a RECORD, "" if it is missing."""
    return files.read_artifact(record).sha256 if record.is_file() else ""


def find_distributions(
    prefix: Path, sites: Iterable[str], names: Iterable[str]
) -> Mapping[str, InstalledDistribution]:
    """Return the installed distributions with these normalized names."""
    found = [one for site in sites for one in list_site_infos(prefix / site)]
    distributions = {}
    for name in {name: None for _, name in found if name in set(names)}:
        infos = [info for info, other in found if other == name]
        unrecorded = (info for info in infos if not (info / "RECORD").is_file())
        listed = {info: paths for info in unrecorded if (paths := _list_conda_files(prefix, info))}
        stems = ["" if info.suffix == ".egg-link" else info.stem for info in infos]
        versions = [stem.partition("-")[2].partition("-")[0] or "?" for stem in stems]
        version = ", ".join(dict.fromkeys(versions))
        distributions[name] = InstalledDistribution(name, version, tuple(infos), listed)
    return distributions


def _list_conda_files(prefix: Path, info: Path) -> tuple[str, ...]:
    """Return the files of the conda package that contains `info`, empty if none exists.

    https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html
    """
    beginning = info.relative_to(prefix).as_posix()
    for meta in sorted((prefix / "conda-meta").glob("*.json")):
        try:
            files = json.loads(meta.read_text(encoding="utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if any(path == beginning or path.startswith(f"{beginning}/") for path in files):
            return tuple(path for path in files if ".." not in path.split("/"))
    return ()


def list_site_infos(site: Path) -> Iterator[tuple[Path, str]]:
    """Yield the info of each distribution in a site-packages folder, and its normalized name."""
    for info in sorted(site.iterdir()) if site.is_dir() else ():
        if info.suffix in _INFO_SUFFIXES:
            name = info.stem if info.suffix == ".egg-link" else info.stem.partition("-")[0]
            yield info, canonicalize_name(name)


def list_distribution_files(prefix: Path, one: InstalledDistribution) -> Iterator[str]:
    """Yield all files of a distribution, including bytecode, relative to `prefix`."""
    for info in one.infos:
        record = info / "RECORD"
        text = record.read_text(encoding="utf-8") if record.is_file() else ""
        rows = wheel_record.parse_record(text)
        recorded = (_resolve_below_prefix(prefix, info.parent, row.path) for row in rows)
        listed = (*one.listed.get(info, ()), *filter(None, recorded))
        paths = (*(prefix / name for name in listed), *info.rglob("*"))
        for path in (path for path in paths if path.name != TEMPORARY_NAME):
            for file in (path, *list_bytecode(path)):
                if file.is_symlink() or file.is_file():
                    yield file.relative_to(prefix).as_posix()
