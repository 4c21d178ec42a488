"""Files in a person's environment, one at a time: is it the one that is meant, put it there, put it
aside.

A file is never written where it lies, for a running Python has it mapped, and other environments
may share it: each is made beside its place and renamed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from tasks.stages.install.transaction.journal import BackupFile, InstalledFile
from tasks.system import files

TEMPORARY_NAME = ".torchyard-part"  # one name, so that whoever comes after a KILL finds it


def compute_sha256(path: Path) -> str:
    """Of the bytes of a file."""
    return files.read_artifact(path).sha256


def is_present(path: Path) -> bool:
    """Whether anything is, be it a link that leads nowhere."""
    return path.is_symlink() or path.exists()


def read_link(link: Path) -> str:
    """As it is written: a Path would take "./" out of it."""
    return os.readlink(link)  # noqa: PTH115


def is_installed_file(path: Path, placed: InstalledFile | None) -> bool:
    """Whether it is what we put there, and nobody changed it since."""
    if placed is None or not is_present(path):
        return False
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size != placed.size:
        return False
    return found.st_mtime_ns == placed.mtime_ns or compute_sha256(path) == placed.sha256


def is_original_file(path: Path, kept: BackupFile, store: Path) -> bool:
    """Whether the file that was there before lies there, whose other name is `store`."""
    if kept.link or path.is_symlink():
        return path.is_symlink() and read_link(path) == kept.link
    if not path.is_file():
        return False
    if store.is_file() and (path.samefile(store) or path.stat().st_size != store.stat().st_size):
        return path.samefile(store)
    return compute_sha256(path) == kept.sha256


def link_or_copy(source: Path, target: Path) -> None:
    """A second name for a file, or else a copy with its time and mode; a link stays one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if source.is_symlink():
        target.symlink_to(read_link(source))
        return
    try:
        os.link(source, target)
    except OSError:  # another disk, a file system without links, a file of somebody else
        shutil.copy2(source, target)


def replace_file(source: Path, target: Path) -> None:
    """Let `source` be at `target` too, in the place of what is there."""
    part = target.with_name(TEMPORARY_NAME)
    link_or_copy(source, part)
    files.replace_path(part, target)
    part.unlink(missing_ok=True)  # a rename to another name of the same file does nothing


def move_aside(path: Path, to: Path) -> None:
    """Move a person's file out of the way; one that lies at `to` already is another one."""
    while is_present(to):
        to = to.with_name(f"{to.name}.more")
    link_or_copy(path, to)
    path.unlink()


def list_bytecode(path: Path) -> Iterator[Path]:
    """What Python made of a source file."""
    if path.suffix == ".py" and (folder := path.parent / "__pycache__").is_dir():
        beginning = f"{path.stem}."
        for found in folder.iterdir():
            if found.name.startswith(beginning) and found.suffix == ".pyc":
                yield found


def remove_empty_folders(prefix: Path, folders: Iterable[str]) -> None:
    """Remove those that are empty, the deepest first; what a KILL left half made in them, too."""
    for name in sorted(folders, key=lambda name: name.count("/"), reverse=True):
        (prefix / name / TEMPORARY_NAME).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty, or not there
            (prefix / name / "__pycache__").rmdir()
        with contextlib.suppress(OSError):
            (prefix / name).rmdir()


def list_parents(paths: Iterable[str]) -> set[str]:
    """Every folder that these lie in, but the prefix itself."""
    found: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found
