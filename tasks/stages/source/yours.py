"""The trees among our sources that hold what a person did and nobody else has."""

from __future__ import annotations

from pathlib import Path

from tasks.stages.source import series
from tasks.stages.source.action import TreeSnapshot
from tasks.stages.source.tree import compute_tree_digest
from tasks.system import git, manifests


def find_user_changes(state: Path) -> dict[Path, tuple[str, ...]]:
    """What each holds, by its path; those that hold nothing of the kind are not there."""
    trees = [*state.glob("pytorch"), *state.glob("pytorch.*")]  # a number: it was set aside
    found = {tree: _list_user_changes(tree, state) for tree in sorted(trees)}
    return {tree: held for tree, held in found.items() if held}


def _list_user_changes(tree: Path, state: Path) -> tuple[str, ...]:
    if git.is_checkout(tree):
        patches = [
            series.find_patch_copy(state, one) for one in series.read_applied_patches(tree, state)
        ]
        return git.list_local_changes(tree, patches)
    return () if _is_unchanged_archive(tree, state) else ("edits",)


def _is_unchanged_archive(tree: Path, state: Path) -> bool:
    """A patch of ours makes another digest, too: which it was cannot be told."""
    path = state / "seen.json"
    seen = manifests.read_manifest(path, TreeSnapshot) if path.exists() else TreeSnapshot("")
    return (
        seen.tree == str(tree) and compute_tree_digest(tree, state / "listing.git") == seen.digest
    )
