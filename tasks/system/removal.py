"""Removing what is there: links and never what they lead to, and read-only files, as git's objects
are. Whether it may be removed was asked before (`tasks.system.files`).
"""

from __future__ import annotations

import shutil
import stat
import sys
from pathlib import Path
from typing import Any

_JUNCTION = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT


def remove_tree(target: Path, last: str) -> None:
    """A folder with everything in it; the name in `last` goes after all others."""

    def retry_as_writable(function: Any, name: str, _: object) -> None:
        Path(name).chmod(stat.S_IWRITE)
        function(name)

    # a removal that was interrupted can be taken up again as long as the mark is there
    for child in sorted(target.iterdir(), key=lambda entry: entry.name == last):
        if child.is_dir() and not is_link(child):
            if sys.version_info >= (3, 12):
                shutil.rmtree(child, onexc=retry_as_writable)
            else:
                shutil.rmtree(child, onerror=retry_as_writable)
        else:
            remove_file_or_link(child)
    target.rmdir()


def remove_file_or_link(path: Path) -> None:
    """A file or a link. Windows keeps what is read-only from being removed."""
    if sys.platform == "win32" and not is_link(path):
        path.chmod(stat.S_IWRITE)
    path.unlink()


def is_link(path: Path) -> bool:
    """Whether it leads elsewhere: on Windows a folder can without being a symbolic link."""
    return path.is_symlink() or getattr(path.lstat(), "st_reparse_tag", 0) == _JUNCTION
