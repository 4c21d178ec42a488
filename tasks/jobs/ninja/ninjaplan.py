"""What Ninja would do in a build folder, asked with `-n`: it makes nothing and writes nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command
from tasks.core.ninjalines import find_step_output, parse_ninja_step
from tasks.system import shell

_OBJECT = re.compile(r".+\.(?:o|obj)")
_RERUNS_CMAKE = "Re-running CMake"


@dataclass(frozen=True)
class NinjaDryRun:
    """`steps` in all, `objects` of them compiled, `outputs` those that Ninja names; `configures`:
    CMake runs first, and what it changes is not in here.
    """

    steps: int
    objects: int
    outputs: tuple[str, ...]
    configures: bool


def preview_ninja_build(ninja: str, folder: PurePath, target: str) -> NinjaDryRun | None:
    """What Ninja would do for `target`; None where it cannot be asked."""
    argv = (ninja, "-C", str(folder), "-n", target)
    try:
        text = shell.capture_output(
            Command(argv, shell.build_host_env(), "ask Ninja", cwd=Path(folder))
        )
    except (CommandFailedError, MissingToolError):
        return None
    words = [found.text for found in map(parse_ninja_step, text.splitlines()) if found]
    again = any(_RERUNS_CMAKE in word for word in words)
    files = [word for word in words if _RERUNS_CMAKE not in word and not word.startswith("Install")]
    named = tuple(output for output in map(find_step_output, files) if output)
    objects = sum(bool(_OBJECT.fullmatch(output)) for output in named)
    return NinjaDryRun(len(files), objects, named, again)
