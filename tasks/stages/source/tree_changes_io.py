"""Apply and revert patches, compute the digest of a tree, and describe changes of a checkout."""

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path, PurePath

from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import LostEditsError, MissingToolError, TorchyardError
from tasks.stages.source.model import SourceJob, SourceTree
from tasks.system import files, manifests, source_trees
from tasks.system.git import checkout_state, clones, local_changes
from tasks.system.git.checkout_state import fingerprint_file
from tasks.system.output import print_line


@dataclass(frozen=True)
class AppliedPatches:
    """The record patches.json: the sha256 of each patch that is applied to `tree`, in order."""

    tree: str
    applied: tuple[str, ...] = ()


def read_applied_patches(tree: PurePath, state: PurePath) -> tuple[str, ...]:
    """Return the sha256 of each patch that is applied to `tree`, according to the record."""
    if not (record := _resolve_patch_record(state)).exists():
        return ()
    series = manifests.read_manifest(record, AppliedPatches)
    return series.applied if series.tree == str(tree) else ()


def hash_patches(patches: Sequence[PurePath]) -> tuple[str, ...]:
    """Return the sha256 of each patch file; raise `TorchyardError` if one is missing."""
    if missing := next((patch for patch in patches if not Path(patch).is_file()), None):
        raise TorchyardError("this patch does not exist", location=f"source.patches: {missing}")
    return tuple(files.read_artifact(patch).sha256 for patch in patches)


def update_patches(
    tree: PurePath, state: PurePath, patches: Sequence[PurePath], log: PurePath
) -> tuple[str, ...]:
    """Revert outdated patches, apply the missing ones, and return the sha256 of all patches."""
    digests = hash_patches(patches)
    local_changes.restore_patched_files(tree, _resolve_patch_backup(state))
    _drop_missing_patches(tree, state, digests)
    pairs = zip(read_applied_patches(tree, state), digests, strict=False)
    kept = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    revert_patches(tree, state, log, keep=kept)
    for patch, digest in zip(map(Path, patches[kept:]), digests[kept:], strict=True):
        if local_changes.can_apply_patch(tree, patch):
            local_changes.apply_patch(tree, patch, log=log, keep=_resolve_patch_backup(state))
        elif not local_changes.can_apply_patch(tree, patch, reverse=True):
            message = f"{patch.name} does not apply to this tree"
            hint = f"correct or remove this patch. To see why: git -C {tree} apply --check {patch}"
            raise TorchyardError(message, location=f"source.patches: {patch}", hint=hint)
        copy = find_patch_copy(state, digest)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(patch, copy)
        _write_patch_record(tree, state, (*read_applied_patches(tree, state), digest))
    return digests


def _drop_missing_patches(tree: PurePath, state: PurePath, requested: Sequence[str]) -> None:
    """Remove the first patch that is no longer in the tree, and all later ones, from the record.

    For example, `git stash` reverts patches without updating the record. A patch counts as missing
    if it cannot be reverted, and either can be applied or its files have no edits.
    """
    series = read_applied_patches(tree, state)
    for number, digest in enumerate(series):
        patch = find_patch_copy(state, digest)
        if not local_changes.can_apply_patch(tree, patch, reverse=True) and (
            local_changes.can_apply_patch(tree, patch) or local_changes.is_as_committed(tree, patch)
        ):
            if digest in requested:
                print_line(f"applying a patch of this profile again, which {tree} lost")
            _write_patch_record(tree, state, series[:number])
            return


def revert_patches(tree: PurePath, state: PurePath, log: PurePath, keep: int = 0) -> None:
    """Revert all but the first `keep` patches. Raises `LostEditsError` if this would lose edits."""
    local_changes.restore_patched_files(tree, _resolve_patch_backup(state))
    series = read_applied_patches(tree, state)
    for number in range(len(series), keep, -1):
        patch = find_patch_copy(state, series[number - 1])
        if local_changes.is_as_committed(tree, patch):
            pass  # upstream or the user has committed the patch, so it stays
        elif local_changes.can_apply_patch(tree, patch, reverse=True):
            local_changes.apply_patch(
                tree, patch, reverse=True, log=log, keep=_resolve_patch_backup(state)
            )
        elif not local_changes.can_apply_patch(tree, patch):  # a killed run may have reverted it
            message = "cannot revert a patch: the lines that it changed were edited later"
            hint = f"undo those edits, or list the patch in source.patches again: {patch}"
            raise LostEditsError(message, location=str(tree), hint=hint)
        _write_patch_record(tree, state, series[: number - 1])


def clear_applied_patches(state: PurePath) -> None:
    """Remove the record of applied patches, for a new tree without patches."""
    _resolve_patch_record(state).unlink(missing_ok=True)


def _resolve_patch_backup(state: PurePath) -> Path:
    return Path(state) / "patching"


def _resolve_patch_record(state: PurePath) -> Path:
    return Path(state) / "patches.json"


def find_patch_copy(state: PurePath, digest: str) -> Path:
    """Return the path of the stored copy of an applied patch."""
    return Path(state) / "patches" / f"{digest}.patch"


def _write_patch_record(tree: PurePath, state: PurePath, series: tuple[str, ...]) -> None:
    record = AppliedPatches(str(tree), series)
    files.write_atomic(_resolve_patch_record(state), format_canonical_json(record))


def compute_tree_digest(tree: PurePath, scratch: PurePath) -> str:
    """Return a sha256 over the paths and contents of all files except build outputs.

    Build outputs are build, dist, *.egg-info, __pycache__ and, if git is installed, the files that
    .gitignore excludes. `scratch` is for an empty repository that git needs for this.
    """
    root = Path(tree)
    try:
        paths = checkout_state.list_unignored_files(root, scratch)
    except MissingToolError:
        return source_trees.hash_source_tree(root)
    total = hashlib.sha256()
    for path in paths:
        parts = PurePath(path).parts
        is_output = any(part == "__pycache__" or part.endswith(".egg-info") for part in parts)
        if not (is_output or parts[0] in {"build", "dist"}):
            is_repository = path.endswith("/")
            hash_entry = source_trees.hash_source_tree if is_repository else fingerprint_file
            total.update(f"{path}\0{hash_entry(root / path)}\n".encode())
    return total.hexdigest()


def preview_source_changes(job: SourceJob) -> Iterator[str]:
    """Yield the reasons why a run would change the tree or the recorded state."""
    if not Path(job.tree).is_dir():
        yield f"{job.location} was not fetched yet"
        return
    ref = job.checkout_ref
    if job.kind == "git" and not clones.is_at_ref(job.tree, job.location, ref, job.submodules):
        yield f"git will check out {ref}"
    if read_applied_patches(job.tree, job.state) != hash_patches(job.patches):
        yield "source.patches changed"
    if checkout_state.is_checkout(job.tree) and (last := read_last_tree(job)):
        state = checkout_state.read_git_state(job.tree)
        stale = clones.list_stale_submodules(job.tree, last.commit) if job.submodules else ()
        state = replace(state, submodules=last.submodules) if stale else state
        changes = tuple(describe_tree_changes(last, state))
        yield from changes
        if stale:
            yield f"git will update the submodules {', '.join(stale)}"
        if changes:
            yield from describe_kept_submodules(job, stale)


def read_last_tree(job: SourceJob) -> SourceTree | None:
    """Return the state of the tree after the last finished run, or None if none is recorded."""
    tree = manifests.find_manifest(job.manifest, SourceTree)
    return tree if tree and tree.tree == str(job.tree) else None


def describe_tree_changes(
    last: SourceTree, now: checkout_state.GitState | SourceTree
) -> Iterator[str]:
    """Yield each difference of a checkout from the last recorded state."""
    if last.commit and now.commit != last.commit:
        yield f"commit {last.commit[:8]} → {now.commit[:8]}"
    if dict(now.submodules) != dict(last.submodules):
        yield "submodules changed"
    if now.edits != last.edits:
        yield "uncommitted edits changed" if now.edits else "uncommitted edits were removed"


def describe_kept_submodules(job: SourceJob, stale: Sequence[str] = ()) -> Iterator[str]:
    """Yield a message if the user checked out commits of submodules (except `stale` ones)."""
    changed = {*clones.list_changed_submodules(job.tree)} if job.submodules else set()
    if names := sorted(changed - {*stale}):
        yield (
            f"kept the commits that you checked out in these submodules: {', '.join(names)}. For "
            f"the commits that the tree records, run git -C {job.tree} submodule update"
        )
