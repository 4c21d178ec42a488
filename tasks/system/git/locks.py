"""Locks that a killed git of ours left: every later git refuses them. A lock is removed only where
it can be nobody else's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePath

from tasks.system.git.note import UpdateNote, find_last_write_time, find_note_path
from tasks.system.voice import print_warning


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
