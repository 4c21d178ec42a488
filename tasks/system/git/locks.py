"""Locks that a killed git of ours left: every later git refuses them. A lock is removed only where
it can be nobody else's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePath

from tasks.system.git.note import UnderWay, last_sign, note
from tasks.system.voice import warn


def unlock(tree: PurePath, last: UnderWay) -> None:
    """Remove the locks from between the start of our git and its KILL, where no git is at work.

    A git that ended by itself removed its own. What is in doubt is named.
    """
    locks = tuple(_within(tree, last))
    if not locks:
        return
    if last.ended is None and not _is_at_work(Path(tree)):
        for lock in locks:
            lock.unlink(missing_ok=True)
        return
    for lock in locks:
        warn(f"{lock} may be another git's: remove it when no git is at work in {tree}")


def _within(tree: PurePath, last: UnderWay) -> Iterator[Path]:
    place, until = note(tree).parent, last_sign(tree, last)
    for lock in place.rglob("*.lock"):
        if "worktrees" in lock.relative_to(place).parts:
            continue  # of another work tree, where our git was not
        with contextlib.suppress(FileNotFoundError):
            if last.began is not None and last.began - 1 <= lock.stat().st_mtime <= until:
                yield lock


def _is_at_work(tree: Path) -> bool:
    """Whether a git works in this tree, or one of which that cannot be known."""
    import psutil  # noqa: PLC0415 - only after a run that was killed

    places = (tree.resolve(), note(tree).parent.resolve())
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
