"""What Ninja would do in a build folder, asked with `-n`: it makes nothing and writes nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command
from tasks.core.ninjalines import output_of, step
from tasks.system import shell

_OBJECT = re.compile(r".+\.(?:o|obj)")
_AGAIN = "Re-running CMake"


@dataclass(frozen=True)
class Foreseen:
    """`steps` in all, `objects` of them compiled, `outputs` those that Ninja names; `configures`:
    CMake runs first, and what it changes is not in here.
    """

    steps: int
    objects: int
    outputs: tuple[str, ...]
    configures: bool


def foresee(ninja: str, folder: PurePath, target: str) -> Foreseen | None:
    """What Ninja would do for `target`; None where it cannot be asked."""
    argv = (ninja, "-C", str(folder), "-n", target)
    try:
        text = shell.capture(Command(argv, shell.host_env(), "ask Ninja", cwd=Path(folder)))
    except (CommandFailedError, MissingToolError):
        return None
    words = [found.text for found in map(step, text.splitlines()) if found]
    again = any(_AGAIN in word for word in words)
    files = [word for word in words if _AGAIN not in word and not word.startswith("Install")]
    named = tuple(output for output in map(output_of, files) if output)
    objects = sum(bool(_OBJECT.fullmatch(output)) for output in named)
    return Foreseen(len(files), objects, named, again)
