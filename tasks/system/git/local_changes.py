"""Find the user's work that exists only in a managed clone, and apply patches without losing it.

The user's work excludes torchyard's patches, ignored files, and build outputs in submodules.
"""

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
from tasks.system.git import checkout_state
from tasks.system.git.git_command import build_git_command
from tasks.system.output import print_line, print_warning

_NON_COMMIT_ENTRY = re.compile(
    r"(?:checkout|reset|clone|branch)\b|[^:]*rebase[^:]*\((?:start|finish|abort)\)"
    r"|.*: fast-forward$",
    re.IGNORECASE,
)


def list_local_changes(tree: PurePath, patches: Sequence[PurePath] = ()) -> tuple[str, ...]:
    """Return the kinds of local changes, such as "edits"; changes by `patches` do not count."""
    try:
        if not checkout_state.read_head_commit(Path(tree)):
            return ()  # no checkout has finished here
        return tuple(dict.fromkeys(_iterate_change_kinds(Path(tree), patches)))
    except (CommandFailedError, MissingToolError, OSError):
        return ("files that git cannot read",)


def _iterate_change_kinds(tree: Path, patches: Sequence[PurePath]) -> Iterator[str]:
    if _has_edits(tree, patches):
        yield "edits"
    for repository in (
        tree,
        *(tree / path for path, _ in checkout_state.list_checked_out_submodules(tree)),
    ):
        if _has_local_commits(repository):
            yield "commits"
        if checkout_state.capture_git_output(repository, "stash", "list"):
            yield "stashes"
        if any((checkout_state.find_git_folder(repository) / "worktrees").glob("*")):
            yield "other work trees"


def _has_edits(tree: Path, patches: Sequence[PurePath]) -> bool:
    """Return True if the tree has staged changes, or edits that are not from the patches."""
    status = ("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=untracked")
    apply = ("apply", "--cached", "--whitespace=nowarn", "--")
    real_index = checkout_state.find_git_folder(tree) / "index"
    staged = any(entry[0] not in " ?" for entry in _list_with_index(tree, real_index, *status))
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        shutil.copyfile(real_index, index)
        for patch in patches:
            _list_with_index(tree, index, *apply, str(patch))
        return staged or any(entry[1] != " " for entry in _list_with_index(tree, index, *status))


def _list_with_index(tree: Path, index: Path, *args: str) -> list[str]:
    """Return the entries that a git command prints if it uses the index file `index`."""
    command = build_git_command(*args, what=f"look for edits in {tree}", at=tree)
    env = {**command.env, "GIT_INDEX_FILE": str(index)}
    return [entry for entry in shell.capture_output(replace(command, env=env)).split("\0") if entry]


def _has_local_commits(tree: Path) -> bool:
    """Return True if a commit was made in this clone and no remote branch contains it."""
    log = checkout_state.capture_git_output(
        tree, "log", "--walk-reflogs", "--format=%H %gs", "HEAD"
    ).splitlines()
    entries = (line.partition(" ") for line in log)
    commits = sorted({commit for commit, _, kind in entries if not _NON_COMMIT_ENTRY.match(kind)})
    argv = ("rev-list", "-n1", *commits, "--not", "--remotes")
    return bool(commits and checkout_state.capture_git_output(tree, *argv))


# Files in the git folder during an operation. A stopped rebase also leaves CHERRY_PICK_HEAD
_GIT_OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
)


@dataclass(frozen=True)
class MergeConflicts:
    """The unmerged `paths` relative to the checkout, and a `hint` with git commands."""

    paths: tuple[str, ...]
    hint: str

    def __str__(self) -> str:
        count = "1 file has" if len(self.paths) == 1 else f"{len(self.paths)} files have"
        return f"{count} merge conflicts: {format_short_list(self.paths, 5)}"


def find_conflicts(tree: PurePath) -> MergeConflicts | None:
    """Return the merge conflicts of a checkout and its submodules; None without conflicts."""
    if not checkout_state.is_checkout(top := Path(tree)):
        return None
    try:
        entries = checkout_state.list_git_entries(
            top, "ls-files", "--stage", "--recurse-submodules"
        )
    except CommandFailedError:  # an older git, or .gitmodules itself has conflicts
        entries = checkout_state.list_git_entries(top, "ls-files", "--unmerged")
    pairs = (entry.partition("\t") for entry in entries)
    paths = sorted({path for head, _, path in pairs if not head.endswith(" 0")})
    repositories = dict.fromkeys(
        next(folder for folder in (top / path).parents if checkout_state.is_checkout(folder))
        for path in paths
    )
    hint = format_short_list([_build_conflict_hint(folder) for folder in repositories], 3, "; ")
    return MergeConflicts(tuple(paths), hint) if paths else None


def require_merged(tree: PurePath, where: str) -> None:
    """Raise an error if a checkout has merge conflicts; warn of an unfinished operation."""
    if conflicts := find_conflicts(tree):
        raise TorchyardError(f"in {tree} {conflicts}", location=where, hint=conflicts.hint)
    if not checkout_state.is_checkout(top := Path(tree)):
        return
    is_bisect = (checkout_state.find_git_folder(top) / "BISECT_LOG").exists()
    if operation := _find_operation(top) or ("bisect" if is_bisect else ""):
        end = "bisect reset" if operation == "bisect" else f"{operation} --abort"
        print_warning(
            f"git {operation} is in progress in {tree}: the files are built as they "
            f"are now; to end it, run git -C {_quote_folder(top)} {end}"
        )


def _find_operation(repository: Path) -> str:
    folder = checkout_state.find_git_folder(repository)
    return next((name for file, name in _GIT_OPERATIONS if (folder / file).exists()), "")


def _build_conflict_hint(repository: Path) -> str:
    """Return a hint to resolve the conflicts, and to finish or undo a merge or other operation."""
    git, operation = f"git -C {_quote_folder(repository)}", _find_operation(repository)
    if not operation:
        return f"resolve the conflicts, then run {git} add FILE; {git} status lists the files"
    undo, go_on = f"{git} {operation} --abort", f"{git} {operation} --continue"
    return f"undo the {operation} with {undo}, or resolve the conflicts and run {go_on}"


def _quote_folder(folder: Path) -> str:
    return f'"{folder}"' if " " in str(folder) else str(folder)


_BACKUP_LIST, _BACKUP_FILES = "files.txt", "files"


@contextmanager
def keep_backup(tree: PurePath, patch: Path, folder: Path) -> Iterator[None]:
    """Back up the files that a patch will change; restore them if the with block fails."""
    restore_patched_files(tree, folder)
    existing = {name: _is_file(Path(tree) / name) for name in list_patched_files(tree, patch)}
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
    """Undo an interrupted patch with the backup in `folder`; save and report edits made since."""
    existing, backup = _read_backup_list(folder), folder / _BACKUP_FILES
    aside = files.find_free_path(folder.with_name("aside"))
    missing = [name for name in existing if existing[name] and not _is_file(backup / name)]
    for name in existing.keys() - missing:
        _restore_file(Path(tree) / name, backup / name, aside / name)
    if missing:
        print_warning(
            f"applying a patch in {tree} was interrupted. torchyard cannot undo the patch, because "
            f"{backup} lacks {', '.join(missing)}. To list the changes, run git -C {tree} diff; "
            f"to discard those of a file, run git -C {tree} checkout -- FILE"
        )
    elif existing:
        print_line(f"applying a patch in {tree} was interrupted; the patched files were restored")
    if aside.exists():
        print_warning(
            f"some of these files also had edits of yours: the edited files are in {aside}"
        )
    _remove_backup(folder)


def list_patched_files(tree: PurePath, patch: Path) -> list[str]:
    """Return the files that a patch changes, with the old and the new name of renamed files."""
    names: set[str] = set()
    for direction in ((), ("--reverse",)):
        argv = ("--numstat", *direction, "--", str(patch))
        entries = checkout_state.list_git_entries(
            tree, "apply", *argv, what=f"read patch {patch.name} in"
        )
        names.update(entry.split("\t", 2)[2] for entry in entries)
    for name in names:
        pure = (PurePosixPath(name), PureWindowsPath(name))
        is_inside = (Path(tree) / name).parent.resolve().is_relative_to(Path(tree).resolve())
        if not is_inside or any(path.anchor or ".." in path.parts for path in pure):
            message = f"this patch changes a file outside of {tree}: {name}"
            hint = "remove that file from the patch"
            raise TorchyardError(message, location=str(patch), hint=hint)
    return sorted(names)


def _read_backup_list(folder: Path) -> Mapping[str, bool]:
    """Return for each file name in a backup whether the file existed before the patch."""
    path = folder / _BACKUP_LIST
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.startswith("{"):
        return dict(json.loads(text))
    names = filter(None, text.split("\n"))  # as earlier versions wrote the list
    return {name: _is_file(folder / _BACKUP_FILES / name) for name in names}


def _restore_file(path: Path, before: Path, aside: Path) -> None:
    if _is_file(path):
        if _is_file(before) and checkout_state.fingerprint_file(
            path
        ) == checkout_state.fingerprint_file(before):
            return
        _copy_with_parents(path, aside)
    if _is_file(before):
        _link_or_copy_file(before, path)
    elif _is_file(path):
        path.unlink()


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _link_or_copy_file(source: Path, target: Path) -> None:
    """Replace `target` atomically by a hard link to `source`, or by a copy if that fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.torchyard")
    new.unlink(missing_ok=True)
    try:
        os.link(source, new, follow_symlinks=False)
    except (OSError, NotImplementedError):  # another disk, or a file system without links
        _copy_with_parents(source, new)
    new.replace(target)
    new.unlink(missing_ok=True)  # a rename between hard links of one file does nothing


def _copy_with_parents(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)


def _remove_backup(folder: Path) -> None:
    """Remove a backup, its list first, so that half a backup is never restored."""
    (folder / _BACKUP_LIST).unlink(missing_ok=True)
    files.remove_owned(folder)


def can_apply_patch(tree: PurePath, patch: PurePath, *, reverse: bool = False) -> bool:
    """Return True if the patch can be applied or, if `reverse` is True, be reverted."""
    try:
        shell.capture_output(_build_patch_command(tree, patch, reverse, "--check"))
    except CommandFailedError:
        return False
    return True


def is_as_committed(tree: PurePath, patch: Path) -> bool:
    """Return True if no file of a patch differs from HEAD; False if `tree` is not a checkout."""
    if not checkout_state.is_checkout(tree):
        return False
    submodules = [path for path, _ in checkout_state.list_checked_out_submodules(tree)]
    status = ("--literal-pathspecs", "status", "--porcelain", "--ignored", "--untracked-files=all")
    for name in list_patched_files(tree, patch):
        parents = (path for path in submodules if name.startswith(f"{path}/"))
        inner = max(parents, key=len, default="")
        if checkout_state.capture_git_output(
            Path(tree) / inner, *status, "--", name.removeprefix(f"{inner}/")
        ):
            return False
    return True


def apply_patch(
    tree: PurePath,
    patch: PurePath,
    *,
    reverse: bool = False,
    log: PurePath | None = None,
    keep: Path | None = None,
) -> None:
    """Apply or revert a patch. A failure leaves the tree unchanged.

    `keep` is a folder for a backup, from which `restore_patched_files` repairs the tree after a
    SIGKILL.
    """
    with keep_backup(tree, Path(patch), keep) if keep else nullcontext():
        shell.run_command(_build_patch_command(tree, patch, reverse, log=log))


def _build_patch_command(
    tree: PurePath, patch: PurePath, reverse: bool, *options: str, log: PurePath | None = None
) -> Command:
    direction = ("--reverse",) if reverse else ()
    argv = ("apply", "--whitespace=nowarn", *options, *direction, "--", str(patch))
    return build_git_command(*argv, what=f"patch {patch.name}", at=tree, log=log)
