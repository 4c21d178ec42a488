"""Apply and revert patches, compute the digest of a tree without git, and describe its changes."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import LostEditsError, MissingToolError, TorchyardError
from tasks.stages.source.model import SourceJob, SourceTree
from tasks.system import files, git, manifests, source_trees
from tasks.system.git.checkout_state import fingerprint_file
from tasks.system.output import print_line


@dataclass(frozen=True)
class AppliedPatches:
    """The record of the sha256 of each patch that is applied to `tree`, in order."""

    tree: str
    applied: tuple[str, ...] = ()


def read_applied_patches(tree: PurePath, state: PurePath) -> tuple[str, ...]:
    """Return the patches that are applied to `tree`, according to the record."""
    record = _resolve_patch_record(state)
    if not record.exists():
        return ()
    series = manifests.read_manifest(record, AppliedPatches)
    return series.applied if series.tree == str(tree) else ()


def hash_patches(patches: Sequence[PurePath]) -> tuple[str, ...]:
    """Return the sha256 of each patch file; raise `TorchyardError` if one is missing."""
    for patch in patches:
        if not Path(patch).is_file():
            raise TorchyardError("there is no such patch", location=f"source.patches: {patch}")
    return tuple(files.read_artifact(patch).sha256 for patch in patches)


def update_patches(
    tree: PurePath, state: PurePath, patches: Sequence[PurePath], log: PurePath
) -> tuple[str, ...]:
    """Apply the requested series of patches and return their sha256; a common prefix is kept."""
    digests = hash_patches(patches)
    git.restore_patched_files(tree, _resolve_patch_backup(state))
    _drop_missing_patches(tree, state, digests)
    prefix_length = sum(1 for _ in _find_common_prefix(read_applied_patches(tree, state), digests))
    revert_patches(tree, state, log, keep=prefix_length)
    for patch, digest in list(zip(patches, digests, strict=True))[prefix_length:]:
        _apply_patch(tree, state, Path(patch), log)
        copy = find_patch_copy(state, digest)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(patch, copy)
        _write_patch_record(tree, state, (*read_applied_patches(tree, state), digest))
    return digests


def _drop_missing_patches(tree: PurePath, state: PurePath, goal: Sequence[str]) -> None:
    """Remove patches from the record that are no longer in the tree.

    The user's `git stash` or `git checkout .` reverts patches without updating the record.
    """
    series = read_applied_patches(tree, state)
    for number, digest in enumerate(series):
        if _is_missing_patch(tree, find_patch_copy(state, digest)):
            if digest in goal:
                print_line(f"a patch of this profile is no longer in {tree}: applying it again")
            _write_patch_record(tree, state, series[:number])
            return


def _is_missing_patch(tree: PurePath, patch: Path) -> bool:
    """Return True if the patch is no longer in the tree.

    A patch that applies only forward is missing. A patch that applies in neither direction is under
    later edits, or is missing from lines that a pull changed as well.
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
    """Revert patches, the last first, until `keep` are left.

    Raises `LostEditsError` if the patched lines were edited later.
    """
    git.restore_patched_files(tree, _resolve_patch_backup(state))
    series = read_applied_patches(tree, state)
    for number in range(len(series), keep, -1):
        patch = find_patch_copy(state, series[number - 1])
        if git.is_as_committed(tree, patch):
            pass  # upstream or the user has committed the patch, so it stays
        elif git.can_apply_patch(tree, patch, reverse=True):
            git.apply_patch(tree, patch, reverse=True, log=log, keep=_resolve_patch_backup(state))
        elif not git.can_apply_patch(
            tree, patch
        ):  # it applies forward if a killed run had already reverted it
            raise LostEditsError(
                "a patch cannot be taken back, because the lines it changed were edited since",
                location=str(tree),
                hint=f"undo those edits, or list the patch in source.patches again: {patch}",
            )
        _write_patch_record(tree, state, series[: number - 1])


def clear_applied_patches(state: PurePath) -> None:
    """Remove the record, for a new tree without patches."""
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
    """Return the path of the stored copy of an applied patch."""
    return Path(state) / "patches" / f"{digest}.patch"


def _write_patch_record(tree: PurePath, state: PurePath, series: tuple[str, ...]) -> None:
    files.write_atomic(
        _resolve_patch_record(state), format_canonical_json(AppliedPatches(str(tree), series))
    )


_OUTPUT_FOLDERS = ("build", "dist")


def compute_tree_digest(tree: PurePath, scratch: PurePath) -> str:
    """Return the sha256 over path and content of every file, without build outputs.

    The tree's .gitignore defines the build outputs; git reads it with `scratch` as an empty
    repository. Without git, only the usual outputs (build, dist, *.egg-info, __pycache__) are left
    out.
    """
    root = Path(tree)
    try:
        paths = git.list_unignored_files(root, scratch)
    except MissingToolError:
        return source_trees.hash_source_tree(root)
    total = hashlib.sha256()
    for path in paths:
        if not _is_build_output(path):
            total.update(f"{path}\0{_hash_tree_entry(root, path)}\n".encode())
    return total.hexdigest()


def _hash_tree_entry(root: Path, path: str) -> str:
    inner_repository = path.endswith("/")
    return (
        source_trees.hash_source_tree(root / path)
        if inner_repository
        else fingerprint_file(root / path)
    )


def _is_build_output(path: str) -> bool:
    parts = PurePath(path).parts
    return parts[0] in _OUTPUT_FOLDERS or any(
        p == "__pycache__" or p.endswith(".egg-info") for p in parts
    )


def preview_source_changes(job: SourceJob) -> tuple[str, ...]:
    """Return why the tree, or its recorded state, would change; empty if nothing would."""
    if not Path(job.tree).is_dir():
        return (f"{job.location} is not here yet",)
    return tuple(_list_pending_changes(job))


def _list_pending_changes(job: SourceJob) -> Iterator[str]:
    if job.kind == "git" and not git.is_at_ref(
        job.tree, job.location, job.checkout_ref, job.submodules
    ):
        yield f"{job.checkout_ref} is to be checked out"
    if read_applied_patches(job.tree, job.state) != hash_patches(job.patches):
        yield "the series of patches changed"
    if git.is_checkout(job.tree) and (last_tree := read_last_tree(job)):
        yield from _list_checkout_changes(job, last_tree)


def read_last_tree(job: SourceJob) -> SourceTree | None:
    """Return the tree's state in the last finished run, or None if it is not available."""
    try:
        tree = manifests.read_manifest(job.manifest, SourceTree)
    except TorchyardError:
        return None
    return tree if tree.tree == str(job.tree) else None


def _list_checkout_changes(job: SourceJob, last: SourceTree) -> Iterator[str]:
    state = git.read_git_state(job.tree)
    stale = git.list_stale_submodules(job.tree, last.commit) if job.submodules else ()
    changes = tuple(
        describe_tree_changes(last, replace(state, submodules=last.submodules) if stale else state)
    )
    yield from changes
    if stale:
        yield f"submodules to bring along: {', '.join(stale)}"
    if changes:
        yield from describe_kept_submodules(job, stale)


def describe_tree_changes(last: SourceTree, now: git.GitState | SourceTree) -> Iterator[str]:
    """Yield how a checkout differs from the last recorded state."""
    if last.commit and now.commit != last.commit:
        yield f"commit {last.commit[:8]} → {now.commit[:8]}"
    if dict(now.submodules) != dict(last.submodules):
        yield "submodules moved"
    if now.edits != last.edits:
        yield "uncommitted edits changed" if now.edits else "uncommitted edits are gone"


def describe_kept_submodules(job: SourceJob, stale: Sequence[str] = ()) -> Iterator[str]:
    """Yield the submodules that the user moved, which are not updated.

    `stale` submodules are left out: they are updated.
    """
    if job.submodules and (
        user_commits := sorted({*git.list_changed_submodules(job.tree)} - {*stale})
    ):
        yield (
            f"submodules left at a commit that the tree does not record: {', '.join(user_commits)} "
            f"(git -C {job.tree} submodule update brings them to theirs)"
        )
