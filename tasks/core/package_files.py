"""The files of a package index, and the interface to read them."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True)
class IndexFile:
    """A file of a project on a package index.

    `sha256` is "" and `size` is 0 if the index does not give them.
    """

    name: str
    url: str
    sha256: str = ""
    size: int = 0
    requires_python: str = ""
    yanked: bool = False


class PackageIndex(Protocol):
    """A package index. Its methods raise `FetchError` if the index or a file cannot be read."""

    @property
    def url(self) -> str:
        """Return the URL without its login."""

    def list_files(self, project: str) -> tuple[IndexFile, ...]:
        """Return the files of a project; () if the index has no such project."""

    def read_members(self, file: IndexFile, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return path → content of the members of a wheel that match one of the patterns `names`.

        The patterns are those of fnmatch ("torch/version.py", "*.dist-info/METADATA"), where `*`
        also matches a slash. Members with the fewest folders come first.
        """

    def open_member(self, file: IndexFile, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a (huge) member of a wheel for one sequential read. Its end checks the content."""
