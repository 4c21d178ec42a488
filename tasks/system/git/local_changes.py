"""Find the user's work that exists only in a managed clone, and apply patches without losing it.

This work is edits, new files, commits that no remote branch has, stashes and other work trees.
Changes from torchyard's patches, ignored files, and files that a build leaves in submodules do not
count.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

from tasks.core.errors import CommandFailedError, MissingToolError, TorchyardError
from tasks.core.model import Command
from tasks.core.text_formatting import format_short_list
from tasks.system import files, shell
from tasks.system.git.checkout_state import (
    capture_git_output,
    find_git_folder,
    is_checkout,
    list_checked_out_submodules,
    read_head_commit,
)
from tasks.system.git.git_command import build_git_command
from tasks.system.output import print_line, print_warning

_NON_COMMIT_ENTRY = re.compile(
    r"(?:checkout|reset|clone|branch)\b|[^:]*rebase[^:]*\((?:start|finish|abort)\)"
    r"|.*: fast-forward$",
    re.IGNORECASE,
)
_STATUS_OPTIONS = ("--porcelain", "-z", "--no-renames", "--ignore-submodules=untracked")


def list_local_changes(tree: PurePath, patches: Sequence[PurePath] = ()) -> tuple[str, ...]:
    """Return the kinds of local changes in words, () without local changes.

    `patches` are torchyard's patches in the tree.
    """
    try:
        if not read_head_commit(Path(tree)):
            return ()  # no checkout has finished here
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
    """Return True if the tree has edits other than the patches, or staged changes.

    The tree is compared with a copy of the index that includes the patches.
    """
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
    output = _capture_with_index(
        tree, index or find_git_folder(tree) / "index", "status", *_STATUS_OPTIONS
    )
    return [entry for entry in output.split("\0") if entry]


def _capture_with_index(tree: Path, index: Path, *args: str) -> str:
    """Return the output of a git command that uses that index file."""
    command = build_git_command(*args, what=f"look for edits in {tree}", at=tree)
    return shell.capture_output(replace(command, env={**command.env, "GIT_INDEX_FILE": str(index)}))


def _has_local_commits(tree: Path) -> bool:
    """Return True if a commit was made here that no known remote branch has."""
    log = capture_git_output(tree, "log", "--walk-reflogs", "--format=%H %gs", "HEAD").splitlines()
    entries = (line.partition(" ") for line in log)
    local_commits = {commit for commit, _, action in entries if not _NON_COMMIT_ENTRY.match(action)}
    return bool(local_commits) and bool(
        capture_git_output(tree, "rev-list", "-n1", *sorted(local_commits), "--not", "--remotes")
    )


# What git keeps in its folder while an operation is in progress. A rebase that stops also leaves
# CHERRY_PICK_HEAD, so it comes first.
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
    """Return the conflicts of a checkout and its submodules, None without conflicts."""
    top = Path(tree)
    if not is_checkout(top) or not (paths := _list_unmerged_paths(top)):
        return None
    repositories = dict.fromkeys(
        next(folder for folder in (top / path).parents if is_checkout(folder)) for path in paths
    )
    hints = [_build_conflict_hint(repository) for repository in repositories]
    return MergeConflicts(tuple(paths), format_short_list(hints, _MOST_REPOSITORIES, "; "))


def require_merged(tree: PurePath, where: str) -> None:
    """Raise `TorchyardError` with the setting `where` if the checkout has merge conflicts.

    Warn about an operation in progress that has no conflicts.
    """
    if conflicts := find_conflicts(tree):
        raise TorchyardError(f"in {tree} {conflicts}", location=where, hint=conflicts.hint)
    top = Path(tree)
    if is_checkout(top) and (abort_command := _find_abort_command(top)):
        name = abort_command.split()[0]
        git = f"git -C {_quote_folder(top)} {abort_command}"
        print_warning(
            f"git {name} is in progress in {tree}: the files are built as they are now; "
            f"to end it, run {git}"
        )


def _list_unmerged_paths(tree: Path) -> list[str]:
    try:
        output = capture_git_output(tree, "ls-files", "--stage", "--recurse-submodules", "-z")
    except CommandFailedError:  # an older git, or .gitmodules itself has conflicts
        output = capture_git_output(tree, "ls-files", "--unmerged", "-z")
    entries = (entry.partition("\t") for entry in output.split("\0") if entry)
    return sorted({path for head, _, path in entries if not head.endswith(" 0")})


def _find_operation(repository: Path) -> str:
    place = find_git_folder(repository)
    return next((name for mark, name in _GIT_OPERATIONS if (place / mark).exists()), "")


def _find_abort_command(repository: Path) -> str:
    """Return the git arguments that end the operation in progress, "" if there is no operation."""
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


_BACKUP_LIST, _BACKUP_FILES, _ASIDE_FOLDER = "files.txt", "files", "aside"


@contextmanager
def keep_backup(tree: PurePath, patch: Path, folder: Path) -> Iterator[None]:
    """Keep a backup of the files that the patch changes in a managed folder during the block.

    Raises `TorchyardError` if the patch names a file outside of the tree.
    """
    restore_patched_files(tree, folder)
    existing = {
        name: _is_file_or_link(Path(tree) / name) for name in list_patched_files(tree, patch)
    }
    for name in (name for name, exists in existing.items() if exists):
        _link_or_copy_file(Path(tree) / name, folder / _BACKUP_FILES / name)
    files.write_atomic(folder / _BACKUP_LIST, json.dumps(existing))
    try:
        yield
    except CommandFailedError:
        restore_patched_files(tree, folder)
        raise
    _remove_backup(folder)


def restore_patched_files(tree: PurePath, folder: Path) -> None:
    """Restore the files that an interrupted patch changed.

    Files that were edited since are copied to a separate folder, which is reported.
    """
    existing = _read_backup_list(folder)
    aside = _find_free_folder(folder.with_name(_ASIDE_FOLDER))
    missing = [
        name
        for name, existed in existing.items()
        if existed and not _is_file_or_link(folder / _BACKUP_FILES / name)
    ]
    for name in (name for name in existing if name not in missing):
        _restore_file(Path(tree) / name, folder / _BACKUP_FILES / name, aside / name)
    if missing:
        print_warning(
            f"a patch was cut off in {tree}, and what it changed cannot be put back, since nothing "
            f"of it is in {folder / _BACKUP_FILES}: {', '.join(missing)}; see git -C {tree} diff"
        )
    elif existing:
        print_line(f"a patch was cut off in {tree}: its files are as they were before it")
    if aside.exists():
        print_warning(f"what these files held instead is in {aside}: edits made since are there")
    _remove_backup(folder)


def list_patched_files(tree: PurePath, patch: Path) -> list[str]:
    """Return the files that git would change; a rename has one in each direction."""
    names: set[str] = set()
    for direction in ((), ("--reverse",)):
        argv = ("apply", "--numstat", "-z", *direction, "--", str(patch))
        output = shell.capture_output(
            build_git_command(*argv, what=f"read patch {patch.name}", at=tree)
        )
        names.update(entry.split("\t", 2)[2] for entry in output.split("\0") if entry)
    for name in names:
        if not _is_inside_tree(Path(tree), name):
            raise TorchyardError(
                f"this patch changes a file outside of {tree}: {name}",
                location=str(patch),
                hint="take that file out of the patch",
            )
    return sorted(names)


def _is_inside_tree(tree: Path, name: str) -> bool:
    pure = PurePosixPath(name), PureWindowsPath(name)
    if any(path.anchor or ".." in path.parts for path in pure):
        return False
    return (tree / name).parent.resolve().is_relative_to(tree.resolve())


def _read_backup_list(folder: Path) -> Mapping[str, bool]:
    """Return whether each file existed before the patch."""
    path = folder / _BACKUP_LIST
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    if text.startswith("{"):
        return dict(json.loads(text))
    return {
        name: _is_file_or_link(folder / _BACKUP_FILES / name) for name in text.split("\n") if name
    }


def _find_free_folder(aside: Path) -> Path:
    number = 1
    while (aside / str(number)).exists():
        number += 1
    return aside / str(number)


def _restore_file(path: Path, before: Path, aside: Path) -> None:
    if _is_file_or_link(path):
        if _is_file_or_link(before) and _is_same_file(path, before):
            return
        _copy_with_parents(path, aside)
    if _is_file_or_link(before):
        _link_or_copy_file(before, path)
    elif _is_file_or_link(path):
        path.unlink()


def _is_file_or_link(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _is_same_file(one: Path, other: Path) -> bool:
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and one.readlink() == other.readlink()
    modes = (path.stat().st_mode & 0o100 for path in (one, other))
    return len(set(modes)) == 1 and one.read_bytes() == other.read_bytes()


def _link_or_copy_file(source: Path, target: Path) -> None:
    """Link or copy a file over `target`, which is replaced only when the new file is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.torchyard")
    new.unlink(missing_ok=True)
    try:
        os.link(source, new, follow_symlinks=False)
    except (OSError, NotImplementedError):  # another disk, or a file system without links
        _copy_with_parents(source, new)
    new.replace(target)
    new.unlink(missing_ok=True)  # renaming onto another hard link of the same file does nothing


def _copy_with_parents(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)


def _remove_backup(folder: Path) -> None:
    """Remove the backup, its list first: files without a list are not used as a backup."""
    (folder / _BACKUP_LIST).unlink(missing_ok=True)
    files.remove_owned(folder)


def can_apply_patch(tree: PurePath, patch: PurePath, *, reverse: bool = False) -> bool:
    """Return True if the patch can be applied; with `reverse`, if it can be reverted."""
    try:
        shell.capture_output(
            _build_patch_command(tree, patch, "--check", *_build_direction_option(reverse))
        )
    except CommandFailedError:
        return False
    return True


def is_as_committed(tree: PurePath, patch: Path) -> bool:
    """Return True if git sees no change in any file of the patch.

    The user reverted the patch, or a commit contains it now. False if the tree is not a checkout.
    """
    if not is_checkout(tree):
        return False
    repositories = [path for path, _ in list_checked_out_submodules(tree)]
    return not any(
        _read_file_status(tree, name, repositories) for name in list_patched_files(tree, patch)
    )


def _read_file_status(tree: PurePath, name: str, repositories: Sequence[str]) -> str:
    inner = max((path for path in repositories if name.startswith(f"{path}/")), key=len, default="")
    checkout, relative_name = Path(tree) / inner, name.removeprefix(f"{inner}/")
    options = ("--porcelain", "--ignored", "--untracked-files=all")
    return capture_git_output(
        checkout, "--literal-pathspecs", "status", *options, "--", relative_name
    )


def apply_patch(
    tree: PurePath,
    patch: PurePath,
    *,
    reverse: bool = False,
    log: PurePath | None = None,
    keep: Path | None = None,
) -> None:
    """Apply a patch, or revert it; on `CommandFailedError` the tree is unchanged.

    With `keep`, a managed folder, `restore_patched_files` also restores the tree after a SIGKILL.
    """
    with keep_backup(tree, Path(patch), keep) if keep else nullcontext():
        shell.run_command(
            _build_patch_command(tree, patch, *_build_direction_option(reverse), log=log)
        )


def _build_direction_option(reverse: bool) -> tuple[str, ...]:
    return ("--reverse",) if reverse else ()


def _build_patch_command(
    tree: PurePath, patch: PurePath, *options: str, log: PurePath | None = None
) -> Command:
    argv = ("apply", "--whitespace=nowarn", *options, "--", str(patch))
    return build_git_command(*argv, what=f"patch {patch.name}", at=tree, log=log)
