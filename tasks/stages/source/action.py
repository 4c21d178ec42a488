"""Bring the tree there, keep its submodules and patches in step, and read what it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from tasks.core.digest import canonical
from tasks.core.errors import BuildError, LostEditsError
from tasks.stages.source import series
from tasks.stages.source.foresee import kept_back, last_read, moved
from tasks.stages.source.job import NEW_FILES, Kind, SourceJob, SourceTree
from tasks.stages.source.shape import A_TREE, VERSION, lacking, other_release
from tasks.stages.source.tree import digest
from tasks.system import files, git, manifests
from tasks.system.network import archive
from tasks.system.network.download import download
from tasks.system.network.mirrors import mirrored
from tasks.system.voice import say, warn

_INSTEAD: Mapping[Kind, str] = {
    "git": "set source.git, and source.ref, to PyTorch's repository or a fork of it",
    "tarball": "give an archive of PyTorch's tree",
    "path": f"give {A_TREE}",
}


@dataclass(frozen=True)
class Seen:
    """How the tree was when it was last read: its commit and when that was made, or the archive it
    came from.
    """

    tree: str
    commit: str = ""
    archive: str = ""
    digest: str = ""
    date: int = 0


def run(job: SourceJob) -> tuple[SourceTree]:
    """Leave the tree as asked for, changing it only where it has to be, and say what is in it.

    Raises `BuildError` for a tree with merge conflicts, `FetchError`, `BadArtifactError`, and
    `LostEditsError` where a person's work would be lost.
    """
    files.own(job.state)
    git.require_merged(job.tree, f"source.{job.kind}")
    before = last_read(job)
    match job.kind:
        case "git":
            _clone(job)
        case "tarball":
            _unpack(job)
        case "path":
            pass
    _require_pytorch(job)
    _follow_pull(job)
    now = _read(job, _patch(job))
    _tell(job, before, now)
    return (now,)


def _tell(job: SourceJob, before: SourceTree | None, now: SourceTree) -> None:
    """Why what follows runs: the stage itself is asked each time."""
    if not before or not git.is_checkout(job.tree):
        return
    if lines := tuple(moved(before, now)):
        for line in (*lines, *kept_back(job)):
            say(line)


def _clone(job: SourceJob) -> None:
    git.tell_of_newer(job.location, job.ref, job.commit, job.mirrors)
    if git.is_at(job.tree, job.location, job.at, job.submodules):
        return
    manifests.withdraw(job.manifest)
    if Path(job.tree).exists() and not git.is_checkout(job.tree):
        _set_aside(job)
    if git.is_checkout(job.tree):
        series.take_back(job.tree, job.state, job.log)
    elif near := git.seed(job.tree, job.location, _in_others(job, "pytorch")):
        say(f"what {near} holds is not fetched again")
    try:
        git.clone_at(job.location, job.at, job.tree, job.submodules, job.mirrors, job.log)
    except LostEditsError:
        series.bring(job.tree, job.state, job.patches, job.log)
        raise


def _unpack(job: SourceJob) -> None:
    expected = job.sha256 or files.artifact(Path(job.location)).sha256
    tree = Path(job.tree)
    if tree.exists() and _seen(job).archive == expected:
        return
    manifests.withdraw(job.manifest)
    packed = _archive(job, expected)
    if tree.exists():
        _set_aside(job)
    series.forget(job.state)
    archive.extract(packed, tree)
    _write_seen(job, Seen(str(tree), archive=expected, digest=_digest(job)))


def _archive(job: SourceJob, expected: str) -> Path:
    name = PurePosixPath(urlsplit(job.location).path.replace("\\", "/")).name
    there = (path for path in _in_others(job, f"downloads/{name}") if path.is_file())
    near = next((path for path in there if files.artifact(path).sha256 == expected), None)
    source = str(near or mirrored(job.location, job.mirrors))
    return download(source, job.state / "downloads" / name, expected, job.log)


def _in_others(job: SourceJob, name: str) -> Iterator[Path]:
    """Where other builds of this checkout, such as the other cells of a matrix, have the same."""
    mine = Path(job.state)
    for build in sorted(Path(job.others).iterdir()) if job.others else ():
        place = build / mine.name
        if place != mine and (place / name).exists():
            yield place / name


def _set_aside(job: SourceJob) -> None:
    """Another tree takes this place; the one that is there may hold a person's work."""
    tree, number = Path(job.tree), 1
    while (aside := tree.with_name(f"{tree.name}.{number}")).exists():
        number += 1
    tree.rename(aside)
    series.forget(job.state)
    warn(f"the tree that was in {tree} is now {aside}; remove it when nothing in it is needed")


def _require_pytorch(job: SourceJob) -> None:
    """`BuildError` for any other tree, before hours are spent; a warning for another release than
    all was decided by, which of a folder was said at load.
    """
    tree = Path(job.tree)
    if lacks := lacking(tree):
        came = "" if job.kind == "path" else f", which came from {job.location},"
        raise BuildError(
            f"{tree}{came} is not the source tree of PyTorch: it lacks {', '.join(lacks)}",
            where=f"source.{job.kind}",
            todo=_INSTEAD[job.kind],
        )
    if job.kind != "path" and (found := other_release(tree, job.release)):
        warn(
            f"the tree is {found} by its {VERSION}, and torch.version is {job.release}: facts are "
            f'those of that release, and the wheel is called so. Set torch.version: "{found}"'
        )


def _follow_pull(job: SourceJob) -> None:
    """Bring submodules along that a person's `git pull` left behind."""
    if not job.submodules or not git.is_checkout(job.tree):
        return
    stale = git.stale_submodules(job.tree, _seen(job).commit)
    if stale:
        say(f"bringing submodules to what the tree records: {', '.join(stale)}")
        manifests.withdraw(job.manifest)
        git.update_submodules(job.tree, stale, mirrors=job.mirrors, log=job.log)


def _patch(job: SourceJob) -> tuple[str, ...]:
    if series.applied(job.tree, job.state) != series.wanted(job.patches):
        manifests.withdraw(job.manifest)
    return series.bring(job.tree, job.state, job.patches, job.log)


def _read(job: SourceJob, patches: tuple[str, ...]) -> SourceTree:
    tree = str(job.tree)
    if git.is_checkout(job.tree):
        found = git.state(job.tree, Path(job.state) / NEW_FILES)
        date = _date(job, found.commit)
        _write_seen(job, Seen(tree, commit=found.commit, date=date))
        return SourceTree(
            tree, job.kind, found.commit, found.submodules, found.edits, "", patches, date
        )
    content = _digest(job)
    seen = _seen(job)
    if job.kind != "tarball":
        return SourceTree(tree, job.kind, "", {}, "", content, patches)
    edits = "" if content == seen.digest else content
    return SourceTree(tree, job.kind, "", {}, edits, seen.archive, patches)


def _date(job: SourceJob, commit: str) -> int:
    """Asked once for each commit."""
    seen = _seen(job)
    return seen.date if seen.commit == commit and seen.date else git.date(job.tree)


def _digest(job: SourceJob) -> str:
    return digest(job.tree, job.state / "listing.git")


def _seen(job: SourceJob) -> Seen:
    path = Path(job.state) / "seen.json"
    seen = manifests.read(path, Seen) if path.exists() else Seen(str(job.tree))
    return seen if seen.tree == str(job.tree) else Seen(str(job.tree))


def _write_seen(job: SourceJob, seen: Seen) -> None:
    if seen != _seen(job):
        files.write_atomic(job.state / "seen.json", canonical(seen))
