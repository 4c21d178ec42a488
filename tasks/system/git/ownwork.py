"""What a person did in a clone of ours and is nowhere else: edits, new files, commits that no
branch of a remote has, stashes, and other work trees. No part of it is what our patches changed,
what git ignores, and what a build leaves in submodules.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.system import shell
from tasks.system.git.command import command
from tasks.system.git.state import ask, head_of, place_of, submodules_of

_NO_COMMIT = re.compile(
    r"(?:checkout|reset|clone|branch)\b|[^:]*rebase[^:]*\((?:start|finish|abort)\)"
    r"|.*: fast-forward$",
    re.IGNORECASE,
)
_STATUS = ("--porcelain", "-z", "--no-renames", "--ignore-submodules=untracked")


def own_work(tree: PurePath, patches: Sequence[PurePath] = ()) -> tuple[str, ...]:
    """Its kinds, in words; none where there is none. `patches` are those of ours in the tree."""
    try:
        if not head_of(Path(tree)):
            return ()  # it was never checked out to its end
        return tuple(dict.fromkeys(_kinds(Path(tree), patches)))
    except (CommandFailedError, MissingToolError, OSError):
        return ("what git cannot read",)


def _kinds(tree: Path, patches: Sequence[PurePath]) -> Iterator[str]:
    if _edited(tree, patches):
        yield "edits"
    for place in (tree, *(tree / path for path, _ in submodules_of(tree))):
        if _committed(place):
            yield "commits"
        if ask(place, "stash", "list"):
            yield "stashes"
        if any((place_of(place) / "worktrees").glob("*")):
            yield "other work trees"


def _edited(tree: Path, patches: Sequence[PurePath]) -> bool:
    """Against a copy of the index that has the patches, too; what is staged is in the index."""
    staged = any(entry[0] not in " ?" for entry in _status(tree))
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        shutil.copyfile(place_of(tree) / "index", index)
        for patch in patches:
            _ask(tree, index, "apply", "--cached", "--whitespace=nowarn", "--", str(patch))
        return staged or any(entry[1] != " " for entry in _status(tree, index))


def _status(tree: Path, index: Path | None = None) -> list[str]:
    said = _ask(tree, index or place_of(tree) / "index", "status", *_STATUS)
    return [entry for entry in said.split("\0") if entry]


def _ask(tree: Path, index: Path, *args: str) -> str:
    """What git prints where its index is that one."""
    asked = command(*args, what=f"look for edits in {tree}", at=tree)
    return shell.capture(replace(asked, env={**asked.env, "GIT_INDEX_FILE": str(index)}))


def _committed(tree: Path) -> bool:
    """Whether a commit was made here that no branch of a remote has, as far as is known here."""
    log = ask(tree, "log", "--walk-reflogs", "--format=%H %gs", "HEAD").splitlines()
    moves = (line.partition(" ") for line in log)
    made = {commit for commit, _, how in moves if not _NO_COMMIT.match(how)}
    return bool(made) and bool(ask(tree, "rev-list", "-n1", *sorted(made), "--not", "--remotes"))
