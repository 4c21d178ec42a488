"""What an exchange is, as the files that outlive a KILL."""

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
    """A file that was there: the sha256 of its bytes, or what it leads to where it is a `link`.
    `owner` is the distribution that took its place.
    """

    owner: str
    sha256: str
    link: str = ""


@dataclass(frozen=True)
class InstalledFile:
    """A file that was put there, and for which distribution."""

    owner: str
    sha256: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class DistributionChange:
    """One distribution: the version `before`, "" where it was not there, and `after`.

    `record_before` and `record` are the sha256 of its RECORD then and now, `path` that of RECORD
    now, `wheel` the sha256 of its wheel in the wheelhouse, "" for one that came from an index.
    """

    before: str
    record_before: str
    after: str
    record: str
    path: str
    wheel: str = ""


@dataclass(frozen=True)
class InstallRecord:
    """What was put into the environment `prefix` for what. Paths are below it, as on POSIX; `sites`
    are its folders of packages, `folders` those that were there before, with their modes.
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
    """An exchange at work: `installing` until what was installed has been imported, then
    `settling`: `moves` (from, to; in the folder of the stamp) have to be made, and `result` is to
    be replaced.json.
    """

    state: Literal["installing", "settling"]
    exchange: InstallRecord
    result: InstallRecord | None = None
    moves: tuple[tuple[str, str], ...] = ()


def list_stamps(replaced: PurePath) -> Iterator[Path]:
    """The folders of all environments, the oldest first."""
    folder = Path(replaced)
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if path.is_dir())


def read_record(stamp: Path) -> InstallRecord | None:
    """What lies there now; None where nothing does. A journal that cannot be read is an error."""
    return _read_journal(stamp / RECORD_FILE, InstallRecord)


def read_pending(stamp: Path) -> PendingInstall | None:
    """The install at work, None where there is none, or where it had changed nothing yet."""
    return _read_journal(stamp / PENDING_FOLDER / "change.json", PendingInstall)


def write_record(stamp: Path, exchange: InstallRecord) -> None:
    """All or nothing."""
    manifests.write_manifest(stamp / RECORD_FILE, exchange)


def write_pending(stamp: Path, at_work: PendingInstall) -> None:
    """All or nothing."""
    manifests.write_manifest(stamp / PENDING_FOLDER / "change.json", at_work)


def is_restoring(stamp: Path) -> bool:
    """Whether a way back was begun."""
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
    """What was exchanged there, be it not to the end; None where nothing is."""
    at_work = read_pending(stamp)
    return read_record(stamp) or (at_work.exchange if at_work else None)


def is_environment_gone(exchange: InstallRecord) -> bool:
    """Whether the environment is not there any more, or was made anew for another Python."""
    return not all(Path(exchange.prefix, site).is_dir() for site in exchange.sites)


def find_stamp(replaced: PurePath, prefix: PurePath, sites: tuple[str, ...]) -> Path | None:
    """The folder of an environment that something was put into, be it not to the end, or None."""
    for stamp in list_stamps(replaced):
        one = read_latest_record(stamp)
        if one and (one.prefix, one.sites) == (str(prefix), sites):
            return stamp
    return None


def describe_rollback(exchange: InstallRecord) -> Iterator[str]:
    """What the way back does, a line for each distribution."""
    for name, part in sorted(exchange.parts.items()):
        if part.before:
            yield f"{name} {part.after} → {part.before}"
        else:
            yield f"{name} {part.after} → taken out: it was not there before"
