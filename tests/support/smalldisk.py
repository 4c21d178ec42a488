"""A disk of its own for a folder, which can be filled to the last byte in no time: ext4 in a sparse
file, where a filler takes all room without being written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GIB = 20  # as much as the stages ask for before they begin


class Disk:
    """Where it is mounted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave nothing, also for who comes in small steps."""
        with self._filler.open("ab") as stream:
            step = 2**30
            while step >= 4096:
                try:
                    os.posix_fallocate(stream.fileno(), os.fstat(stream.fileno()).st_size, step)
                except OSError:
                    step //= 2

    def empty(self) -> None:
        """As much room as before."""
        self._filler.unlink(missing_ok=True)


def lacks() -> str:
    """Why there can be none here, "" where it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "not run: not root on Linux, who alone may mount a disk"
    missing = [name for name in ("mkfs.ext4", "mount") if not shutil.which(name)]
    return f"not run: no {missing[0]}" if missing else ""


@contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """For the block."""
    image = folder.with_name(f"{folder.name}.ext4")
    folder.mkdir()
    with image.open("wb") as stream:
        stream.truncate(_GIB * 2**30)
    _run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1", "-N", "200000", str(image))
    _run("mount", "-o", "loop", str(image), str(folder))
    try:
        yield Disk(folder)
    finally:
        for _ in range(120):  # somebody may just be ending
            if not subprocess.run(["umount", str(folder)], check=False).returncode:
                break
            time.sleep(0.5)
        image.unlink()


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)
