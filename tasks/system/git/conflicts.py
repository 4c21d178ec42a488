"""Merge conflicts of a checkout and its submodules, and the git operation that is in progress.

Everything here only reads. A worktree and a submodule have a `.git` file: `place_of` follows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import BuildError, CommandFailedError
from tasks.core.formatting.few import few
from tasks.system.git.state import ask, is_checkout, place_of
from tasks.system.voice import warn

# What git keeps in its folder while an operation is in progress. A rebase that stops leaves
# CHERRY_PICK_HEAD, too, so it comes first.
_OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
)
_MOST_PATHS, _MOST_REPOSITORIES = 5, 3


@dataclass(frozen=True)
class Conflicts:
    """The unmerged `paths` relative to the checkout, and a `hint` with git commands."""

    paths: tuple[str, ...]
    hint: str

    def __str__(self) -> str:
        count = "1 file has" if len(self.paths) == 1 else f"{len(self.paths)} files have"
        return f"{count} merge conflicts: {few(self.paths, _MOST_PATHS)}"


def find_conflicts(tree: PurePath) -> Conflicts | None:
    """Return the conflicts of a checkout and its submodules, None if there are none."""
    top = Path(tree)
    if not is_checkout(top) or not (paths := _unmerged_paths(top)):
        return None
    repositories = dict.fromkeys(
        next(folder for folder in (top / path).parents if is_checkout(folder)) for path in paths
    )
    hints = [_hint(repository) for repository in repositories]
    return Conflicts(tuple(paths), few(hints, _MOST_REPOSITORIES, "; "))


def require_merged(tree: PurePath, where: str) -> None:
    """Raise a `BuildError` with the setting `where` if the checkout has merge conflicts. Warn about
    an operation in progress that has none.
    """
    if found := find_conflicts(tree):
        raise BuildError(f"in {tree} {found}", where=where, todo=found.hint)
    top = Path(tree)
    if is_checkout(top) and (ending := _ending(top)):
        name = ending.split()[0]
        git = f"git -C {_quoted(top)} {ending}"
        warn(
            f"git {name} is in progress in {tree}: the files are built as they are now; "
            f"to end it, run {git}"
        )


def _unmerged_paths(tree: Path) -> list[str]:
    try:
        listed = ask(tree, "ls-files", "--stage", "--recurse-submodules", "-z")
    except CommandFailedError:  # an older git, or .gitmodules itself has conflicts
        listed = ask(tree, "ls-files", "--unmerged", "-z")
    entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
    return sorted({path for head, _, path in entries if not head.endswith(" 0")})


def _operation(repository: Path) -> str:
    place = place_of(repository)
    return next((name for mark, name in _OPERATIONS if (place / mark).exists()), "")


def _ending(repository: Path) -> str:
    """Return the arguments of git that end the operation in progress, "" if there is none."""
    if operation := _operation(repository):
        return f"{operation} --abort"
    return "bisect reset" if (place_of(repository) / "BISECT_LOG").exists() else ""


def _hint(repository: Path) -> str:
    """Return how to finish or undo the operation in conflict; git records none for `stash pop`."""
    git, operation = f"git -C {_quoted(repository)}", _operation(repository)
    if not operation:
        return f"resolve them, then {git} add FILE; {git} status lists them"
    undo, go_on = f"{git} {operation} --abort", f"{git} {operation} --continue"
    return f"undo it with {undo}, or resolve them and {go_on}"


def _quoted(folder: Path) -> str:
    return f'"{folder}"' if " " in str(folder) else str(folder)
