"""What a checkout holds: its commit, its submodules' commits and a digest of what a person changed.

`git status` names the few files that differ, and only those are read. What a build leaves in
submodules (files that git does not track there) is not an edit.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.effects import shell
from tasks.effects.git.command import command


@dataclass(frozen=True)
class GitState:
    """A checkout as it is. `submodules` maps paths to the commits checked out there; `edits` is ""
    when clean.
    """

    commit: str
    submodules: Mapping[str, str]
    edits: str


def is_checkout(path: PurePath) -> bool:
    """Whether `path` is the top of a git work tree."""
    return (Path(path) / ".git").exists()


def state(tree: PurePath) -> GitState:
    """Read a checkout; equal states mean equal content. Nothing is written."""
    commit = ask(tree, "rev-parse", "HEAD").strip()
    return GitState(commit, dict(_submodules(tree)), edits(tree))


def ask(tree: PurePath, *args: str, what: str = "read the checkout") -> str:
    """What a short git command prints."""
    return shell.capture(command(*args, what=f"{what} {tree}", at=tree))


def submodule_lines(tree: PurePath, *options: str) -> Iterator[tuple[str, str, str]]:
    """Flag ("-" not there, "+" another commit, " " in step), path and commit of every submodule."""
    for line in ask(tree, "submodule", "status", *options).splitlines():
        commit, _, rest = line[1:].partition(" ")
        path = rest if line[0] == "-" else rest.rpartition(" (")[0] or rest
        yield line[0], path, commit


def _submodules(tree: PurePath) -> Iterator[tuple[str, str]]:
    if (Path(tree) / ".gitmodules").exists():
        for flag, path, commit in submodule_lines(tree, "--recursive"):
            if flag != "-":
                yield path, commit


def edits(tree: PurePath, *, untracked: bool = True) -> str:
    """Digest of changed and new files by path, mode and content; "" where there are none."""
    which = "all" if untracked else "no"
    text = ask(
        tree, "status", "--porcelain=v2", "-z", "--no-renames", f"--untracked-files={which}",
        "--ignore-submodules=untracked",
    )  # fmt: skip
    lines = [line for entry in text.split("\0") if entry for line in _edit(Path(tree), entry)]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest() if lines else ""


def _edit(tree: Path, entry: str) -> Iterator[str]:
    """The line that one entry of `git status --porcelain=v2` adds to the digest."""
    kind = entry[0]
    if kind == "?":
        yield f"{entry[2:]}\0{content(tree / entry[2:])}\n"
        return
    fields = entry.split(" ", 8 if kind == "1" else 10)
    path = fields[-1]
    if not fields[2].startswith("S"):
        yield f"{path}\0{content(tree / path)}\n"
    elif "M" in fields[2]:
        yield f"{path}\0{edits(tree / path, untracked=False)}\n"


def content(path: Path) -> str:
    """What stands for a file in a digest: mode and sha256, a link's target, or what else it is."""
    if path.is_symlink():
        return f"link {path.readlink()}"
    if not path.is_file():
        return "folder" if path.exists() else "gone"
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    executable = os.name != "nt" and bool(path.stat().st_mode & 0o100)
    return f"{'x' if executable else '-'} {digest}"


def unignored(tree: PurePath, scratch: PurePath) -> tuple[str, ...]:
    """Files of a tree that is no checkout, by its own .gitignore; `scratch` is an empty repository.

    A repository inside the tree is named as a folder, with a slash at its end.
    """
    if not Path(scratch).exists():
        shell.capture(
            command("init", "--quiet", "--bare", "--", str(scratch), what="list the tree")
        )
    inside = (f"--git-dir={scratch}", f"--work-tree={tree}", "-c", "core.excludesFile=")
    listed = ask(tree, *inside, "ls-files", "-z", "--others", "--exclude-standard")
    return tuple(sorted(entry for entry in listed.split("\0") if entry))
