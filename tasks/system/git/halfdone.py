"""A submodule whose checkout was cut off: git's own files give way, a person's never do.

Git's own are those that are missing, empty, or as the commit has them that was to be checked out.
In a clone of ours the others are kept in a ref; in a person's clone they stay, and who made them is
the person's to say.
"""

from __future__ import annotations

from pathlib import Path

from tasks.core.errors import CommandFailedError, LostEditsError
from tasks.system import files, shell
from tasks.system.git.command import build_git_command
from tasks.system.git.standing import has_git_activity_since
from tasks.system.git.state import capture_git_output, is_checkout
from tasks.system.voice import print_line, print_warning

_INTERRUPTED_REF = "refs/torchyard/interrupted"
_NAMES_PER_COMMAND = 100  # names in one command: its length has a limit


def repair_partial_checkout(tree: Path, path: str, until: float) -> None:
    """What a checkout left half done at `path`, unless a person was at work after `until`, in
    seconds since 1970.
    """
    inner = tree / path
    if not is_checkout(inner):
        return
    _remove_blocking_files(tree, inner)
    if not (names := list_changed_files(inner)):
        return
    others = [
        name
        for name in _list_differing_files(tree, inner, names)
        if _has_file_content(inner / name)
    ]
    if has_git_activity_since(inner, until) or any(
        _read_mtime(inner / name) > until for name in others
    ):
        print_warning(
            f"{inner} was changed after its update was cut off, and is left as it is; see "
            f"git -C {inner} status; git -C {inner} checkout -- FILE brings a file back"
        )
    elif files.is_owned(tree):
        save_changes_in_ref(inner)
        capture_git_output(inner, "reset", "--quiet", "--hard", what="put in order")
    else:
        _restore_missing_files(inner, names, others)


def list_changed_files(inner: Path) -> tuple[str, ...]:
    """Tracked files that are not as committed."""
    listed = capture_git_output(inner, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no",
                 "--ignore-submodules=all")  # fmt: skip
    return tuple(entry[3:] for entry in listed.split("\0") if entry)


def save_changes_in_ref(inner: Path) -> None:
    """Keep what tracked files hold in a ref that no other was kept in."""
    kept = build_git_command("stash", "create", what="keep the interrupted checkout", at=inner)
    if commit := shell.capture_output(kept).strip():
        ref = _find_free_ref(inner)
        capture_git_output(inner, "update-ref", ref, commit)
        print_line(f"{inner}: what the interrupted checkout held is in {ref}")


def _find_free_ref(inner: Path) -> str:
    taken = set(
        capture_git_output(inner, "for-each-ref", "--format=%(refname)", "refs/torchyard").split()
    )
    ref, number = _INTERRUPTED_REF, 2
    while ref in taken:
        ref, number = f"{_INTERRUPTED_REF}-{number}", number + 1
    return ref


def _restore_missing_files(inner: Path, names: tuple[str, ...], others: list[str]) -> None:
    """In a person's clone: files that git wrote or removed, and nothing if there are others."""
    if others or not _is_in_head(inner, names):
        raise LostEditsError(
            "its update was cut off, and whose these files are cannot be told: "
            + ", ".join((others or list(names))[:5]),
            location=str(inner),
            hint=f"look at them (git -C {inner} diff HEAD); then keep them (git -C {inner} commit "
            f"-a, or stash), or bring back what was committed (git -C {inner} checkout --force "
            "HEAD), and run the same command again",
        )
    for first in range(0, len(names), _NAMES_PER_COMMAND):
        some = names[first : first + _NAMES_PER_COMMAND]
        capture_git_output(inner, "--literal-pathspecs", "checkout", "--quiet", "HEAD", "--", *some)
    print_line(f"{inner}: files that the interrupted checkout left out are back")


def _is_in_head(inner: Path, names: tuple[str, ...]) -> bool:
    listed = capture_git_output(inner, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")
    return set(names) <= set(listed)


def _list_differing_files(tree: Path, inner: Path, names: tuple[str, ...]) -> list[str]:
    """Those that differ from the commit that the tree around records."""
    try:
        wanted = _read_recorded_commit(tree, inner)
        listed = capture_git_output(inner, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff",
                     "--ignore-submodules=all", wanted)  # fmt: skip
    except CommandFailedError:  # that commit was not fetched yet
        return list(names)
    return [name for name in names if name in set(listed.split("\0"))]


def _read_recorded_commit(tree: Path, inner: Path) -> str:
    around = next(one for one in inner.parents if one == tree or is_checkout(one))
    name = inner.relative_to(around).as_posix()
    return capture_git_output(
        around, "--literal-pathspecs", "ls-files", "--stage", "-z", "--", name
    ).split()[1]


def _remove_blocking_files(tree: Path, inner: Path) -> None:
    """New files of the commit that is to come are in its way: those that are as in it, or empty."""
    try:
        wanted = _read_recorded_commit(tree, inner)
        listed = capture_git_output(inner, "diff", "--name-only", "-z", "--no-renames", "--diff-filter=A",
                     "HEAD", wanted)  # fmt: skip
    except CommandFailedError:  # that commit was not fetched yet
        return
    tracked = set(capture_git_output(inner, "ls-files", "-z").split("\0"))
    names = [name for name in listed.split("\0") if name and name not in tracked]
    for name in names:
        path = inner / name
        if path.is_file() and not path.is_symlink() and _is_same_as_commit(inner, name, wanted):
            path.unlink()


def _is_same_as_commit(inner: Path, name: str, commit: str) -> bool:
    if not _has_file_content(inner / name):
        return True
    held = capture_git_output(inner, "hash-object", "--", name).strip()
    return held == capture_git_output(inner, "rev-parse", f"{commit}:{name}").strip()


def _has_file_content(path: Path) -> bool:
    """Whether there is anything in it to lose."""
    return path.is_symlink() or (path.exists() and path.stat().st_size > 0)


def _read_mtime(path: Path) -> float:
    return path.lstat().st_mtime
