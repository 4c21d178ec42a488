"""Applying a patch to a tree, checkout or not, and taking it back: all of it or nothing."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path, PurePath

from tasks.effects import shell
from tasks.effects.git import patching
from tasks.effects.git.command import command
from tasks.errors import CommandFailedError
from tasks.model import Command


def applies(tree: PurePath, patch: PurePath, *, reverse: bool = False) -> bool:
    """Whether the patch fits the tree as it is; in `reverse`, whether it can be taken back."""
    try:
        shell.capture(_command(tree, patch, "--check", *_direction(reverse)))
    except CommandFailedError:
        return False
    return True


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
