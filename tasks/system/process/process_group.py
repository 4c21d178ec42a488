"""A child with everyone that it starts: begun in a group of its own, and ended with all of them.

On POSIX that is a process group and INT, then TERM, then KILL; on Windows a console group and
CTRL-BREAK, and a job, which is ended after that.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

if sys.platform == "win32":
    from tasks.system.process import jobobject as group
else:
    from tasks.system.process import posixgroup as group

GRACE_SECONDS = 5.0  # seconds between asking and killing
_live_children: set[subprocess.Popen[str]] = set()


def start_child(
    argv: Sequence[str], *, serves: bool = False, **options: Any
) -> subprocess.Popen[str]:
    """A child in a group of its own, which `end` is to be called for whatever happens. Where it
    `serves` others, what it leaves at work outlives it.
    """
    child: subprocess.Popen[str] = subprocess.Popen(argv, **group.POPEN_OPTIONS, **options)
    _live_children.add(child)
    try:
        group.begin_child(child, serves=serves)
    except BaseException:  # on Windows it would wait for ever to be begun
        _live_children.discard(child)
        child.kill()
        child.wait()
        raise
    return child


def end_group(child: subprocess.Popen[str]) -> None:
    """End what is left of the group, the leader's children included, and wait for it; where it did
    not end well, also who had left the group, as each of Ninja's jobs does.
    """
    group.end_child(child, GRACE_SECONDS)
    _live_children.discard(child)


def interrupt_all() -> None:
    """Tell every child at work to stop, also those that another thread waits for. Does not wait."""
    for child in tuple(_live_children):
        group.interrupt_child(child)
