"""The trees among our sources that hold what a person did and nobody else has."""

from __future__ import annotations

from pathlib import Path

from tasks.stages.source import series
from tasks.stages.source.action import Seen
from tasks.stages.source.tree import digest
from tasks.system import git, manifests


def yours(state: Path) -> dict[Path, tuple[str, ...]]:
    """What each holds, by its path; those that hold nothing of the kind are not there."""
    trees = [*state.glob("pytorch"), *state.glob("pytorch.*")]  # a number: it was set aside
    found = {tree: _held(tree, state) for tree in sorted(trees)}
    return {tree: held for tree, held in found.items() if held}


def _held(tree: Path, state: Path) -> tuple[str, ...]:
    if git.is_checkout(tree):
        patches = [series.copy_of(state, one) for one in series.applied(tree, state)]
        return git.own_work(tree, patches)
    return () if _is_as_unpacked(tree, state) else ("edits",)


def _is_as_unpacked(tree: Path, state: Path) -> bool:
    """A patch of ours makes another digest, too: which it was cannot be told."""
    path = state / "seen.json"
    seen = manifests.read(path, Seen) if path.exists() else Seen("")
    return seen.tree == str(tree) and digest(tree, state / "listing.git") == seen.digest
