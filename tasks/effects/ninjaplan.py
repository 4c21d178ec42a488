"""What Ninja would do in a build folder, asked with `-n`: it makes nothing and writes nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.effects import shell
from tasks.errors import CommandFailedError, MissingToolError
from tasks.model import Command

_STEP = re.compile(r"\[\d+/(\d+)\] (.*)")
_OBJECT = re.compile(r"Building \S+ object |(?:^|\s)-c\s|\s-o \S+\.(?:o|obj)(?:\s|$)")
_AGAIN = "Re-running CMake"


@dataclass(frozen=True)
class Foreseen:
    """`steps` in all, `objects` of them compiled; `configures`: CMake runs first, and what it
    changes is not in these numbers.
    """

    steps: int
    objects: int
    configures: bool


def foresee(ninja: str, folder: PurePath, target: str) -> Foreseen | None:
    """What Ninja would do for `target`; None where it cannot be asked."""
    argv = (ninja, "-C", str(folder), "-n", target)
    try:
        text = shell.capture(Command(argv, shell.host_env(), "ask Ninja", cwd=Path(folder)))
    except (CommandFailedError, MissingToolError):
        return None
    told = [found for found in map(_STEP.fullmatch, text.splitlines()) if found]
    words = [found[2] for found in told]
    again = any(_AGAIN in word for word in words)
    compiled = sum(bool(_OBJECT.search(word)) for word in words)
    files = [word for word in words if _AGAIN not in word and not word.startswith("Install")]
    return Foreseen(len(files), compiled, again)
