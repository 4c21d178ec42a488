"""What a person did in a clone of ours and is nowhere else: edits, new files, commits that no
branch of a remote has, stashes, and other work trees. No part of it is what our patches changed,
what git ignores, and what a build leaves in submodules.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.system import shell
from tasks.system.git.command import build_git_command
from tasks.system.git.state import (
    capture_git_output,
    find_git_folder,
    list_checked_out_submodules,
    read_head_commit,
)

_NON_COMMIT_ENTRY = re.compile(
    r"(?:checkout|reset|clone|branch)\b|[^:]*rebase[^:]*\((?:start|finish|abort)\)"
    r"|.*: fast-forward$",
    re.IGNORECASE,
)
_STATUS_OPTIONS = ("--porcelain", "-z", "--no-renames", "--ignore-submodules=untracked")


def list_local_changes(tree: PurePath, patches: Sequence[PurePath] = ()) -> tuple[str, ...]:
    """Its kinds, in words; none where there is none. `patches` are those of ours in the tree."""
    try:
        if not read_head_commit(Path(tree)):
            return ()  # it was never checked out to its end
        return tuple(dict.fromkeys(_iterate_change_kinds(Path(tree), patches)))
    except (CommandFailedError, MissingToolError, OSError):
        return ("what git cannot read",)


def _iterate_change_kinds(tree: Path, patches: Sequence[PurePath]) -> Iterator[str]:
    if _has_edits(tree, patches):
        yield "edits"
    for place in (tree, *(tree / path for path, _ in list_checked_out_submodules(tree))):
        if _has_local_commits(place):
            yield "commits"
        if capture_git_output(place, "stash", "list"):
            yield "stashes"
        if any((find_git_folder(place) / "worktrees").glob("*")):
            yield "other work trees"


def _has_edits(tree: Path, patches: Sequence[PurePath]) -> bool:
    """Against a copy of the index that has the patches, too; what is staged is in the index."""
    staged = any(entry[0] not in " ?" for entry in _read_status_entries(tree))
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        shutil.copyfile(find_git_folder(tree) / "index", index)
        for patch in patches:
            _capture_with_index(
                tree, index, "apply", "--cached", "--whitespace=nowarn", "--", str(patch)
            )
        return staged or any(entry[1] != " " for entry in _read_status_entries(tree, index))


def _read_status_entries(tree: Path, index: Path | None = None) -> list[str]:
    said = _capture_with_index(
        tree, index or find_git_folder(tree) / "index", "status", *_STATUS_OPTIONS
    )
    return [entry for entry in said.split("\0") if entry]


def _capture_with_index(tree: Path, index: Path, *args: str) -> str:
    """What git prints where its index is that one."""
    asked = build_git_command(*args, what=f"look for edits in {tree}", at=tree)
    return shell.capture_output(replace(asked, env={**asked.env, "GIT_INDEX_FILE": str(index)}))


def _has_local_commits(tree: Path) -> bool:
    """Whether a commit was made here that no branch of a remote has, as far as is known here."""
    log = capture_git_output(tree, "log", "--walk-reflogs", "--format=%H %gs", "HEAD").splitlines()
    moves = (line.partition(" ") for line in log)
    made = {commit for commit, _, how in moves if not _NON_COMMIT_ENTRY.match(how)}
    return bool(made) and bool(
        capture_git_output(tree, "rev-list", "-n1", *sorted(made), "--not", "--remotes")
    )
