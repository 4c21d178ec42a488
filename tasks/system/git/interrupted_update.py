"""Locks that a killed git of ours left: every later git refuses them. A lock is removed only where
it can be nobody else's.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath

from tasks.core.errors import TorchyardError
from tasks.system import files
from tasks.system.git.checkout_state import is_checkout, list_submodule_status
from tasks.system.git.partial_checkout import (
    UpdateNote,
    find_last_write_time,
    find_note_path,
    find_submodule_repositories,
    find_user_changed_submodules,
    is_complete_checkout,
    keep_note_current,
    list_changed_files,
    read_submodule_head,
    read_update_note,
    repair_partial_checkout,
    write_update_note,
)
from tasks.system.output import print_line, print_warning


def remove_stale_locks(tree: PurePath, last: UpdateNote) -> None:
    """Remove the locks from between the start of our git and its KILL, where no git is at work.

    A git that ended by itself removed its own. What is in doubt is named.
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
            continue  # of another work tree, where our git was not
        with contextlib.suppress(FileNotFoundError):
            if last.began is not None and last.began - 1 <= lock.stat().st_mtime <= until:
                yield lock


def _is_git_running(tree: Path) -> bool:
    """Whether a git works in this tree, or one of which that cannot be known."""
    import psutil  # noqa: PLC0415 - only after a run that was killed

    places = (tree.resolve(), find_note_path(tree).parent.resolve())
    for process in psutil.process_iter(["name"]):
        if not (process.info["name"] or "").startswith("git"):
            continue
        try:
            at = Path(process.cwd()).resolve()
        except psutil.NoSuchProcess:  # a zombie, too
            continue
        except (psutil.Error, OSError):
            return True
        if any(at.is_relative_to(place) for place in places):
            return True
    return False


@contextmanager
def track_submodule_update(tree: PurePath, paths: Sequence[str] = ()) -> Iterator[None]:
    """Mend what was cut off, and say that the submodules `paths` are being changed now."""
    repair_interrupted_update(tree)
    top, began = Path(tree), time.time()
    there = tuple(_list_present_submodules(top, paths))
    clean = tuple(
        path
        for path in there
        if is_complete_checkout(top / path) and not list_changed_files(top / path)
    )
    heads = {path: read_submodule_head(top / path) for path in there}
    now = UpdateNote(paths, tuple(_list_uncloned_submodules(top, paths)), clean, None, heads, began)
    write_update_note(tree, now)
    try:
        with keep_note_current(tree):
            yield
    except TorchyardError:
        write_update_note(
            tree, UpdateNote(now.paths, now.fresh, now.clean, time.time(), heads, began)
        )
        raise
    find_note_path(tree).unlink(missing_ok=True)


def list_unfinished_submodules(tree: PurePath) -> tuple[str, ...]:
    """The submodules that were being brought along when that was cut off, without those that a
    person moved since.
    """
    last = read_update_note(tree)
    return exclude_user_changes(tree, last.paths) if last else ()


def exclude_user_changes(tree: PurePath, paths: Sequence[str]) -> tuple[str, ...]:
    """Of `paths` those where, after a git of ours was cut off, a person moved nothing."""
    last = read_update_note(tree)
    if last is None:
        return tuple(paths)
    off = find_user_changed_submodules(Path(tree), last)
    known = {path for _, path, _ in list_submodule_status(tree)}
    within = {path for path in known for one in off if f"{one}/".startswith(f"{path}/")}
    return tuple(path for path in paths if path in known - within)


def repair_interrupted_update(tree: PurePath) -> None:
    """Leave the repository so that git can go on.

    Raises `LostEditsError` where only a person can say whose a file is.
    """
    last = read_update_note(tree)
    if last is None:
        return
    remove_stale_locks(tree, last)
    until = find_last_write_time(tree, last)
    for path in last.fresh:
        _repair_fresh_clone(Path(tree), path, until)
    off = find_user_changed_submodules(Path(tree), last)
    for path in last.clean:
        if path not in off:
            repair_partial_checkout(Path(tree), path, until)


def _list_present_submodules(tree: Path, paths: Sequence[str]) -> Iterator[str]:
    """Those that are there, and what they hold in turn."""
    for path in paths:
        inner = tree / path
        if is_checkout(inner):
            yield path
            yield from (
                f"{path}/{one}"
                for one in _list_present_submodules(
                    inner, tuple(find_submodule_repositories(inner))
                )
            )


def _list_uncloned_submodules(tree: Path, paths: Sequence[str]) -> Iterator[str]:
    for path, place in find_submodule_repositories(tree).items():
        inner = tree / path
        is_empty = not inner.is_dir() or not any(inner.iterdir())
        if path in paths and is_empty and not place.exists():
            yield path


def _repair_fresh_clone(tree: Path, path: str, until: float) -> None:
    """Nothing was there before it: what is not whole gives way, and is cloned anew."""
    inner, place = tree / path, find_submodule_repositories(tree).get(path)
    if is_checkout(inner) and is_complete_checkout(inner):
        repair_partial_checkout(tree, path, until)
        for one in find_submodule_repositories(inner):
            _repair_fresh_clone(inner, one, until)
    elif place and (place.exists() or is_checkout(inner)):
        print_line(f"{path} had been cloned in part: it is cloned anew")
        ours = is_checkout(inner) and not _has_newer_files(inner, until)
        _clear_folder(inner, ".git", ours=ours)
        _clear_folder(place, "HEAD", ours=not _has_newer_files(place, until))


def _clear_folder(place: Path, last: str, *, ours: bool) -> None:
    """Make room: what may be a person's keeps all that it is, under another name."""
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
    """Whether anything below changed after our git's end."""
    return any(path.lstat().st_mtime > until for path in place.rglob("*"))
