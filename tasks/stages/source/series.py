"""A series of patches: applied once and in order, taken back when it leaves the settings.

What was applied is kept beside the tree with the patches' own bytes, so that one can be taken back
after its file is gone. A patch that is in the tree without a record (a run was killed between the
two) is recognised and recorded.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.digest import canonical
from tasks.core.errors import BuildError, LostEditsError
from tasks.system import files, git, manifests
from tasks.system.voice import say


@dataclass(frozen=True)
class Series:
    """What is applied to `tree`: the sha256 of each patch, in order."""

    tree: str
    applied: tuple[str, ...] = ()


def applied(tree: PurePath, state: PurePath) -> tuple[str, ...]:
    """The patches that are in `tree` by our record."""
    record = _record(state)
    if not record.exists():
        return ()
    series = manifests.read(record, Series)
    return series.applied if series.tree == str(tree) else ()


def wanted(patches: Sequence[PurePath]) -> tuple[str, ...]:
    """The sha256 of each patch file; a `BuildError` where one is missing."""
    for patch in patches:
        if not Path(patch).is_file():
            raise BuildError("there is no such patch", where=f"source.patches: {patch}")
    return tuple(files.artifact(patch).sha256 for patch in patches)


def bring(
    tree: PurePath, state: PurePath, patches: Sequence[PurePath], log: PurePath
) -> tuple[str, ...]:
    """Make the series in the tree the wanted one; a common beginning stays. The sha256 of each."""
    goal = wanted(patches)
    git.restore(tree, _under_way(state))
    _forget_gone(tree, state, goal)
    keep = sum(1 for _ in _common(applied(tree, state), goal))
    take_back(tree, state, log, keep=keep)
    for patch, digest in list(zip(patches, goal, strict=True))[keep:]:
        _put_in(tree, state, Path(patch), log)
        kept = copy_of(state, digest)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(patch, kept)
        _write(tree, state, (*applied(tree, state), digest))
    return goal


def _forget_gone(tree: PurePath, state: PurePath, goal: Sequence[str]) -> None:
    """A person's `git stash` or `git checkout .` takes patches out, and no record knows of it."""
    series = applied(tree, state)
    for number, digest in enumerate(series):
        if _is_gone(tree, copy_of(state, digest)):
            if digest in goal:
                say(f"a patch of this profile is no longer in {tree}: applying it again")
            _write(tree, state, series[:number])
            return


def _is_gone(tree: PurePath, patch: Path) -> bool:
    """One that fits only forward is gone. One that fits in neither direction has something over
    it, or is gone from lines that a pull moved as well.
    """
    if git.applies(tree, patch, reverse=True):
        return False
    return git.applies(tree, patch) or git.is_as_committed(tree, patch)


def _common(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for one, other in zip(before, after, strict=False):
        if one != other:
            return
        yield one


def take_back(tree: PurePath, state: PurePath, log: PurePath, keep: int = 0) -> None:
    """Take patches back, the last first, until `keep` are left; `LostEditsError` over an edit."""
    git.restore(tree, _under_way(state))
    series = applied(tree, state)
    for number in range(len(series), keep, -1):
        patch = copy_of(state, series[number - 1])
        if git.is_as_committed(tree, patch):
            pass  # a commit holds it: upstream took it in, or the person did, and it is theirs now
        elif git.applies(tree, patch, reverse=True):
            git.apply(tree, patch, reverse=True, log=log, keep=_under_way(state))
        elif not git.applies(tree, patch):  # it fits forward where a killed run had taken it back
            raise LostEditsError(
                "a patch cannot be taken back, because the lines it changed were edited since",
                where=str(tree),
                todo=f"undo those edits, or list the patch in source.patches again: {patch}",
            )
        _write(tree, state, series[: number - 1])


def forget(state: PurePath) -> None:
    """The tree is another one now, with no patch in it."""
    _record(state).unlink(missing_ok=True)


def _put_in(tree: PurePath, state: PurePath, patch: Path, log: PurePath) -> None:
    if git.applies(tree, patch):
        git.apply(tree, patch, log=log, keep=_under_way(state))
    elif not git.applies(tree, patch, reverse=True):
        raise BuildError(
            f"{patch.name} does not fit this tree",
            where=f"source.patches: {patch}",
            todo=f"make it fit, or leave it out: git -C {tree} apply --check {patch}",
        )


def _under_way(state: PurePath) -> Path:
    return Path(state) / "patching"


def _record(state: PurePath) -> Path:
    return Path(state) / "patches.json"


def copy_of(state: PurePath, digest: str) -> Path:
    """Where the bytes of a patch that was applied are kept."""
    return Path(state) / "patches" / f"{digest}.patch"


def _write(tree: PurePath, state: PurePath, series: tuple[str, ...]) -> None:
    files.write_atomic(_record(state), canonical(Series(str(tree), series)))
