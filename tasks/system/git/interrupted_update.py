"""Repair a checkout after a git that torchyard started was interrupted.

A killed git leaves locks, which every later git refuses. A lock is removed only if no other git
can own it.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, LostEditsError, TorchyardError
from tasks.system import files, shell
from tasks.system.git.checkout_state import (
    capture_git_output,
    find_git_folder,
    is_checkout,
    list_submodule_status,
)
from tasks.system.git.git_command import build_git_command
from tasks.system.output import print_line, print_warning

_NOTE_FILE = "torchyard-under-way.json"
_NOTE_INTERVAL = 1.0  # seconds


@dataclass(frozen=True)
class UpdateNote:
    """The note of a submodule update; submodules are listed by path.

    `paths` were requested, `fresh` were not cloned before, `clean` had no local changes, and
    `heads` maps each submodule that existed to its branch and commit. `began` and `ended` are
    seconds since 1970. `ended` is set if the update failed, and not set if the process was killed.
    """

    paths: Sequence[str] = ()
    fresh: Sequence[str] = ()
    clean: Sequence[str] = ()
    ended: float | None = None
    heads: Mapping[str, str] = field(default_factory=dict)
    began: float | None = None


def read_update_note(tree: PurePath) -> UpdateNote | None:
    """Return the note of an unfinished update, None if every update finished."""
    try:
        return UpdateNote(**json.loads(find_note_path(tree).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return UpdateNote()


def find_note_path(tree: PurePath) -> Path:
    """Return the path of the note."""
    return find_git_folder(Path(tree)) / _NOTE_FILE


def write_update_note(tree: PurePath, now: UpdateNote) -> None:
    """Write the note atomically."""
    files.write_atomic(find_note_path(tree), json.dumps(asdict(now)))


def find_last_write_time(tree: PurePath, last: UpdateNote) -> float:
    """Return the last time at which managed git can have written, in seconds since 1970."""
    return (
        last.ended
        if last.ended is not None
        else find_note_path(tree).stat().st_mtime + 2 * _NOTE_INTERVAL
    )


@contextmanager
def keep_note_current(tree: PurePath) -> Iterator[None]:
    """Update the modification time of the note every second during the block."""
    over, path = threading.Event(), find_note_path(tree)

    def touch_note() -> None:
        while not over.wait(_NOTE_INTERVAL):
            with contextlib.suppress(OSError):
                os.utime(path)

    beating = threading.Thread(target=touch_note, name="git under way", daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()


def find_submodule_repositories(tree: Path) -> dict[str, Path]:
    """Return where git keeps the repository of each submodule, path → folder."""
    if not (tree / ".gitmodules").exists():
        return {}
    output = capture_git_output(
        tree, "config", "-z", "--file", ".gitmodules", "--get-regexp", r"\.path$"
    )
    pairs = (entry.partition("\n") for entry in output.split("\0") if entry)
    modules = find_git_folder(tree) / "modules"
    return {
        path: modules / key.removeprefix("submodule.").removesuffix(".path")
        for key, _, path in pairs
    }


def is_complete_checkout(inner: Path) -> bool:
    """Return True if the checkout has a commit and an index, which git writes after all files."""
    try:
        capture_git_output(inner, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return (find_git_folder(inner) / "index").is_file()
    except (CommandFailedError, OSError):
        return False


def read_submodule_head(inner: Path) -> str:
    """Return the branch, if one is checked out, and the commit."""
    try:
        head = (find_git_folder(inner) / "HEAD").read_text(encoding="utf-8").strip()
        return f"{head} {capture_git_output(inner, 'rev-parse', 'HEAD').strip()}"
    except (CommandFailedError, OSError):
        return ""


def has_git_activity_since(inner: Path, until: float) -> bool:
    """Return True if another git was active after the managed one: HEAD or the index is newer."""
    git_folder = find_git_folder(inner)
    git_files = (git_folder / name for name in ("HEAD", "index", "logs/HEAD"))
    return any(path.exists() and path.stat().st_mtime > until for path in git_files)


def find_user_changed_submodules(tree: Path, last: UpdateNote) -> frozenset[str]:
    """Return the submodules, nested ones included, that the user moved since the interruption.

    Such a submodule is neither at the recorded commit nor where the managed git found or left it.
    The paths are relative to the top.
    """
    return frozenset(_find_user_changes(tree, tree, last, ""))


def _find_user_changes(top: Path, tree: Path, last: UpdateNote, above: str) -> Iterator[str]:
    for flag, path, _ in list_submodule_status(tree):
        inner, full = tree / path, f"{above}{path}"
        if flag == "-" or not is_checkout(inner) or not is_complete_checkout(inner):
            continue
        if flag == "+" and not _is_expected_head(top, inner, full, last):
            yield full
        yield from _find_user_changes(top, inner, last, f"{full}/")


def _is_expected_head(top: Path, inner: Path, path: str, last: UpdateNote) -> bool:
    """Return True if the user did not move a submodule that is not at the recorded commit.

    It is then where it was before the update, or where the interrupted clone left it.
    """
    if path in last.heads:
        return last.heads[path] == read_submodule_head(inner)
    is_cloned = any(
        path == fresh_path or path.startswith(f"{fresh_path}/") for fresh_path in last.fresh
    )
    return is_cloned and not has_git_activity_since(inner, find_last_write_time(top, last))


_INTERRUPTED_REF = "refs/torchyard/interrupted"
_NAMES_PER_COMMAND = 100  # names in one command: its length is limited


def repair_partial_checkout(tree: Path, path: str, until: float) -> None:
    """Repair a partial checkout at `path`, unless the user changed it after `until`.

    `until` is in seconds since 1970.
    """
    inner = tree / path
    if not is_checkout(inner):
        return
    _remove_blocking_files(tree, inner)
    if not (names := list_changed_files(inner)):
        return
    differing = [
        name
        for name in _list_differing_files(tree, inner, names)
        if _has_file_content(inner / name)
    ]
    if has_git_activity_since(inner, until) or any(
        _read_mtime(inner / name) > until for name in differing
    ):
        print_warning(
            f"{inner} was changed after its update was cut off, and is left as it is; see "
            f"git -C {inner} status; git -C {inner} checkout -- FILE brings a file back"
        )
    elif files.is_owned(tree):
        save_changes_in_ref(inner)
        capture_git_output(inner, "reset", "--quiet", "--hard", what="put in order")
    else:
        _restore_missing_files(inner, names, differing)


def list_changed_files(inner: Path) -> tuple[str, ...]:
    """Return the tracked files with local changes."""
    options = ("--no-renames", "--untracked-files=no", "--ignore-submodules=all")
    output = capture_git_output(inner, "status", "--porcelain", "-z", *options)
    return tuple(entry[3:] for entry in output.split("\0") if entry)


def save_changes_in_ref(inner: Path) -> None:
    """Save the content of changed tracked files in a new ref."""
    command = build_git_command("stash", "create", what="keep the interrupted checkout", at=inner)
    if commit := shell.capture_output(command).strip():
        ref = _find_free_ref(inner)
        capture_git_output(inner, "update-ref", ref, commit)
        print_line(f"{inner}: what the interrupted checkout held is in {ref}")


def _find_free_ref(inner: Path) -> str:
    existing_refs = set(
        capture_git_output(inner, "for-each-ref", "--format=%(refname)", "refs/torchyard").split()
    )
    ref, number = _INTERRUPTED_REF, 2
    while ref in existing_refs:
        ref, number = f"{_INTERRUPTED_REF}-{number}", number + 1
    return ref


def _restore_missing_files(inner: Path, names: tuple[str, ...], others: list[str]) -> None:
    """Restore files that git wrote or removed in the user's clone.

    Raises `LostEditsError` if there are other changed files.
    """
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
        batch = names[first : first + _NAMES_PER_COMMAND]
        capture_git_output(
            inner, "--literal-pathspecs", "checkout", "--quiet", "HEAD", "--", *batch
        )
    print_line(f"{inner}: files that the interrupted checkout left out are back")


def _is_in_head(inner: Path, names: tuple[str, ...]) -> bool:
    tracked = capture_git_output(inner, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")
    return set(names) <= set(tracked)


def _list_differing_files(tree: Path, inner: Path, names: tuple[str, ...]) -> list[str]:
    """Return the files that differ from the commit that the parent repository records."""
    try:
        recorded_commit = _read_recorded_commit(tree, inner)
        options = ("--no-renames", "--no-ext-diff", "--ignore-submodules=all")
        output = capture_git_output(inner, "diff", "--name-only", "-z", *options, recorded_commit)
    except CommandFailedError:  # that commit was not fetched yet
        return list(names)
    return [name for name in names if name in set(output.split("\0"))]


def _read_recorded_commit(tree: Path, inner: Path) -> str:
    superproject = next(parent for parent in inner.parents if parent == tree or is_checkout(parent))
    name = inner.relative_to(superproject).as_posix()
    return capture_git_output(
        superproject, "--literal-pathspecs", "ls-files", "--stage", "-z", "--", name
    ).split()[1]


def _remove_blocking_files(tree: Path, inner: Path) -> None:
    """Remove untracked files that block the checkout of the recorded commit.

    Only files that are identical to those of that commit, or empty, are removed.
    """
    try:
        recorded_commit = _read_recorded_commit(tree, inner)
        options = ("--no-renames", "--diff-filter=A")
        output = capture_git_output(
            inner, "diff", "--name-only", "-z", *options, "HEAD", recorded_commit
        )
    except CommandFailedError:  # that commit was not fetched yet
        return
    tracked = set(capture_git_output(inner, "ls-files", "-z").split("\0"))
    names = [name for name in output.split("\0") if name and name not in tracked]
    for name in names:
        path = inner / name
        if (
            path.is_file()
            and not path.is_symlink()
            and _is_same_as_commit(inner, name, recorded_commit)
        ):
            path.unlink()


def _is_same_as_commit(inner: Path, name: str, commit: str) -> bool:
    if not _has_file_content(inner / name):
        return True
    blob_id = capture_git_output(inner, "hash-object", "--", name).strip()
    return blob_id == capture_git_output(inner, "rev-parse", f"{commit}:{name}").strip()


def _has_file_content(path: Path) -> bool:
    """Return True if a file has content that could be lost."""
    return path.is_symlink() or (path.exists() and path.stat().st_size > 0)


def _read_mtime(path: Path) -> float:
    return path.lstat().st_mtime


def remove_stale_locks(tree: PurePath, last: UpdateNote) -> None:
    """Remove the locks that an interrupted managed git left, if no git is running.

    They are from between its start and its SIGKILL; a git that exited removed its locks. Other
    locks are reported.
    """
    locks = tuple(_find_update_locks(tree, last))
    if not locks:
        return
    if last.ended is None and not _is_git_running(Path(tree)):
        for lock in locks:
            lock.unlink(missing_ok=True)
        return
    for lock in locks:
        print_warning(f"{lock} may be another git's: remove it when no git is at work in {tree}")


def _find_update_locks(tree: PurePath, last: UpdateNote) -> Iterator[Path]:
    place, until = find_note_path(tree).parent, find_last_write_time(tree, last)
    for lock in place.rglob("*.lock"):
        if "worktrees" in lock.relative_to(place).parts:
            continue  # of another work tree, which the managed git did not use
        with contextlib.suppress(FileNotFoundError):
            if last.began is not None and last.began - 1 <= lock.stat().st_mtime <= until:
                yield lock


def _is_git_running(tree: Path) -> bool:
    """Return True if a git process works in this tree, or may do so."""
    import psutil  # noqa: PLC0415 - only after a run that was killed

    places = (tree.resolve(), find_note_path(tree).parent.resolve())
    for process in psutil.process_iter(["name"]):
        if not (process.info["name"] or "").startswith("git"):
            continue
        try:
            working_folder = Path(process.cwd()).resolve()
        except psutil.NoSuchProcess:  # also for a zombie
            continue
        except (psutil.Error, OSError):
            return True
        if any(working_folder.is_relative_to(place) for place in places):
            return True
    return False


@contextmanager
def track_submodule_update(tree: PurePath, paths: Sequence[str] = ()) -> Iterator[None]:
    """Repair an interrupted update, then note that the submodules `paths` are being changed."""
    repair_interrupted_update(tree)
    top, start_time = Path(tree), time.time()
    present = tuple(_list_present_submodules(top, paths))
    clean = tuple(
        path
        for path in present
        if is_complete_checkout(top / path) and not list_changed_files(top / path)
    )
    heads = {path: read_submodule_head(top / path) for path in present}
    note = UpdateNote(
        paths, tuple(_list_uncloned_submodules(top, paths)), clean, None, heads, start_time
    )
    write_update_note(tree, note)
    try:
        with keep_note_current(tree):
            yield
    except TorchyardError:
        write_update_note(
            tree, UpdateNote(note.paths, note.fresh, note.clean, time.time(), heads, start_time)
        )
        raise
    find_note_path(tree).unlink(missing_ok=True)


def list_unfinished_submodules(tree: PurePath) -> tuple[str, ...]:
    """Return the submodules of an interrupted update, without those that the user moved since."""
    note = read_update_note(tree)
    return exclude_user_changes(tree, note.paths) if note else ()


def exclude_user_changes(tree: PurePath, paths: Sequence[str]) -> tuple[str, ...]:
    """Return those of `paths` in which the user moved nothing after an interrupted update."""
    note = read_update_note(tree)
    if note is None:
        return tuple(paths)
    user_changed = find_user_changed_submodules(Path(tree), note)
    recorded = {path for _, path, _ in list_submodule_status(tree)}
    parents = {
        path
        for path in recorded
        for changed in user_changed
        if f"{changed}/".startswith(f"{path}/")
    }
    return tuple(path for path in paths if path in recorded - parents)


def repair_interrupted_update(tree: PurePath) -> None:
    """Repair an interrupted update, so that git can continue.

    Raises `LostEditsError` if only the user can decide about a file.
    """
    note = read_update_note(tree)
    if note is None:
        return
    remove_stale_locks(tree, note)
    until = find_last_write_time(tree, note)
    for path in note.fresh:
        _repair_fresh_clone(Path(tree), path, until)
    user_changed = find_user_changed_submodules(Path(tree), note)
    for path in note.clean:
        if path not in user_changed:
            repair_partial_checkout(Path(tree), path, until)


def _list_present_submodules(tree: Path, paths: Sequence[str]) -> Iterator[str]:
    """Return the submodules that are checked out, and their nested submodules."""
    for path in paths:
        inner = tree / path
        if is_checkout(inner):
            yield path
            yield from (
                f"{path}/{nested_path}"
                for nested_path in _list_present_submodules(
                    inner, tuple(find_submodule_repositories(inner))
                )
            )


def _list_uncloned_submodules(tree: Path, paths: Sequence[str]) -> Iterator[str]:
    for path, repository in find_submodule_repositories(tree).items():
        inner = tree / path
        is_empty = not inner.is_dir() or not any(inner.iterdir())
        if path in paths and is_empty and not repository.exists():
            yield path


def _repair_fresh_clone(tree: Path, path: str, until: float) -> None:
    """Repair a submodule that did not exist before the interrupted update.

    An incomplete clone is removed and cloned again.
    """
    inner, repository = tree / path, find_submodule_repositories(tree).get(path)
    if is_checkout(inner) and is_complete_checkout(inner):
        repair_partial_checkout(tree, path, until)
        for nested_path in find_submodule_repositories(inner):
            _repair_fresh_clone(inner, nested_path, until)
    elif repository and (repository.exists() or is_checkout(inner)):
        print_line(f"{path} had been cloned in part: it is cloned anew")
        is_unmodified = is_checkout(inner) and not _has_newer_files(inner, until)
        _clear_folder(inner, ".git", ours=is_unmodified)
        _clear_folder(repository, "HEAD", ours=not _has_newer_files(repository, until))


def _clear_folder(place: Path, last: str, *, ours: bool) -> None:
    """Remove an incomplete clone, or rename it if it may contain the user's work."""
    if not place.is_dir() or not any(place.iterdir()):
        return
    if ours:
        files.remove_tree(place, last=last)
        return
    number = 1
    while (aside := place.with_name(f"{place.name}.{number}")).exists():
        number += 1
    place.rename(aside)
    print_warning(f"what was in {place} is now {aside}; remove it when nothing in it is needed")


def _has_newer_files(place: Path, until: float) -> bool:
    """Return True if anything below changed after the managed git ended."""
    return any(path.lstat().st_mtime > until for path in place.rglob("*"))
