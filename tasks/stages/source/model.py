"""The job and the manifest of the `source` stage."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

SourceKind = Literal["git", "path", "tarball"]
UNTRACKED_CACHE = "new-files.json"  # in the state folder: the cache of `git.read_git_state`


@dataclass(frozen=True)
class SourceJob:
    """The inputs of the `source` stage: which PyTorch tree to provide, and where.

    `location` is a git URL, a folder, or the path or URL of an archive. `tree` is the folder of the
    tree. `state` is the folder for the record of applied patches. `others` is the folder of all
    builds, to reuse their clones and archives. `cache` is the user's cache with the clones of other
    projects. `commit` is the commit of `ref` in torchyard.lock, or "".
    """

    kind: SourceKind
    location: str
    ref: str
    submodules: bool
    sha256: str | None
    patches: tuple[PurePath, ...]
    mirrors: Mapping[str, str]
    tree: PurePath
    state: PurePath
    manifest: PurePath
    log: PurePath
    others: PurePath | None = None
    cache: PurePath | None = None
    commit: str = ""
    release: str = ""

    @property
    def checkout_ref(self) -> str:
        """The ref to check out: the commit in torchyard.lock, or `ref` if no commit is locked."""
        return self.commit or self.ref


@dataclass(frozen=True)
class SourceTree:
    """The manifest source.json: the current state of the tree.

    A checkout has a `commit`, `submodules` (commits by path) and `edits`, a digest of all local
    changes ("" if none). An archive has `edits`, and its sha256 as `digest`. A folder has only the
    `digest` of its files. `patches` are the sha256 of the applied patches. `date` is the Unix time
    of the commit, or 0.
    """

    tree: str
    kind: SourceKind
    commit: str
    submodules: Mapping[str, str]
    edits: str
    digest: str
    patches: tuple[str, ...] = ()
    date: int = 0
