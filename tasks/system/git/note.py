"""The note that a git of ours is under way in a repository: what it may change, and when it was
alive last. The note's own time is set anew every second, so that after a KILL what git wrote can be
told from what a person wrote since.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath

from tasks.system import files
from tasks.system.git.state import find_git_folder

_NOTE_FILE = "torchyard-under-way.json"
_NOTE_INTERVAL = 1.0  # seconds


@dataclass(frozen=True)
class UpdateNote:
    """Submodules by their paths: those that were asked for, those that were not there at all, those
    that had no edits, and where each that was there stood. `began` and `ended`, when it failed, are
    seconds since 1970; `ended` is None where nobody could say.
    """

    paths: Sequence[str] = ()
    fresh: Sequence[str] = ()
    clean: Sequence[str] = ()
    ended: float | None = None
    heads: Mapping[str, str] = field(default_factory=dict)
    began: float | None = None


def read_update_note(tree: PurePath) -> UpdateNote | None:
    """What was under way here, None where all of it came to its end."""
    try:
        return UpdateNote(**json.loads(find_note_path(tree).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return UpdateNote()


def find_note_path(tree: PurePath) -> Path:
    """Where it lies."""
    return find_git_folder(Path(tree)) / _NOTE_FILE


def write_update_note(tree: PurePath, now: UpdateNote) -> None:
    """Put it there."""
    files.write_atomic(find_note_path(tree), json.dumps(asdict(now)))


def find_last_write_time(tree: PurePath, last: UpdateNote) -> float:
    """Until when our git can have written, in seconds since 1970."""
    return (
        last.ended
        if last.ended is not None
        else find_note_path(tree).stat().st_mtime + 2 * _NOTE_INTERVAL
    )


@contextmanager
def keep_note_current(tree: PurePath) -> Iterator[None]:
    """Set the note's time every second meanwhile."""
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
