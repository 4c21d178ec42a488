"""Store entries in the user's cache, which all projects share; list them and remove them.

An entry is a folder in a store, such as `CACHE/git`. It is written to a temporary folder, gets its
record `entry.json` last, and is then renamed, so that no run sees a half-written entry. The files
of an entry are hard links to those of a project where the file system allows it, and are never
modified. The modification time of the folder is the time of the last use.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.canonical_json import compute_text_sha256
from tasks.core.errors import TorchyardError
from tasks.system import files, manifests
from tasks.system.output import print_warning

GIT_STORE, WHEEL_STORE, ARCHIVE_STORE = "git", "wheels", "archives"
STORE_ERRORS = (OSError, TorchyardError)  # of an entry that cannot be used, stored or removed
_RECORD_NAME = "entry.json"
_LOCK_SECONDS = 60.0  # another project copies an entry in seconds, or to another disk in a minute


@dataclass(frozen=True)
class EntryRecord:
    """The record entry.json: the `subject` without secrets, and the extent of the other files."""

    subject: str
    files: int
    size: int
    sha256: str = ""


@dataclass(frozen=True)
class DiskUsage:
    """The extent of a folder: the number of its files, and its size in bytes.

    A file with several names is counted once. `freed` are the bytes that a removal of the folder
    would free: the files that have no other name outside of it.
    """

    files: int
    size: int
    freed: int


@dataclass(frozen=True)
class CacheEntry:
    """An entry of a store: its folder, its subject, and when it was last used (Unix time)."""

    folder: Path
    subject: str
    used: float

    @property
    def idle_days(self) -> float:
        """Return how many days ago the entry was last used."""
        return (time.time() - self.used) / 86400


def measure_folder(folder: PurePath) -> DiskUsage:
    """Return the disk usage of a folder. Files that cannot be read are not counted."""
    links: dict[tuple[int, int], tuple[int, int, int]] = {}  # inode → names here, all names, size
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = Path(parent, name).lstat()
                inode = (status.st_dev, status.st_ino)
                seen = links.get(inode, (0, 0, 0))[0] + 1
                links[inode] = (seen, status.st_nlink, status.st_size)
    size = sum(size for _, _, size in links.values())
    freed = sum(size for seen, every, size in links.values() if seen >= every)
    return DiskUsage(len(links), size, freed)


def create_cache_folder(cache: PurePath, name: str) -> Path:
    """Create the folder `name` of the cache, which only the user can read.

    Raises `OSError` or `NotOwnedError` if this is not possible.
    """
    return files.create_owned_folder(files.create_private_folder(Path(cache, name)))


def build_entry_name(label: str, key: str) -> str:
    """Return the name of the entry for `key`, which begins with a readable `label`."""
    readable = "".join(one if one.isalnum() or one in "-_" else "-" for one in label)[:40]
    return f"{readable}-{compute_text_sha256(key)[:16]}"


@contextlib.contextmanager
def lock_entry(folder: Path, seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """Lock an entry during the block. Raises `OSError` if it stays locked, or cannot be locked."""
    from filelock import FileLock  # noqa: PLC0415 - only to use the cache

    guard = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        guard.acquire(timeout=seconds)
    except NotImplementedError as error:  # a file system without locks
        raise OSError(str(error)) from error
    try:
        yield
    finally:
        guard.release()


@contextlib.contextmanager
def open_entry(folder: Path) -> Iterator[EntryRecord | None]:
    """Yield the record of an entry that no other run changes during the block.

    The record is None if the entry is missing, incomplete or locked by another run.
    """
    with contextlib.ExitStack() as stack:
        is_usable = folder.is_dir()
        if is_usable:
            try:
                stack.enter_context(lock_entry(folder))
            except TimeoutError:
                is_usable = False
            except OSError:  # a read-only cache: nobody changes the entry
                pass
        record = _read_complete_record(folder) if is_usable else None
        if record:
            with contextlib.suppress(OSError):
                os.utime(folder)
        yield record


def _read_complete_record(folder: Path) -> EntryRecord | None:
    """Return the record of an entry, or None if files are missing, added or truncated."""
    with contextlib.suppress(OSError):
        if record := manifests.find_manifest(folder / _RECORD_NAME, EntryRecord):
            usage, own_size = measure_folder(folder), (folder / _RECORD_NAME).stat().st_size
            if (usage.files - 1, usage.size - own_size) == (record.files, record.size):
                return record
    return None


def write_entry(folder: Path, subject: str, fill: Callable[[Path], None], sha256: str = "") -> None:
    """Create or replace an entry; `fill` writes its files to the empty folder that it gets.

    Does nothing if another run has locked the entry, because that run stores the same. Raises the
    errors of `fill`, and `OSError`.
    """
    create_cache_folder(folder.parent.parent, folder.parent.name)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock_entry(folder, seconds=0))
        except TimeoutError:
            return
        new, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
        for leftover in (new, old):  # of a killed run
            files.remove_owned(leftover)
        files.create_private_folder(new)
        try:
            fill(new)
            usage = measure_folder(new)
            record = EntryRecord(subject, usage.files, usage.size, sha256)
            manifests.write_manifest(new / _RECORD_NAME, record)
            if folder.exists():
                files.replace_path(folder, old)
            files.replace_path(new, folder)
        finally:
            for leftover in (new, old):
                with contextlib.suppress(OSError):
                    files.remove_owned(leftover)


@contextlib.contextmanager
def warn_if_not_stored(what: str) -> Iterator[None]:
    """Print a warning if the block cannot store an entry: the build goes on without it."""
    try:
        yield
    except STORE_ERRORS as error:
        print_warning(f"{what} was not stored for other projects: {error}")


def list_entries(store: Path) -> list[CacheEntry]:
    """Return the entries of a store, also incomplete ones, sorted by name."""
    entries = []
    is_own = store.is_dir() and files.is_owned(store)  # TORCHYARD_CACHE_DIR can name any folder
    for folder in sorted(store.iterdir()) if is_own else ():
        with contextlib.suppress(OSError):  # another run removed it
            if folder.is_dir() and not folder.is_symlink():
                record = manifests.find_manifest(folder / _RECORD_NAME, EntryRecord)
                subject = record.subject if record else f"{folder.name} (incomplete)"
                entries.append(CacheEntry(folder, subject, folder.stat().st_mtime))
    return entries


def remove_entry(entry: CacheEntry) -> bool:
    """Remove an entry; return False if a running build uses it. Raises `OSError`."""
    hidden = entry.folder.name.startswith(".")  # left by a killed run, or written at the moment
    name = entry.folder.name.removeprefix(".").rpartition(".")[0]
    locked = entry.folder.with_name(name) if hidden else entry.folder
    try:
        with lock_entry(locked, seconds=0):
            files.remove_owned(entry.folder)
    except TimeoutError:
        return False
    return True
