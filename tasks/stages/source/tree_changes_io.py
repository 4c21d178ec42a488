"""What a tree that is no checkout holds, as one digest of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.core.errors import MissingToolError, TorchyardError
from tasks.stages.source import patch_series_io
from tasks.stages.source.model import SourceJob, SourceTree
from tasks.system import git, manifests, source_trees
from tasks.system.git.checkout_state import fingerprint_file

_OUTPUT_FOLDERS = ("build", "dist")


def compute_tree_digest(tree: PurePath, scratch: PurePath) -> str:
    """sha256 over path and content of every file, less what a build leaves there.

    The tree's own .gitignore says what that is, read by git with `scratch` as its empty repository.
    Without git only the usual leavings (build, dist, *.egg-info, __pycache__) are left out.
    """
    root = Path(tree)
    try:
        listed = git.list_unignored_files(root, scratch)
    except MissingToolError:
        return source_trees.hash_source_tree(root)
    total = hashlib.sha256()
    for path in listed:
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
    """Why the tree, or what is known of it, would change; none where nothing would."""
    if not Path(job.tree).is_dir():
        return (f"{job.location} is not here yet",)
    return tuple(_list_pending_changes(job))


def _list_pending_changes(job: SourceJob) -> Iterator[str]:
    if job.kind == "git" and not git.is_at_ref(
        job.tree, job.location, job.checkout_ref, job.submodules
    ):
        yield f"{job.checkout_ref} is to be checked out"
    if patch_series_io.read_applied_patches(job.tree, job.state) != patch_series_io.hash_patches(
        job.patches
    ):
        yield "the series of patches changed"
    if git.is_checkout(job.tree) and (last := read_last_tree(job)):
        yield from _list_checkout_changes(job, last)


def read_last_tree(job: SourceJob) -> SourceTree | None:
    """What a finished run read of the same tree; None where that is not to be had any more."""
    try:
        last = manifests.read_manifest(job.manifest, SourceTree)
    except TorchyardError:
        return None
    return last if last.tree == str(job.tree) else None


def _list_checkout_changes(job: SourceJob, last: SourceTree) -> Iterator[str]:
    now = git.read_git_state(job.tree)
    stale = git.list_stale_submodules(job.tree, last.commit) if job.submodules else ()
    found = tuple(
        describe_tree_changes(last, replace(now, submodules=last.submodules) if stale else now)
    )
    yield from found
    if stale:
        yield f"submodules to bring along: {', '.join(stale)}"
    if found:
        yield from describe_kept_submodules(job, stale)


def describe_tree_changes(last: SourceTree, now: git.GitState | SourceTree) -> Iterator[str]:
    """What of a checkout is not as it was when it was last read."""
    if last.commit and now.commit != last.commit:
        yield f"commit {last.commit[:8]} → {now.commit[:8]}"
    if dict(now.submodules) != dict(last.submodules):
        yield "submodules moved"
    if now.edits != last.edits:
        yield "uncommitted edits changed" if now.edits else "uncommitted edits are gone"


def describe_kept_submodules(job: SourceJob, stale: Sequence[str] = ()) -> Iterator[str]:
    """Submodules that a person moved, which a pull does not move along; `stale` are no such."""
    if job.submodules and (own := sorted({*git.list_changed_submodules(job.tree)} - {*stale})):
        yield (
            f"submodules left at a commit that the tree does not record: {', '.join(own)} "
            f"(git -C {job.tree} submodule update brings them to theirs)"
        )
