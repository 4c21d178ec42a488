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

from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import LostEditsError, TorchyardError
from tasks.system import files, git, manifests
from tasks.system.output import print_line


@dataclass(frozen=True)
class AppliedPatches:
    """What is applied to `tree`: the sha256 of each patch, in order."""

    tree: str
    applied: tuple[str, ...] = ()


def read_applied_patches(tree: PurePath, state: PurePath) -> tuple[str, ...]:
    """The patches that are in `tree` by our record."""
    record = _resolve_patch_record(state)
    if not record.exists():
        return ()
    series = manifests.read_manifest(record, AppliedPatches)
    return series.applied if series.tree == str(tree) else ()


def hash_patches(patches: Sequence[PurePath]) -> tuple[str, ...]:
    """The sha256 of each patch file; a `BuildError` where one is missing."""
    for patch in patches:
        if not Path(patch).is_file():
            raise TorchyardError("there is no such patch", location=f"source.patches: {patch}")
    return tuple(files.read_artifact(patch).sha256 for patch in patches)


def update_patches(
    tree: PurePath, state: PurePath, patches: Sequence[PurePath], log: PurePath
) -> tuple[str, ...]:
    """Make the series in the tree the wanted one; a common beginning stays. The sha256 of each."""
    goal = hash_patches(patches)
    git.restore_patched_files(tree, _resolve_patch_backup(state))
    _drop_missing_patches(tree, state, goal)
    keep = sum(1 for _ in _find_common_prefix(read_applied_patches(tree, state), goal))
    revert_patches(tree, state, log, keep=keep)
    for patch, digest in list(zip(patches, goal, strict=True))[keep:]:
        _apply_patch(tree, state, Path(patch), log)
        kept = find_patch_copy(state, digest)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(patch, kept)
        _write_patch_record(tree, state, (*read_applied_patches(tree, state), digest))
    return goal


def _drop_missing_patches(tree: PurePath, state: PurePath, goal: Sequence[str]) -> None:
    """A person's `git stash` or `git checkout .` takes patches out, and no record knows of it."""
    series = read_applied_patches(tree, state)
    for number, digest in enumerate(series):
        if _is_missing_patch(tree, find_patch_copy(state, digest)):
            if digest in goal:
                print_line(f"a patch of this profile is no longer in {tree}: applying it again")
            _write_patch_record(tree, state, series[:number])
            return


def _is_missing_patch(tree: PurePath, patch: Path) -> bool:
    """One that fits only forward is gone. One that fits in neither direction has something over
    it, or is gone from lines that a pull moved as well.
    """
    if git.can_apply_patch(tree, patch, reverse=True):
        return False
    return git.can_apply_patch(tree, patch) or git.is_as_committed(tree, patch)


def _find_common_prefix(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for one, other in zip(before, after, strict=False):
        if one != other:
            return
        yield one


def revert_patches(tree: PurePath, state: PurePath, log: PurePath, keep: int = 0) -> None:
    """Take patches back, the last first, until `keep` are left; `LostEditsError` over an edit."""
    git.restore_patched_files(tree, _resolve_patch_backup(state))
    series = read_applied_patches(tree, state)
    for number in range(len(series), keep, -1):
        patch = find_patch_copy(state, series[number - 1])
        if git.is_as_committed(tree, patch):
            pass  # a commit holds it: upstream took it in, or the person did, and it is theirs now
        elif git.can_apply_patch(tree, patch, reverse=True):
            git.apply_patch(tree, patch, reverse=True, log=log, keep=_resolve_patch_backup(state))
        elif not git.can_apply_patch(
            tree, patch
        ):  # it fits forward where a killed run had taken it back
            raise LostEditsError(
                "a patch cannot be taken back, because the lines it changed were edited since",
                location=str(tree),
                hint=f"undo those edits, or list the patch in source.patches again: {patch}",
            )
        _write_patch_record(tree, state, series[: number - 1])


def clear_applied_patches(state: PurePath) -> None:
    """The tree is another one now, with no patch in it."""
    _resolve_patch_record(state).unlink(missing_ok=True)


def _apply_patch(tree: PurePath, state: PurePath, patch: Path, log: PurePath) -> None:
    if git.can_apply_patch(tree, patch):
        git.apply_patch(tree, patch, log=log, keep=_resolve_patch_backup(state))
    elif not git.can_apply_patch(tree, patch, reverse=True):
        raise TorchyardError(
            f"{patch.name} does not fit this tree",
            location=f"source.patches: {patch}",
            hint=f"make it fit, or leave it out: git -C {tree} apply --check {patch}",
        )


def _resolve_patch_backup(state: PurePath) -> Path:
    return Path(state) / "patching"


def _resolve_patch_record(state: PurePath) -> Path:
    return Path(state) / "patches.json"


def find_patch_copy(state: PurePath, digest: str) -> Path:
    """Where the bytes of a patch that was applied are kept."""
    return Path(state) / "patches" / f"{digest}.patch"


def _write_patch_record(tree: PurePath, state: PurePath, series: tuple[str, ...]) -> None:
    files.write_atomic(
        _resolve_patch_record(state), format_canonical_json(AppliedPatches(str(tree), series))
    )
