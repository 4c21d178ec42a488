"""The journal of an install: records on disk from which an interrupted install is recovered."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal, TypeVar

from tasks.core.errors import TorchyardError
from tasks.system import manifests

T = TypeVar("T")
RECORD_FILE, RESTORING_MARKER = "replaced.json", "restoring"
PENDING_FOLDER, BACKUP_FOLDER, ASIDE_FOLDER = "change", "files", "aside"
JOURNAL_FILE = f"{PENDING_FOLDER}/change.json"
PENDING_BACKUP_FOLDER = f"{PENDING_FOLDER}/{BACKUP_FOLDER}"
STAGING_FOLDER = f"{PENDING_FOLDER}/staged"


@dataclass(frozen=True)
class BackupFile:
    """The backup of a file that `owner` replaces. `link` is a symbolic link's target, or ""."""

    owner: str
    sha256: str
    link: str = ""


@dataclass(frozen=True)
class InstalledFile:
    """An installed file of the distribution `owner`."""

    owner: str
    sha256: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class DistributionChange:
    """A distribution that changed from the version `before` ("": not installed) to `after`.

    `record_before` and `record` are the sha256 of the old and the new RECORD. `path` is the path of
    RECORD. `wheel` is the sha256 of the wheel in the wheelhouse, "" for a package from an index.
    """

    before: str
    record_before: str
    after: str
    record: str
    path: str
    wheel: str = ""


@dataclass(frozen=True)
class InstallRecord:
    """The changes of an install in the environment `prefix`. Paths are relative POSIX paths.

    `sites` are the site-packages folders. `parts` maps names to changed distributions. `kept` maps
    paths to backups of replaced files, `placed` maps paths to installed files. `folders` maps the
    folders from before the install to their permissions.
    """

    python: str
    prefix: str
    sites: tuple[str, ...]
    when: str
    parts: Mapping[str, DistributionChange]
    kept: Mapping[str, BackupFile]
    placed: Mapping[str, InstalledFile]
    folders: Mapping[str, int]


@dataclass(frozen=True)
class PendingInstall:
    """An unfinished install: "installing" until the packages were imported, then "settling".

    `exchange` is the record of this install. `result` is the record to write to replaced.json after
    the `moves` of backups (old and new path, relative to the backup folder).
    """

    state: Literal["installing", "settling"]
    exchange: InstallRecord
    result: InstallRecord | None = None
    moves: tuple[tuple[str, str], ...] = ()


def list_stamps(replaced: PurePath) -> list[Path]:
    """Return the backup folders of all environments, the oldest first."""
    return sorted(Path(replaced).glob("*/"))


def read_record(stamp: Path) -> InstallRecord | None:
    """Return the record of the last finished install, or None if none exists."""
    return _read_journal(stamp / RECORD_FILE, InstallRecord)


def read_pending(stamp: Path) -> PendingInstall | None:
    """Return the pending install, which may have changed files, or None if there is none."""
    return _read_journal(stamp / JOURNAL_FILE, PendingInstall)


def _read_journal(path: Path, kind: type[T]) -> T | None:
    if not path.is_file():
        return None
    try:
        return manifests.read_manifest(path, kind)
    except TorchyardError as error:
        error.hint = "keep this file, which doit restore needs, and report this as a bug"
        raise


def read_latest_record(stamp: Path) -> InstallRecord | None:
    """Return the record of the finished installs or, if there are none, of the pending install."""
    pending = read_pending(stamp)
    return read_record(stamp) or (pending.exchange if pending else None)


def is_environment_gone(record: InstallRecord) -> bool:
    """Return True if the environment was removed, or was created again with another Python."""
    return not all(Path(record.prefix, site).is_dir() for site in record.sites)


def find_stamp(replaced: PurePath, prefix: PurePath, sites: tuple[str, ...]) -> Path | None:
    """Return the backup folder of the environment `prefix`, or None if it has no backup folder."""
    records = ((stamp, read_latest_record(stamp)) for stamp in list_stamps(replaced))
    target = (str(prefix), sites)
    return next((stamp for stamp, r in records if r and (r.prefix, r.sites) == target), None)


def describe_rollback(record: InstallRecord) -> Iterator[str]:
    """Yield a line for each distribution that a rollback changes: `NAME NOW → BEFORE`."""
    for name, part in sorted(record.parts.items()):
        yield f"{name} {part.after} → {part.before or 'removed (was not installed before)'}"
