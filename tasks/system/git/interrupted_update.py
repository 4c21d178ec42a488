"""Repair a checkout after a git process of torchyard was interrupted.

A killed git leaves lock files, which make later git commands fail. These files are removed
only if no other git process can own them.
"""

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath, PurePosixPath

from tasks.core.errors import CommandFailedError, LostEditsError, TorchyardError
from tasks.system import files, shell
from tasks.system.git import checkout_state
from tasks.system.git.git_command import build_git_command
from tasks.system.output import print_line, print_warning

_NOTE_INTERVAL = 1.0  # seconds


@dataclass(frozen=True)
class UpdateNote:
    """The record of an unfinished submodule update. Each submodule is named by its path.

    `paths` are the submodules to update. Before the update, `fresh` were not cloned, `clean` had
    no local changes, and `heads` maps the cloned ones to branch and commit. The update began at
    `began` and failed at `ended` (seconds since 1970), `None` if it still runs or was killed.
    """

    paths: Sequence[str] = ()
    fresh: Sequence[str] = ()
    clean: Sequence[str] = ()
    ended: float | None = None
    heads: Mapping[str, str] = field(default_factory=dict)
    began: float | None = None


def read_update_note(tree: PurePath) -> UpdateNote | None:
    """Return the record of an unfinished update; None if every update has finished."""
    try:
        return UpdateNote(**json.loads(find_note_path(tree).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return UpdateNote()


def find_note_path(tree: PurePath) -> Path:
    """Return the path of the file that stores a checkout's `UpdateNote`."""
    return checkout_state.find_git_folder(Path(tree)) / "torchyard-under-way.json"


def write_update_note(tree: PurePath, note: UpdateNote) -> None:
    """Write a checkout's `UpdateNote` to its file atomically."""
    files.write_atomic(find_note_path(tree), json.dumps(asdict(note)))


def find_last_write_time(tree: PurePath, note: UpdateNote) -> float:
    """Return the last time (in seconds since 1970) at which the update may have written files."""
    killed_before = find_note_path(tree).stat().st_mtime + 2 * _NOTE_INTERVAL
    return killed_before if note.ended is None else note.ended


def find_submodule_repositories(tree: Path) -> dict[str, Path]:
    """Return a mapping from the path of each submodule to the folder of its git repository."""
    folder = checkout_state.find_git_folder(tree) / "modules"
    return {path: folder / name for path, name in checkout_state.read_submodule_names(tree).items()}


def is_complete_checkout(inner: Path) -> bool:
    """Return True if `inner` has a commit and an index (the last file of a checkout)."""
    if not checkout_state.is_checkout(inner):
        return False
    try:
        checkout_state.capture_git_output(
            inner, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"
        )
        return (checkout_state.find_git_folder(inner) / "index").is_file()
    except (CommandFailedError, OSError):
        return False


def read_submodule_head(inner: Path) -> str:
    """Return a submodule's HEAD (the branch, if any) and commit, "" if git cannot read them."""
    try:
        head = (checkout_state.find_git_folder(inner) / "HEAD").read_text(encoding="utf-8").strip()
        return f"{head} {checkout_state.capture_git_output(inner, 'rev-parse', 'HEAD').strip()}"
    except (CommandFailedError, OSError):
        return ""


def has_git_activity_since(inner: Path, until: float) -> bool:
    """Return True if git wrote HEAD, its reflog or the index after the time `until`."""
    git_files = (
        checkout_state.find_git_folder(inner) / name for name in ("HEAD", "index", "logs/HEAD")
    )
    return any(path.exists() and path.stat().st_mtime > until for path in git_files)


def find_user_changed_submodules(
    top: Path, note: UpdateNote, tree: Path | None = None, above: str = ""
) -> Iterator[str]:
    """Yield the submodules whose commit the user, not torchyard, changed after the interruption.

    Nested submodules are included, with paths relative to `top`. The search starts in `tree`,
    whose path is `above`.
    """
    tree = tree or top
    for flag, path, _ in checkout_state.list_submodule_status(tree):
        inner, full = tree / path, f"{above}{path}"
        if not is_complete_checkout(inner):
            continue
        is_changed = False
        if flag == "+" and full in note.heads:
            is_changed = note.heads[full] != read_submodule_head(inner)
        elif flag == "+":
            is_cloned = any(f"{full}/".startswith(f"{fresh}/") for fresh in note.fresh)
            until = find_last_write_time(top, note)
            is_changed = not is_cloned or has_git_activity_since(inner, until)
        if is_changed:
            yield full
        yield from find_user_changed_submodules(top, note, inner, f"{full}/")


_INTERRUPTED_REF = "refs/torchyard/interrupted"
_NAMES_PER_COMMAND = 100  # the length of a command is limited


def repair_partial_checkout(tree: Path, path: str, until: float) -> None:
    """Repair the partial checkout of the submodule `path` after an interrupted update.

    If the checkout changed after `until`, when the update ended, only print a warning.
    """
    inner = tree / path
    if not checkout_state.is_checkout(inner):
        return
    _remove_blocking_files(tree, inner)
    if not (names := list_changed_files(inner)):
        return
    differing = names
    with contextlib.suppress(CommandFailedError):  # the recorded commit was not fetched yet
        options = ("--no-renames", "--no-ext-diff", "--ignore-submodules=all")
        commit = _read_recorded_commit(tree, inner)
        differing = checkout_state.list_git_entries(inner, "diff", "--name-only", *options, commit)
    edited = [name for name in names if name in differing and _has_file_content(inner / name)]
    if has_git_activity_since(inner, until) or any(
        (inner / name).lstat().st_mtime > until for name in edited
    ):
        print_warning(
            f"{inner} changed after its update was interrupted, so torchyard does not repair its "
            f"files; to list the changes, run: git -C {inner} status; to restore a file, run: "
            f"git -C {inner} checkout -- FILE"
        )
    elif files.is_owned(tree):
        save_changes_in_ref(inner)
        checkout_state.capture_git_output(
            inner, "reset", "--quiet", "--hard", what="repair the checkout"
        )
    else:
        _restore_missing_files(inner, names, edited)


def list_changed_files(inner: Path) -> list[str]:
    """Return the tracked files with local changes."""
    options = ("--no-renames", "--untracked-files=no", "--ignore-submodules=all")
    return [
        entry[3:]
        for entry in checkout_state.list_git_entries(inner, "status", "--porcelain", *options)
    ]


def save_changes_in_ref(inner: Path) -> None:
    """Save the content of changed tracked files in a new ref."""
    command = build_git_command("stash", "create", what="save the interrupted checkout", at=inner)
    if commit := shell.capture_output(command).strip():
        argv = ("for-each-ref", "--format=%(refname)", "refs/torchyard")
        existing_refs = checkout_state.capture_git_output(inner, *argv).split()
        numbered = (f"{_INTERRUPTED_REF}-{number}" for number in itertools.count(2))
        refs = itertools.chain([_INTERRUPTED_REF], numbered)
        ref = next(ref for ref in refs if ref not in existing_refs)
        checkout_state.capture_git_output(inner, "update-ref", ref, commit)
        print_line(f"{inner}: saved the files of the interrupted checkout in {ref}")


def _restore_missing_files(inner: Path, names: Sequence[str], edited: list[str]) -> None:
    """Restore missing files from HEAD; raise `LostEditsError` if files may be the user's edits."""
    committed = checkout_state.list_git_entries(inner, "ls-tree", "-r", "--name-only", "HEAD")
    if edited or not set(names) <= set(committed):
        raise LostEditsError(
            "the update of this submodule was interrupted, and these files may be your edits: "
            + ", ".join((edited or names)[:5]),
            location=str(inner),
            hint=f"list the changes (git -C {inner} diff HEAD); then keep them "
            f"(git -C {inner} commit -a, or stash), or restore the committed files "
            f"(git -C {inner} checkout --force HEAD), and run the same command again",
        )
    checkout = ("--literal-pathspecs", "checkout", "--quiet", "HEAD", "--")
    for first in range(0, len(names), _NAMES_PER_COMMAND):
        checkout_state.capture_git_output(
            inner, *checkout, *names[first : first + _NAMES_PER_COMMAND]
        )
    print_line(f"{inner}: a checkout was interrupted; wrote the files that were still missing")


def _read_recorded_commit(tree: Path, inner: Path) -> str:
    """Return the commit that the parent repository records for a submodule."""
    superproject = next(
        parent for parent in inner.parents if parent == tree or checkout_state.is_checkout(parent)
    )
    name = inner.relative_to(superproject).as_posix()
    argv = ("--literal-pathspecs", "ls-files", "--stage", "-z", "--", name)
    return checkout_state.capture_git_output(superproject, *argv).split()[1]


def _remove_blocking_files(tree: Path, inner: Path) -> None:
    """Remove untracked files that block a checkout, but only empty ones and exact copies."""
    try:
        commit = _read_recorded_commit(tree, inner)
        options = ("--no-renames", "--diff-filter=A")
        added = checkout_state.list_git_entries(
            inner, "diff", "--name-only", *options, "HEAD", commit
        )
    except CommandFailedError:  # that commit was not fetched yet
        return
    tracked = set(checkout_state.list_git_entries(inner, "ls-files"))
    for name in added:
        path = inner / name
        is_untracked = name not in tracked and path.is_file() and not path.is_symlink()
        if is_untracked and (
            not _has_file_content(path)
            or checkout_state.capture_git_output(inner, "hash-object", "--", name)
            == checkout_state.capture_git_output(inner, "rev-parse", f"{commit}:{name}")
        ):
            path.unlink()


def _has_file_content(path: Path) -> bool:
    return path.is_symlink() or (path.exists() and path.stat().st_size > 0)


def remove_stale_locks(tree: PurePath, note: UpdateNote) -> None:
    """Remove lock files of a killed git of torchyard. Warn if another git may own them."""
    folder, until, locks = find_note_path(tree).parent, find_last_write_time(tree, note), []
    for lock in folder.rglob("*.lock"):
        if "worktrees" in lock.relative_to(folder).parts:
            continue  # torchyard's git used no other work tree
        with contextlib.suppress(FileNotFoundError):
            if note.began is not None and note.began - 1 <= lock.stat().st_mtime <= until:
                locks.append(lock)
    is_stale = bool(locks) and note.ended is None and not _is_git_running(Path(tree))
    for lock in locks:
        if is_stale:
            lock.unlink(missing_ok=True)
        else:
            print_warning(
                f"{lock} exists: git may be running in {tree}; if it is not, remove that file"
            )


def _is_git_running(tree: Path) -> bool:
    """Return True if a git process works in this tree, or if that cannot be determined."""
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
    """Repair an interrupted update, then record the update that runs in the with block."""
    repair_interrupted_update(tree)
    top, note_path = Path(tree), find_note_path(tree)
    present = tuple(_list_present_submodules(top, paths))
    repositories = find_submodule_repositories(top)
    missing = (path for path in repositories if path in paths and not repositories[path].exists())
    fresh = [path for path in missing if not files.has_content(top / path)]
    complete = (path for path in present if is_complete_checkout(top / path))
    clean = [path for path in complete if not list_changed_files(top / path)]
    heads = {path: read_submodule_head(top / path) for path in present}
    note = UpdateNote(paths, fresh, clean, None, heads, time.time())
    write_update_note(tree, note)
    over = threading.Event()

    def touch_note() -> None:
        while not over.wait(_NOTE_INTERVAL):
            with contextlib.suppress(OSError):
                os.utime(note_path)

    thread = threading.Thread(target=touch_note, name="git update note", daemon=True)
    thread.start()
    try:
        yield
    except TorchyardError:
        write_update_note(tree, replace(note, ended=time.time()))
        raise
    finally:
        over.set()
        thread.join()
    note_path.unlink(missing_ok=True)


def exclude_user_changes(tree: PurePath, paths: Sequence[str]) -> tuple[str, ...]:
    """Return `paths` without the submodules that the user changed after an interrupted update."""
    if not (note := read_update_note(tree)):
        return tuple(paths)
    unchanged = {path for _, path, _ in checkout_state.list_submodule_status(tree)}
    for name in find_user_changed_submodules(Path(tree), note):
        unchanged -= {name, *map(str, PurePosixPath(name).parents)}  # and those that contain `name`
    return tuple(path for path in paths if path in unchanged)


def repair_interrupted_update(tree: PurePath) -> None:
    """Repair an interrupted update; raise `LostEditsError` if changes may be the user's edits."""
    if not (note := read_update_note(tree)):
        return
    remove_stale_locks(tree, note)
    top, until = Path(tree), find_last_write_time(tree, note)
    for path in note.fresh:
        _repair_fresh_clone(top, path, until)
    user_changed = set(find_user_changed_submodules(top, note))
    for path in note.clean:
        if path not in user_changed:
            repair_partial_checkout(top, path, until)


def _list_present_submodules(tree: Path, paths: Sequence[str]) -> Iterator[str]:
    """Yield the submodules in `paths` that are checked out, with their nested submodules."""
    for path in paths:
        inner = tree / path
        if checkout_state.is_checkout(inner):
            yield path
            nested = tuple(checkout_state.read_submodule_names(inner))
            yield from (f"{path}/{name}" for name in _list_present_submodules(inner, nested))


def _repair_fresh_clone(tree: Path, path: str, until: float) -> None:
    """Repair a submodule that the interrupted update cloned; remove an incomplete clone."""
    inner, repository = tree / path, find_submodule_repositories(tree).get(path)
    if is_complete_checkout(inner):
        repair_partial_checkout(tree, path, until)
        for nested_path in checkout_state.read_submodule_names(inner):
            _repair_fresh_clone(inner, nested_path, until)
    elif repository and (repository.exists() or checkout_state.is_checkout(inner)):
        print_line(f"{path}: the clone is incomplete; git clones the submodule again")
        _clear_folder(inner, until if checkout_state.is_checkout(inner) else 0, last=".git")
        _clear_folder(repository, until, last="HEAD")


def _clear_folder(place: Path, until: float, *, last: str) -> None:
    """Remove a folder, its entry `last` at the end; if it changed after `until`, only rename it."""
    if not place.is_dir() or not files.has_content(place):
        return
    if all(path.lstat().st_mtime <= until for path in place.rglob("*")):
        files.remove_tree(place, last=last)
        return
    renamed = files.find_free_path(place.parent, f"{place.name}.")
    place.rename(renamed)
    print_warning(f"renamed {place} to {renamed}; remove that folder if you need no file in it")
