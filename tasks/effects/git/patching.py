"""A patch at work: git removes every file that it changes before it writes one of them again. What
the files were is kept for as long as that takes, under a second name, and whoever comes after a
KILL, or a full disk, puts them back.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from tasks.effects import files
from tasks.effects.voice import say
from tasks.errors import CommandFailedError

_NAMED = re.compile(r"^(?:--- a/|\+\+\+ b/|rename (?:from|to) )(?P<path>[^\t\r\n]+)", re.MULTILINE)
_LIST, _FILES, _ASIDE = "files.txt", "files", "aside"


@contextmanager
def kept(tree: PurePath, patch: Path, folder: Path) -> Iterator[None]:
    """The files of `tree` that the patch names lie in `folder`, which is ours, meanwhile."""
    restore(tree, folder)
    names = sorted(set(_NAMED.findall(patch.read_text(encoding="utf-8", errors="replace"))))
    for name in names:
        if (Path(tree) / name).is_file():
            _duplicate(Path(tree) / name, folder / _FILES / name)
    files.write_atomic(folder / _LIST, "\n".join(names))
    try:
        yield
    except CommandFailedError:
        restore(tree, folder)
        raise
    _drop(folder)


def restore(tree: PurePath, folder: Path) -> None:
    """Put the files back where that was cut off; what else lies there is put aside."""
    listed = folder / _LIST
    if listed.is_file():
        for name in listed.read_text(encoding="utf-8").split("\n"):
            _put_back(Path(tree) / name, folder / _FILES / name, folder.with_name(_ASIDE) / name)
        say(f"a patch was cut off in {tree}: its files are as they were before it")
    _drop(folder)


def _put_back(path: Path, before: Path, aside: Path) -> None:
    if path.is_file():
        if before.is_file() and path.read_bytes() == before.read_bytes():
            return
        aside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, aside)
        path.unlink()
    if before.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        _duplicate(before, path)


def _duplicate(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another disk, or one without links
        shutil.copy2(source, target)


def _drop(folder: Path) -> None:
    """The list first: without it nobody takes what is left for whole."""
    (folder / _LIST).unlink(missing_ok=True)
    files.remove_owned(folder)
