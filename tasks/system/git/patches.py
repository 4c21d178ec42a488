"""Applying a patch to a tree, checkout or not, and taking it back: all of it or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.system import shell
from tasks.system.git import patching
from tasks.system.git.command import build_git_command
from tasks.system.git.state import capture_git_output, is_checkout, list_checked_out_submodules


def can_apply_patch(tree: PurePath, patch: PurePath, *, reverse: bool = False) -> bool:
    """Whether the patch fits the tree as it is; in `reverse`, whether it can be taken back."""
    try:
        shell.capture_output(
            _build_patch_command(tree, patch, "--check", *_build_direction_option(reverse))
        )
    except CommandFailedError:
        return False
    return True


def is_as_committed(tree: PurePath, patch: Path) -> bool:
    """Whether git sees no change in any file of the patch: a person took it out by hand, or a
    commit holds it now. Never so where git does not know the tree.
    """
    if not is_checkout(tree):
        return False
    repositories = [path for path, _ in list_checked_out_submodules(tree)]
    return not any(
        _read_file_status(tree, name, repositories)
        for name in patching.list_patched_files(tree, patch)
    )


def _read_file_status(tree: PurePath, name: str, repositories: Sequence[str]) -> str:
    inner = max((path for path in repositories if name.startswith(f"{path}/")), key=len, default="")
    at, within = Path(tree) / inner, name.removeprefix(f"{inner}/")
    options = ("--porcelain", "--ignored", "--untracked-files=all")
    return capture_git_output(at, "--literal-pathspecs", "status", *options, "--", within)


def apply_patch(
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
    with patching.keep_backup(tree, Path(patch), keep) if keep else nullcontext():
        shell.run_command(
            _build_patch_command(tree, patch, *_build_direction_option(reverse), log=log)
        )


def _build_direction_option(reverse: bool) -> tuple[str, ...]:
    return ("--reverse",) if reverse else ()


def _build_patch_command(
    tree: PurePath, patch: PurePath, *options: str, log: PurePath | None = None
) -> Command:
    argv = ("apply", "--whitespace=nowarn", *options, "--", str(patch))
    return build_git_command(*argv, what=f"patch {patch.name}", at=tree, log=log)
