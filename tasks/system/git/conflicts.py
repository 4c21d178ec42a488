"""Merge conflicts of a checkout and its submodules, and the git operation that is in progress.

Everything here only reads. A worktree and a submodule have a `.git` file: `place_of` follows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, TorchyardError
from tasks.core.formatting.few import format_short_list
from tasks.system.git.state import capture_git_output, find_git_folder, is_checkout
from tasks.system.voice import print_warning

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
