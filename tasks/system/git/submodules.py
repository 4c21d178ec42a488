"""Submodules: brought to what the tree records, and only those that fell behind it.

A submodule that a person moved by hand is theirs: it is read as it is. One that merely was not
moved along when the tree was pulled is known by standing where the tree recorded it when it was
last read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError
from tasks.system import shell
from tasks.system.git.command import command, guarded, insist, is_local, no_answer
from tasks.system.git.cutoff import not_moved, under_way, unfinished
from tasks.system.git.state import ask, submodule_lines
from tasks.system.voice import say, warn

_AGAIN = re.compile(r"Failed to clone '(?P<what>.*)'\. Retry scheduled")


def stale_submodules(tree: PurePath, seen: str) -> tuple[str, ...]:
    """Paths of submodules that are missing, or where the commit `seen` ("" for none) had them; and
    of those that were being brought along when that was cut off.
    """
    if not (Path(tree) / ".gitmodules").exists():
        return ()
    return tuple(dict.fromkeys((*unfinished(tree), *_stale(tree, seen))))


def _stale(tree: PurePath, seen: str) -> Iterator[str]:
    before = _recorded(tree, seen) if seen else {}
    for flag, path, commit in submodule_lines(tree):
        if flag == "-" or (flag == "+" and before.get(path) == commit):
            yield path


def moved_submodules(tree: PurePath) -> tuple[str, ...]:
    """Those that are not where the tree records them."""
    return tuple(path for flag, path, _ in submodule_lines(tree) if flag == "+")


def _recorded(tree: PurePath, commit: str) -> dict[str, str]:
    """Path → commit of the submodules in a commit of the tree; empty where that commit is gone."""
    try:
        listed = ask(tree, "ls-tree", "-r", "-z", commit)
    except CommandFailedError:
        return {}
    entries = (entry.partition("\t") for entry in listed.split("\0") if entry.startswith("160000 "))
    return {path: head.split()[2] for head, _, path in entries}


def update_submodules(
    tree: PurePath,
    paths: Sequence[str] = (),
    *,
    mirrors: Mapping[str, str] | None = None,
    log: PurePath | None = None,
) -> None:
    """Check out submodules, recursively: those of `paths`, or all. What is there stays.

    Raises `FetchError` where a host does not answer, `LostEditsError` where a person's files are in
    the way.
    """
    if not (Path(tree) / ".gitmodules").exists():
        return
    asked = tuple(paths) or tuple(path for _, path, _ in submodule_lines(tree))
    free = not_moved(tree, asked)
    if moved := sorted(set(asked) - set(free)):
        warn(f"left where they were moved after an update was cut off: {', '.join(moved)}")
    with under_way(tree, free):
        if free:
            _update(tree, free if moved else paths, mirrors, log)


def _update(
    tree: PurePath, paths: Sequence[str], mirrors: Mapping[str, str] | None, log: PurePath | None
) -> None:
    local = is_local(ask(tree, "config", "--default", "", "--get", "remote.origin.url").strip())
    where = ("--", *paths) if paths else ()

    def update(*depth: str) -> None:
        argv = ("submodule", "update", "--init", "--recursive", "--jobs", "8", *depth, *where)
        what = "fetch the submodules"
        step = command(*argv, what=what, at=tree, mirrors=mirrors, log=log, local=local)
        guarded(tree, lambda: shell.run(step, _told))

    sync = ("submodule", "--quiet", "sync", "--recursive", *where)
    shell.run(command(*sync, what="read the submodules' URLs", at=tree, log=log))
    try:
        insist("a submodule", lambda: update("--depth", "1"))
    except CommandFailedError:
        # a server may refuse a commit that no branch points to, or a shallow copy at all
        _whole(update)


def _told(line: str) -> None:
    """git clones a submodule once more by itself."""
    if found := _AGAIN.match(line):
        say(f"{found['what'].rpartition('/')[2]}: its clone broke off; git fetches it again")


def _whole(update: Callable[[], None]) -> None:
    try:
        insist("a submodule", update)
    except CommandFailedError as error:
        raise no_answer("a submodule", error) from error
