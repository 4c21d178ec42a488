"""What a tree that is no checkout holds, as one digest of its files."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePath

from tasks.core.errors import MissingToolError
from tasks.system import git, trees
from tasks.system.git.state import fingerprint_file

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
        return trees.hash_source_tree(root)
    total = hashlib.sha256()
    for path in listed:
        if not _is_build_output(path):
            total.update(f"{path}\0{_hash_tree_entry(root, path)}\n".encode())
    return total.hexdigest()


def _hash_tree_entry(root: Path, path: str) -> str:
    inner_repository = path.endswith("/")
    return (
        trees.hash_source_tree(root / path) if inner_repository else fingerprint_file(root / path)
    )


def _is_build_output(path: str) -> bool:
    parts = PurePath(path).parts
    return parts[0] in _OUTPUT_FOLDERS or any(
        p == "__pycache__" or p.endswith(".egg-info") for p in parts
    )
