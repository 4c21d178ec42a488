"""Where an index goes: a folder is written in place; another machine gets a copy by rsync, or by
whatever command a person names.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path, PurePath

from tasks.core.errors import MissingToolError
from tasks.core.model import Command
from tasks.system import shell
from tasks.system.hardware.packagemanager import format_install_command

# user@host:path, as ssh and rsync have it; a drive of Windows has no @
_REMOTE_DEST = re.compile(r"[\w.-]+@[\w.-]+:\S+")
_INDEX_PLACEHOLDER = "{index}"
# The wheels before the pages that name them; what no page names goes last. rsync puts each file
# there by a rename.
_RSYNC_PASSES = (
    ("--partial", "--include=/files/***", "--exclude=*"),
    ("--delay-updates", "--include=/simple/***", "--exclude=*"),
    ("--delete", "--include=/files/***", "--include=/simple/***", "--exclude=*"),
)


def is_local_index(dest: str) -> bool:
    """Whether the index itself lies there, and no copy is sent."""
    return _INDEX_PLACEHOLDER not in dest and not _REMOTE_DEST.fullmatch(dest)


def upload_index(dest: str, index: PurePath, log: PurePath) -> None:
    """A copy of `index` to `user@host:path`, or by a command that has `{index}` for its path.

    Raises `CommandFailedError`, or `MissingToolError` where rsync is not here.
    """
    env = dict(os.environ)  # of a person's own program: what it asks for is not ours to know
    if _INDEX_PLACEHOLDER in dest:
        argv = tuple(word.replace(_INDEX_PLACEHOLDER, str(index)) for word in shlex.split(dest))
        shell.run_command(Command(argv, env, "send the index", log=log))
        return
    if not shutil.which("rsync"):
        raise MissingToolError(
            "rsync is not here, which sends the index",
            hint=f"{format_install_command('rsync')}, here and there",
        )
    for options in _RSYNC_PASSES:
        argv = ("rsync", "-rt", *options, "--", f"{Path(index)}/", dest)
        shell.run_command(Command(argv, env, f"send the index to {dest}", log=log))
