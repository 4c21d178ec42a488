"""Applying a patch to a tree, checkout or not, and taking it back: all of it or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.system import shell
from tasks.system.git import patching
from tasks.system.git.command import command
from tasks.system.git.state import ask, is_checkout, submodules_of


def applies(tree: PurePath, patch: PurePath, *, reverse: bool = False) -> bool:
    """Whether the patch fits the tree as it is; in `reverse`, whether it can be taken back."""
    try:
        shell.capture(_command(tree, patch, "--check", *_direction(reverse)))
    except CommandFailedError:
        return False
    return True


def is_as_committed(tree: PurePath, patch: Path) -> bool:
    """Whether git sees no change in any file of the patch: a person took it out by hand, or a
    commit holds it now. Never so where git does not know the tree.
    """
    if not is_checkout(tree):
        return False
    repositories = [path for path, _ in submodules_of(tree)]
    return not any(_status(tree, name, repositories) for name in patching.names(tree, patch))


def _status(tree: PurePath, name: str, repositories: Sequence[str]) -> str:
    inner = max((path for path in repositories if name.startswith(f"{path}/")), key=len, default="")
    at, within = Path(tree) / inner, name.removeprefix(f"{inner}/")
    options = ("--porcelain", "--ignored", "--untracked-files=all")
    return ask(at, "--literal-pathspecs", "status", *options, "--", within)


def apply(
    tree: PurePath,
    patch: PurePath,
    *,
    reverse: bool = False,
    log: PurePath | None = None,
    keep: Path | None = None,
) -> None:
    """Apply it, or take it back; `CommandFailedError` leaves the tree as it was. With `keep`, a
    folder of ours, so does a KILL, after `patching.restore`.
    """
    with patching.kept(tree, Path(patch), keep) if keep else nullcontext():
        shell.run(_command(tree, patch, *_direction(reverse), log=log))


def _direction(reverse: bool) -> tuple[str, ...]:
    return ("--reverse",) if reverse else ()


def _command(
    tree: PurePath, patch: PurePath, *options: str, log: PurePath | None = None
) -> Command:
    argv = ("apply", "--whitespace=nowarn", *options, "--", str(patch))
    return command(*argv, what=f"patch {patch.name}", at=tree, log=log)
