"""Where submodules stand after a git of ours was cut off: where it left them, or where a person
brought them since.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.core.errors import CommandFailedError
from tasks.system.git.note import UpdateNote, find_last_write_time
from tasks.system.git.state import (
    capture_git_output,
    find_git_folder,
    is_checkout,
    list_submodule_status,
)


def find_submodule_repositories(tree: Path) -> dict[str, Path]:
    """Path → where git keeps the repository of each submodule."""
    if not (tree / ".gitmodules").exists():
        return {}
    listed = capture_git_output(
        tree, "config", "-z", "--file", ".gitmodules", "--get-regexp", r"\.path$"
    )
    pairs = (entry.partition("\n") for entry in listed.split("\0") if entry)
    modules = find_git_folder(tree) / "modules"
    return {
        path: modules / key.removeprefix("submodule.").removesuffix(".path")
        for key, _, path in pairs
    }


def is_complete_checkout(inner: Path) -> bool:
    """Whether it has a commit, and an index, which git writes after all of its files."""
    try:
        capture_git_output(inner, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return (find_git_folder(inner) / "index").is_file()
    except (CommandFailedError, OSError):
        return False


def read_submodule_head(inner: Path) -> str:
    """Its branch, if it is on one, and its commit."""
    try:
        head = (find_git_folder(inner) / "HEAD").read_text(encoding="utf-8").strip()
        return f"{head} {capture_git_output(inner, 'rev-parse', 'HEAD').strip()}"
    except (CommandFailedError, OSError):
        return ""


def has_git_activity_since(inner: Path, until: float) -> bool:
    """Whether a git was at work there after ours: it moved HEAD, or staged something."""
    place = find_git_folder(inner)
    own = (place / name for name in ("HEAD", "index", "logs/HEAD"))
    return any(path.exists() and path.stat().st_mtime > until for path in own)


def find_user_changed_submodules(tree: Path, last: UpdateNote) -> frozenset[str]:
    """The submodules, and what they hold, that a person moved since: neither on the commit that is
    recorded nor where our git found or left them. By their paths from the top.
    """
    return frozenset(_find_user_changes(tree, tree, last, ""))


def _find_user_changes(top: Path, tree: Path, last: UpdateNote, above: str) -> Iterator[str]:
    for flag, path, _ in list_submodule_status(tree):
        inner, full = tree / path, f"{above}{path}"
        if flag == "-" or not is_checkout(inner) or not is_complete_checkout(inner):
            continue
        if flag == "+" and not _is_expected_head(top, inner, full, last):
            yield full
        yield from _find_user_changes(top, inner, last, f"{full}/")


def _is_expected_head(top: Path, inner: Path, path: str, last: UpdateNote) -> bool:
    """Off the recorded commit: where it was before, or where a clone of ours got to."""
    if path in last.heads:
        return last.heads[path] == read_submodule_head(inner)
    is_cloned = any(path == one or path.startswith(f"{one}/") for one in last.fresh)
    return is_cloned and not has_git_activity_since(inner, find_last_write_time(top, last))
