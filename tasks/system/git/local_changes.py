"""What a person did in a clone of ours and is nowhere else: edits, new files, commits that no
branch of a remote has, stashes, and other work trees. No part of it is what our patches changed,
what git ignores, and what a build leaves in submodules.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, MissingToolError, TorchyardError
from tasks.core.text_formatting import format_short_list
from tasks.system import shell
from tasks.system.git.checkout_state import (
    capture_git_output,
    find_git_folder,
    is_checkout,
    list_checked_out_submodules,
    read_head_commit,
)
from tasks.system.git.git_command import build_git_command
from tasks.system.output import print_warning

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


# What git keeps in its folder while an operation is in progress. A rebase that stops leaves
# CHERRY_PICK_HEAD, too, so it comes first.
_GIT_OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
)
_MOST_PATHS, _MOST_REPOSITORIES = 5, 3


@dataclass(frozen=True)
class MergeConflicts:
    """The unmerged `paths` relative to the checkout, and a `hint` with git commands."""

    paths: tuple[str, ...]
    hint: str

    def __str__(self) -> str:
        count = "1 file has" if len(self.paths) == 1 else f"{len(self.paths)} files have"
        return f"{count} merge conflicts: {format_short_list(self.paths, _MOST_PATHS)}"


def find_conflicts(tree: PurePath) -> MergeConflicts | None:
    """Return the conflicts of a checkout and its submodules, None if there are none."""
    top = Path(tree)
    if not is_checkout(top) or not (paths := _list_unmerged_paths(top)):
        return None
    repositories = dict.fromkeys(
        next(folder for folder in (top / path).parents if is_checkout(folder)) for path in paths
    )
    hints = [_build_conflict_hint(repository) for repository in repositories]
    return MergeConflicts(tuple(paths), format_short_list(hints, _MOST_REPOSITORIES, "; "))


def require_merged(tree: PurePath, where: str) -> None:
    """Raise a `BuildError` with the setting `where` if the checkout has merge conflicts. Warn about
    an operation in progress that has none.
    """
    if found := find_conflicts(tree):
        raise TorchyardError(f"in {tree} {found}", location=where, hint=found.hint)
    top = Path(tree)
    if is_checkout(top) and (ending := _find_abort_command(top)):
        name = ending.split()[0]
        git = f"git -C {_quote_folder(top)} {ending}"
        print_warning(
            f"git {name} is in progress in {tree}: the files are built as they are now; "
            f"to end it, run {git}"
        )


def _list_unmerged_paths(tree: Path) -> list[str]:
    try:
        listed = capture_git_output(tree, "ls-files", "--stage", "--recurse-submodules", "-z")
    except CommandFailedError:  # an older git, or .gitmodules itself has conflicts
        listed = capture_git_output(tree, "ls-files", "--unmerged", "-z")
    entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
    return sorted({path for head, _, path in entries if not head.endswith(" 0")})


def _find_operation(repository: Path) -> str:
    place = find_git_folder(repository)
    return next((name for mark, name in _GIT_OPERATIONS if (place / mark).exists()), "")


def _find_abort_command(repository: Path) -> str:
    """Return the arguments of git that end the operation in progress, "" if there is none."""
    if operation := _find_operation(repository):
        return f"{operation} --abort"
    return "bisect reset" if (find_git_folder(repository) / "BISECT_LOG").exists() else ""


def _build_conflict_hint(repository: Path) -> str:
    """Return how to finish or undo the operation in conflict; git records none for `stash pop`."""
    git, operation = f"git -C {_quote_folder(repository)}", _find_operation(repository)
    if not operation:
        return f"resolve them, then {git} add FILE; {git} status lists them"
    undo, go_on = f"{git} {operation} --abort", f"{git} {operation} --continue"
    return f"undo it with {undo}, or resolve them and {go_on}"


def _quote_folder(folder: Path) -> str:
    return f'"{folder}"' if " " in str(folder) else str(folder)
