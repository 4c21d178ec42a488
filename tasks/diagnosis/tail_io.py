"""What a file got since one last looked: for logs that other programs write at this moment."""

from __future__ import annotations

import os
from pathlib import Path


class LogTail:
    """The end of the file at `path`, which need not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = 0
        self._at = 0

    def read_new_lines(self) -> list[str]:
        """Whole lines that are new: all of them where another file has taken its place, none where
        it cannot be read.
        """
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._file or found.st_size < self._at:
                    self._file, self._at = found.st_ino, 0
                file.seek(self._at)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return whole.decode("utf-8", "replace").splitlines()
