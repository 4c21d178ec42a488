"""Update submodules that are missing or outdated after a pull, not those that the user moved."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError
from tasks.system import shell
from tasks.system.git import git_command
from tasks.system.git.checkout_state import (
    capture_git_output,
    list_git_entries,
    list_submodule_status,
)
from tasks.system.git.interrupted_update import (
    exclude_user_changes,
    list_unfinished_submodules,
    track_submodule_update,
)
from tasks.system.output import print_line, print_warning

_CLONE_RETRY = re.compile(r"Failed to clone '(?P<what>.*)'\. Retry scheduled")


def list_stale_submodules(tree: PurePath, seen: str) -> tuple[str, ...]:
    """Return submodules to update: missing, interrupted, or still as the commit `seen` has them."""
    if not (Path(tree) / ".gitmodules").exists():
        return ()
    entries: list[str] = []
    with contextlib.suppress(CommandFailedError):  # that commit may be gone
        entries = list_git_entries(tree, "ls-tree", "-r", seen) if seen else []
    pairs = (entry.partition("\t") for entry in entries if entry.startswith("160000 "))
    previous = {path: head.split()[2] for head, _, path in pairs}
    stale = (
        path
        for flag, path, commit in list_submodule_status(tree)
        if flag == "-" or (flag == "+" and previous.get(path) == commit)
    )
    return tuple(dict.fromkeys((*list_unfinished_submodules(tree), *stale)))


def list_changed_submodules(tree: PurePath) -> tuple[str, ...]:
    """Return the submodules that are not at the commit that the tree records."""
    return tuple(path for flag, path, _ in list_submodule_status(tree) if flag == "+")


def update_submodules(
    tree: PurePath,
    paths: Sequence[str] = (),
    *,
    mirrors: Mapping[str, str] | None = None,
    log: PurePath | None = None,
) -> None:
    """Check out submodules (all if `paths` is empty) recursively; overwrite no user changes."""
    if not (Path(tree) / ".gitmodules").exists():
        return
    requested = tuple(paths) or tuple(path for _, path, _ in list_submodule_status(tree))
    updatable = exclude_user_changes(tree, requested)
    if user_changed := sorted(set(requested) - set(updatable)):
        print_warning(
            "you moved these submodules after an interrupted update, so torchyard does not update "
            f"them: {', '.join(user_changed)}"
        )
    with track_submodule_update(tree, updatable):
        if updatable:
            _run_submodule_update(tree, updatable if user_changed else paths, mirrors, log)


def _run_submodule_update(
    tree: PurePath, paths: Sequence[str], mirrors: Mapping[str, str] | None, log: PurePath | None
) -> None:
    url = capture_git_output(tree, "config", "--default", "", "--get", "remote.origin.url").strip()
    where = ("--", *paths) if paths else ()

    def report_retry(line: str) -> None:  # git retries a clone once
        if retry := _CLONE_RETRY.match(line):
            print_line(f"{retry['what'].rpartition('/')[2]}: the clone failed; git tries again")

    def update_at_depth(*depth: str) -> None:
        argv = ("submodule", "update", "--init", "--recursive", "--jobs", "8", *depth, *where)
        local, what = git_command.is_local_url(url), "fetch the submodules"
        step = git_command.build_git_command(
            *argv, what=what, at=tree, mirrors=mirrors, log=log, local=local
        )
        git_command.guard_local_edits(tree, lambda: shell.run_command(step, report_retry))

    sync = ("submodule", "--quiet", "sync", "--recursive", *where)
    shell.run_command(
        git_command.build_git_command(*sync, what="read the submodules' URLs", at=tree, log=log)
    )
    # A server may refuse a commit that no branch points to, or any shallow clone
    with contextlib.suppress(CommandFailedError):
        git_command.retry_git_action("a submodule", lambda: update_at_depth("--depth", "1"))
        return
    try:
        git_command.retry_git_action("a submodule", update_at_depth)
    except CommandFailedError as error:
        raise git_command.build_fetch_error("a submodule", error) from error
