"""Write files atomically. Lock and remove folders that torchyard created."""

import contextlib
import hashlib
import itertools
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from tasks.core.errors import BusyError, NoSpaceError, NotOwnedError, TorchyardError
from tasks.core.model import Artifact
from tasks.core.project import OUTPUT_FOLDER
from tasks.core.text_formatting import format_size
from tasks.knowledge.resource_estimates import STARTED_BUILD_MIB
from tasks.system import process_group
from tasks.system.output import print_warning

_JUNCTION = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT
_SPACE_HINT = "free some disk space, or put the project on a larger disk"


def remove_tree(target: Path, last: str) -> None:
    """Remove a folder and its contents, with the entry `last` at the end."""

    def retry_as_writable(function: Any, name: str, _: object) -> None:
        Path(name).chmod(stat.S_IWRITE)
        function(name)

    handler: Any = {"onexc" if sys.version_info >= (3, 12) else "onerror": retry_as_writable}
    # While the entry `last`, such as CACHEDIR.TAG, exists, a later run can continue the removal
    for child in sorted(target.iterdir(), key=lambda entry: entry.name == last):
        if child.is_dir() and not _is_link(child):
            shutil.rmtree(child, **handler)
        else:
            _remove_file_or_link(child)
    target.rmdir()


def _remove_file_or_link(path: Path) -> None:
    if sys.platform == "win32" and not _is_link(path):
        path.chmod(stat.S_IWRITE)  # Windows removes no read-only file
    path.unlink()


def _is_link(path: Path) -> bool:
    """Return True for a symbolic link or, on Windows, a junction."""
    return path.is_symlink() or getattr(path.lstat(), "st_reparse_tag", 0) == _JUNCTION


def is_accessible(path: PurePath) -> bool:
    """Return True if the path exists and the user has access to it."""
    with contextlib.suppress(OSError):
        return Path(path).exists()
    return False


def find_existing_ancestor(path: PurePath) -> Path:
    """Return `path` or, if it does not exist, the nearest parent folder that exists."""
    ancestors = (Path(path), *Path(path).parents)
    return next(filter(is_accessible, ancestors), ancestors[-1])


def has_content(path: Path) -> bool:
    """Return True for a file, or for a folder that is not empty."""
    return any(path.iterdir()) if path.is_dir() else path.exists()


def find_free_path(folder: Path, prefix: str = "") -> Path:
    """Return the first of the paths `prefix`1, `prefix`2, ... in `folder` that does not exist."""
    paths = (folder / f"{prefix}{number}" for number in itertools.count(1))
    return next(path for path in paths if not path.exists())


def require_minimum_space(folder: PurePath, what: str) -> None:
    """Raise `NoSpaceError` with a message about `what` if the disk is too full for any build."""
    require_disk_space(folder, STARTED_BUILD_MIB[0], f"{what}, at the very least,")


def require_disk_space(folder: PurePath, needed_mib: int, what: str, where: str = "") -> None:
    """Raise `NoSpaceError` if the disk of `folder` has less than `needed_mib` MiB of free space.

    The error says that `what` needs the space at `where` (default: `folder`).
    """
    free = shutil.disk_usage(find_existing_ancestor(folder)).free // 2**20
    if free < needed_mib:
        hint = "free some disk space there" if where else _SPACE_HINT
        needed, left = format_size(needed_mib), format_size(free)
        message = f"{what} needs {needed}, but only {left} of disk space are left"
        raise NoSpaceError(message, location=where or str(folder), hint=hint)


TAG = "CACHEDIR.TAG"
_RENAME_PAUSES = (0.05, 0.2, 1.0)  # seconds between attempts to rename
_FICLONE = 0x40049409  # from linux/fs.h: share all blocks of another file
_LOCK_FILE, _HOLDER_FILE = ".lock", ".lock.pid"
_TAG_TEXT = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Made by torchyard, which may remove this folder with everything in it.\n"
)


def write_atomic(path: PurePath, content: str | bytes, mode: int = 0o644) -> None:
    """Write a file atomically: a reader sees the old or the new content, even after a crash."""
    target = Path(path)
    _create_folder(target.parent)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
        replace_path(Path(name), target)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):  # the error for a full disk has no file name
            error.filename = str(target)
        raise


def _create_folder(folder: Path) -> None:
    """Create a folder and its parents. A new `.torchyard` gets a .gitignore that ignores it."""
    folder.mkdir(parents=True, exist_ok=True)
    for parent in (folder, *folder.parents):
        if parent.name == OUTPUT_FOLDER and not (parent / ".gitignore").exists():
            (parent / ".gitignore").write_text("*\n", encoding="utf-8")


def link_or_copy(source: str | PurePath, target: str | PurePath) -> None:
    """Create `target` as a hard link to `source`, or as a copy if hard links are not possible."""
    try:
        os.link(source, target)
    except OSError:  # another disk, a file system without hard links, another user's file
        shutil.copy2(source, target)


def replace_path(source: Path, target: Path) -> None:
    """Move `source` to `target`. On Windows, retry if a virus scanner uses one of the files."""
    for pause in _RENAME_PAUSES if sys.platform == "win32" else ():
        with contextlib.suppress(PermissionError):
            source.replace(target)
            return
        time.sleep(pause)
    source.replace(target)


def copy_file(source: Path, target: Path) -> None:
    """Copy `source` to the new file `target`, as a reflink if the file system supports that."""
    if sys.platform == "linux":
        import fcntl  # noqa: PLC0415 - Windows has no fcntl

        with source.open("rb") as old, target.open("wb") as new, contextlib.suppress(OSError):
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
            return
    shutil.copyfile(source, target)


def replace_symlink(path: PurePath, to: str) -> None:
    """Create a symbolic link from `path` to `to`, in place of an existing file or link."""
    target = Path(path)
    new = target.with_name(f".{target.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(to)
    replace_path(new, target)


def write_user_file(path: PurePath, text: str) -> None:
    """Write text to a path that the user chose, atomically unless it is a device, pipe or link."""
    target = Path(path).absolute()
    try:
        if target.exists() and (target.is_symlink() or not target.is_file()):
            target.write_text(text, encoding="utf-8", newline="")
        else:
            write_atomic(target, text)
    except OSError as error:
        message = f"torchyard cannot write this file: {error.strerror}"
        hint = "choose a path that you can write to"
        raise TorchyardError(message, location=str(target), hint=hint) from error


def create_private_folder(folder: PurePath) -> Path:
    """Create a folder, and missing parents, that only the user can read."""
    path = Path(folder)
    for missing in reversed([one for one in (path, *path.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    path.mkdir(exist_ok=True)  # raises FileExistsError for a file
    return path


def create_owned_folder(folder: PurePath) -> Path:
    """Create `folder` with a CACHEDIR.TAG; raise `NotOwnedError` if it has content of the user."""
    path, where = Path(folder), str(folder)
    try:
        _create_folder(path)
    except (FileExistsError, NotADirectoryError) as error:
        message, hint = "a file exists where torchyard needs this folder", "move the file away"
        raise NotOwnedError(message, location=where, hint=hint) from error
    except FileNotFoundError as error:
        message, hint = "the drive of this path does not exist", "set another path in the settings"
        raise TorchyardError(message, location=where, hint=hint) from error
    if not is_owned(path):
        for temporary in path.glob(f".{TAG}.*"):  # left by SIGKILL during `mark_owned`
            temporary.unlink()
        if any(path.iterdir()):
            message = "this folder is not empty, and torchyard did not create it"
            hint = "move the folder away, or set another path in the settings"
            raise NotOwnedError(message, location=where, hint=hint)
        mark_owned(path)
    return path


def mark_owned(folder: PurePath) -> None:
    """Write CACHEDIR.TAG to `folder`, so that torchyard may remove it with all its contents."""
    write_atomic(Path(folder) / TAG, _TAG_TEXT)


def is_marked(folder: PurePath) -> bool:
    """Return True if `folder` itself contains the CACHEDIR.TAG of torchyard."""
    with contextlib.suppress(OSError):
        return (Path(folder) / TAG).read_text(encoding="utf-8") == _TAG_TEXT
    return False


def is_owned(path: PurePath) -> bool:
    """Return True if the resolved path or any parent folder has the CACHEDIR.TAG of torchyard."""
    real = Path(path).resolve()
    return any(map(is_marked, (real, *real.parents)))


def remove_owned(path: PurePath) -> None:
    """Remove a file, link or tree; raise `NotOwnedError` if torchyard did not create it."""
    target = Path(path)
    if not target.exists() and not target.is_symlink():
        return
    is_single = _is_link(target) or target.is_file()
    if not is_owned(target.parent if is_single else target):
        message = "torchyard does not remove this path: torchyard did not create it"
        raise NotOwnedError(message, location=str(target))
    if is_single:
        _remove_file_or_link(target)
    else:
        remove_tree(target, last=TAG)


def empty_owned(folder: PurePath, first: tuple[str, ...] = (), but: tuple[str, ...] = ()) -> None:
    """Empty a folder, but keep the entries `but`, the tag and lock files; begin with `first`."""
    path = Path(folder)
    if not is_marked(path):
        message = "torchyard does not empty this folder: torchyard did not create it"
        raise NotOwnedError(message, location=str(path))
    preserved = {path / name for name in (TAG, _LOCK_FILE, _HOLDER_FILE, *but)}

    def remove_others(children: Iterable[Path]) -> None:
        for child in children:
            if any(child in path.parents for path in preserved):
                remove_others(list(child.iterdir()))
            elif child not in preserved:
                remove_owned(child)

    remove_others(sorted(path.iterdir(), key=lambda entry: entry.name not in first))


def read_artifact(path: PurePath) -> Artifact:
    """Return a file's name, sha256 and size in bytes."""
    with Path(path).open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Artifact(Path(path).name, digest, Path(path).stat().st_size)


@contextmanager
def lock_folder(folder: PurePath) -> Iterator[None]:
    """Lock a folder during the block; raise `BusyError` if another run has locked it."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - only to lock a folder

    holder = Path(folder) / _HOLDER_FILE
    holder.parent.mkdir(parents=True, exist_ok=True)
    guard = FileLock(Path(folder) / _LOCK_FILE)  # released at any exit, even a kill
    try:
        guard.acquire(timeout=0)
    except Timeout as error:
        pid = read_lock_holder(folder).partition("-")[0]
        process, end = (f" (process {pid})", f"process {pid}") if pid else ("", "that run")
        message = f"another torchyard run{process} is using this folder"
        hint = f"wait until that run ends, or end {end}; then run the same command again"
        raise BusyError(message, location=str(folder), hint=hint) from error
    try:
        _end_killed_run(read_lock_holder(folder), folder)
        # Replace the id in this file only now: so far it identified the processes of a killed run
        write_atomic(holder, process_group.RUN_ID)
        try:
            yield
        finally:
            holder.unlink(missing_ok=True)
    finally:
        guard.release()


def read_lock_holder(folder: PurePath) -> str:
    """Return the id of the last run that locked `folder`, "" if none did."""
    holder = Path(folder) / _HOLDER_FILE
    return holder.read_text(encoding="utf-8") if holder.exists() else ""


def _end_killed_run(run: str, folder: PurePath) -> None:
    ended, surviving = process_group.end_leftover_processes(run) if run else ((), ())
    if surviving:
        message = f"torchyard cannot end these processes of a killed run: {', '.join(surviving)}"
        hint = "end these processes, then run the same command again"
        raise BusyError(message, location=str(folder), hint=hint)
    if ended:
        print_warning(f"ended the remaining processes of a killed run: {', '.join(ended)}")
