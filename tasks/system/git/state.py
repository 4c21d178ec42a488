"""What a checkout holds: its commit, its submodules' commits and a digest of what a person changed.

`git status` names the few files that differ, and only those are read. What a build leaves in
submodules (files that git does not track there) is not an edit.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.system import files, shell
from tasks.system.git.command import command
from tasks.system.git.newfiles import new_files


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


def state(tree: PurePath, kept: PurePath | None = None) -> GitState:
    """Read a checkout; equal states mean equal content. In the tree nothing is written.

    git's index decides what is edited, in one command. Beside it the submodules are asked, and
    which files are new: by the file `kept`, which is ours, without a walk where no folder changed.
    """
    with ThreadPoolExecutor(max_workers=2) as beside:
        new = beside.submit(_untracked, tree, kept)
        within = beside.submit(lambda: dict(submodules_of(tree)))
        commit, changed = _status(tree)
        lines = [*changed, *new.result()]
        return GitState(commit, within.result(), _digest(lines))


def is_clean(folder: PurePath) -> bool:
    """Return True if a folder is a checkout without local changes; False if git cannot tell."""
    try:
        return is_checkout(folder) and not state(folder).edits
    except (CommandFailedError, MissingToolError):
        return False


def ask(tree: PurePath, *args: str, what: str = "read the checkout") -> str:
    """What a short git command prints."""
    return shell.capture(command(*args, what=f"{what} {tree}", at=tree))


def date(tree: PurePath) -> int:
    """When the commit that is checked out was made, in seconds since 1970; 0 without one."""
    try:
        told = ask(tree, "show", "-s", "--no-show-signature", "--format=%ct", "HEAD")
    except CommandFailedError:
        return 0
    return int(told)


def submodule_lines(tree: PurePath) -> Iterator[tuple[str, str, str]]:
    """Flag ("-" not there, "+" another commit, " " in step), path and commit of every submodule.

    As `git submodule status`, which starts several processes for each: here git is asked twice a
    repository, and what is checked out is read.
    """
    for path, recorded in _recorded(tree).items():
        inner = Path(tree) / path
        head = head_of(inner) if is_checkout(inner) else ""
        yield ("-" if not head else " " if head == recorded else "+"), path, head or recorded


def _recorded(tree: PurePath) -> dict[str, str]:
    """Path → commit of the submodules in git's index."""
    paths = _named(tree)
    if not paths:
        return {}
    listed = ask(tree, "ls-files", "--stage", "-z", "--", *paths)
    entries = (entry.partition("\t") for entry in listed.split("\0"))
    return {path: head.split()[1] for head, _, path in entries if head.startswith("160000 ")}


def _named(tree: PurePath) -> list[str]:
    """The paths that .gitmodules names."""
    if not (Path(tree) / ".gitmodules").exists():
        return []
    try:
        named = ask(tree, "config", "-z", "--file", ".gitmodules", "--get-regexp", r"\.path$")
    except CommandFailedError:
        return []
    return [entry.partition("\n")[2] for entry in named.split("\0") if entry]


def place_of(tree: Path) -> Path:
    """The repository's own folder: of a submodule or a worktree it lies elsewhere."""
    link = tree / ".git"
    return link if link.is_dir() else tree / link.read_text("utf-8").partition(": ")[2].strip()


def head_of(tree: Path) -> str:
    """The commit that is checked out; "" where there is none yet."""
    try:
        head = (place_of(tree) / "HEAD").read_text(encoding="utf-8").strip()
        return _of_branch(tree, head.partition(": ")[2]) if head.startswith("ref:") else head
    except (OSError, CommandFailedError):
        return ""


def _of_branch(tree: Path, ref: str) -> str:
    """The commit of a branch: read where it has a file of its own, else asked."""
    with contextlib.suppress(OSError):
        return (place_of(tree) / ref).read_text(encoding="utf-8").strip()
    return ask(tree, "rev-parse", "HEAD").strip()


def submodules_of(tree: PurePath) -> Iterator[tuple[str, str]]:
    """Path and commit of those that are checked out; what git's index records is not asked."""
    for path in _named(tree):
        inner = Path(tree) / path
        if is_checkout(inner) and (head := head_of(inner)):
            yield path, head
            yield from ((f"{path}/{below}", commit) for below, commit in submodules_of(inner))


def edits(tree: PurePath, *, untracked: bool = True) -> str:
    """Digest of changed and new files by path, mode and content; "" where there are none."""
    _, changed = _status(tree)
    return _digest([*changed, *(_untracked(tree) if untracked else ())])


def _status(tree: PurePath) -> tuple[str, list[str]]:
    """The commit, and a line of the digest for each tracked file that is not as committed."""
    text = ask(
        tree, "status", "--porcelain=v2", "-z", "--branch", "--no-renames",
        "--untracked-files=no", "--ignore-submodules=untracked",
    )  # fmt: skip
    entries = [entry for entry in text.split("\0") if entry]
    (commit,) = (e.rpartition(" ")[2] for e in entries if e.startswith("# branch.oid "))
    changed = [entry for entry in entries if not entry.startswith("#")]
    return commit, [line for entry in changed for line in _edit(Path(tree), entry)]


def _untracked(tree: PurePath, kept: PurePath | None = None) -> list[str]:
    top = Path(tree)
    names = new_files(partial(ask, tree), tree, place_of(top), head_of(top) if kept else "", kept)
    return [f"{name}\0{content(top / name)}\n" for name in names]


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest() if lines else ""


def _edit(tree: Path, entry: str) -> Iterator[str]:
    """The line that one entry of `git status --porcelain=v2` adds to the digest."""
    kind = entry[0]
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
    executable = os.name != "nt" and bool(path.stat().st_mode & 0o100)
    return f"{'x' if executable else '-'} {files.artifact(path).sha256}"


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
