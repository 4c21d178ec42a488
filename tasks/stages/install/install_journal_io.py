"""The journal of an install: records and files that survive a SIGKILL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal, TypeVar

from tasks.core.errors import TorchyardError
from tasks.system import manifests

T = TypeVar("T")
RECORD_FILE, PENDING_FOLDER, RESTORING_MARKER, BACKUP_FOLDER, ASIDE_FOLDER = (
    "replaced.json",
    "change",
    "restoring",
    "files",
    "aside",
)


@dataclass(frozen=True)
class BackupFile:
    """A backed-up file.

    `sha256` is the digest of its bytes, `link` the target of a symbolic link. `owner` is the
    distribution that replaced it.
    """

    owner: str
    sha256: str
    link: str = ""


@dataclass(frozen=True)
class InstalledFile:
    """An installed file and its distribution."""

    owner: str
    sha256: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class DistributionChange:
    """A changed distribution.

    `before` is the previous version, "" if it was not installed, and `after` the new one.
    `record_before` and `record` are the sha256 of the previous and the new RECORD, `path` is the
    path of the new RECORD, `wheel` the sha256 of the wheel in the wheelhouse, "" if it came from an
    index.
    """

    before: str
    record_before: str
    after: str
    record: str
    path: str
    wheel: str = ""


@dataclass(frozen=True)
class InstallRecord:
    """The changes of an install in the environment `prefix`.

    Paths are relative to `prefix`, in POSIX form. `sites` are its site-packages folders, `folders`
    the folders that existed before, with their modes.
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
    """An unfinished install.

    The state is `installing` until the installed packages have been imported, then `settling`. Then
    `moves` (from, to; relative to the stamp's folder) are made, and `result` becomes replaced.json.
    """

    state: Literal["installing", "settling"]
    exchange: InstallRecord
    result: InstallRecord | None = None
    moves: tuple[tuple[str, str], ...] = ()


def list_stamps(replaced: PurePath) -> Iterator[Path]:
    """Yield the backup folders of all environments, the oldest first."""
    folder = Path(replaced)
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if path.is_dir())


def read_record(stamp: Path) -> InstallRecord | None:
    """Return the record of the last install, None without one.

    A journal that cannot be read is an error.
    """
    return _read_journal(stamp / RECORD_FILE, InstallRecord)


def read_pending(stamp: Path) -> PendingInstall | None:
    """Return the pending install, None without one or if it has not changed anything yet."""
    return _read_journal(stamp / PENDING_FOLDER / "change.json", PendingInstall)


def write_record(stamp: Path, exchange: InstallRecord) -> None:
    """Write the record atomically."""
    manifests.write_manifest(stamp / RECORD_FILE, exchange)


def write_pending(stamp: Path, at_work: PendingInstall) -> None:
    """Write the pending install atomically."""
    manifests.write_manifest(stamp / PENDING_FOLDER / "change.json", at_work)


def is_restoring(stamp: Path) -> bool:
    """Return True if a rollback was started."""
    return (stamp / RESTORING_MARKER).is_file()


def _read_journal(path: Path, kind: type[T]) -> T | None:
    if not path.is_file():
        return None
    try:
        return manifests.read_manifest(path, kind)
    except TorchyardError as error:
        error.hint = "it says what was replaced in your environment: do not remove it, report this"
        raise


def read_latest_record(stamp: Path) -> InstallRecord | None:
    """Return the record of the last install, finished or not; None if nothing was installed."""
    pending = read_pending(stamp)
    return read_record(stamp) or (pending.exchange if pending else None)


def is_environment_gone(exchange: InstallRecord) -> bool:
    """Return True if the environment was removed, or created again for another Python."""
    return not all(Path(exchange.prefix, site).is_dir() for site in exchange.sites)


def find_stamp(replaced: PurePath, prefix: PurePath, sites: tuple[str, ...]) -> Path | None:
    """Return the backup folder of an environment, None if nothing was installed into it.

    An unfinished install counts, too.
    """
    for stamp in list_stamps(replaced):
        record = read_latest_record(stamp)
        if record and (record.prefix, record.sites) == (str(prefix), sites):
            return stamp
    return None


def describe_rollback(exchange: InstallRecord) -> Iterator[str]:
    """Yield a line for each distribution that a rollback changes."""
    for name, part in sorted(exchange.parts.items()):
        if part.before:
            yield f"{name} {part.after} → {part.before}"
        else:
            yield f"{name} {part.after} → taken out: it was not there before"
