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
from tasks.system.git.state import place_of

_NOTE = "torchyard-under-way.json"
_BEAT = 1.0  # seconds


@dataclass(frozen=True)
class UnderWay:
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


def cut_off(tree: PurePath) -> UnderWay | None:
    """What was under way here, None where all of it came to its end."""
    try:
        return UnderWay(**json.loads(note(tree).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return UnderWay()


def note(tree: PurePath) -> Path:
    """Where it lies."""
    return place_of(Path(tree)) / _NOTE


def write(tree: PurePath, now: UnderWay) -> None:
    """Put it there."""
    files.write_atomic(note(tree), json.dumps(asdict(now)))


def last_sign(tree: PurePath, last: UnderWay) -> float:
    """Until when our git can have written, in seconds since 1970."""
    return last.ended if last.ended is not None else note(tree).stat().st_mtime + 2 * _BEAT


@contextmanager
def alive(tree: PurePath) -> Iterator[None]:
    """Set the note's time every second meanwhile."""
    over, path = threading.Event(), note(tree)

    def beat() -> None:
        while not over.wait(_BEAT):
            with contextlib.suppress(OSError):
                os.utime(path)

    beating = threading.Thread(target=beat, name="git under way", daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()
