"""What source is given and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

SourceKind = Literal["git", "path", "tarball"]
UNTRACKED_CACHE = "new-files.json"  # in the state folder: what `git.state` keeps


@dataclass(frozen=True)
class SourceJob:
    """Which tree, and where it goes.

    `location` is a git URL, a folder, or an archive's path or URL; `ref`, `submodules` and
    `mirrors` are for git, `sha256` is for archives. `tree` is where the tree is or will be, `state`
    our folder with what was done to it, `manifest` what is withdrawn before the tree is changed.
    `others` are the folders of all builds of the checkout, which may hold what is to be fetched.
    `commit` is what torchyard.lock holds for `ref`, "" where it holds nothing. `release` is the one
    that all was decided by.
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
    commit: str = ""
    release: str = ""

    @property
    def checkout_ref(self) -> str:
        """The ref that is checked out: what it stands for by the lock, where that holds it."""
        return self.commit or self.ref


@dataclass(frozen=True)
class SourceTree:
    """The manifest source.json: the tree as it is now, whoever brought it there.

    A checkout has its `commit`, the commits of its `submodules` by path, and in `edits` a digest of
    what differs from the commit ("" when clean, patches included). Any other tree has "" for a
    commit and in `digest` the archive's sha256, or that of its files; an unpacked archive that was
    edited has `edits` too. `patches` are the sha256 of those applied. `date` is the commit's, in
    seconds since 1970, 0 without one.
    """

    tree: str
    kind: SourceKind
    commit: str
    submodules: Mapping[str, str]
    edits: str
    digest: str
    patches: tuple[str, ...] = ()
    date: int = 0
