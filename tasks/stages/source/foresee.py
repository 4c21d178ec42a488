"""What reading the tree would find, or bring about. Asks git, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tasks.core.errors import BuildError
from tasks.stages.source import series
from tasks.stages.source.job import SourceJob, SourceTree
from tasks.system import git, manifests


def foresee(job: SourceJob) -> tuple[str, ...]:
    """Why the tree, or what is known of it, would change; none where nothing would."""
    if not Path(job.tree).is_dir():
        return (f"{job.location} is not here yet",)
    return tuple(_moves(job))


def _moves(job: SourceJob) -> Iterator[str]:
    if job.kind == "git" and not git.is_at(job.tree, job.location, job.at, job.submodules):
        yield f"{job.at} is to be checked out"
    if series.applied(job.tree, job.state) != series.wanted(job.patches):
        yield "the series of patches changed"
    if git.is_checkout(job.tree) and (last := last_read(job)):
        yield from _since(job, last)


def last_read(job: SourceJob) -> SourceTree | None:
    """What a finished run read of the same tree; None where that is not to be had any more."""
    try:
        last = manifests.read(job.manifest, SourceTree)
    except BuildError:
        return None
    return last if last.tree == str(job.tree) else None


def _since(job: SourceJob, last: SourceTree) -> Iterator[str]:
    now = git.state(job.tree)
    stale = git.stale_submodules(job.tree, last.commit) if job.submodules else ()
    found = tuple(moved(last, replace(now, submodules=last.submodules) if stale else now))
    yield from found
    if stale:
        yield f"submodules to bring along: {', '.join(stale)}"
    if found:
        yield from kept_back(job, stale)


def moved(last: SourceTree, now: git.GitState | SourceTree) -> Iterator[str]:
    """What of a checkout is not as it was when it was last read."""
    if last.commit and now.commit != last.commit:
        yield f"commit {last.commit[:8]} → {now.commit[:8]}"
    if dict(now.submodules) != dict(last.submodules):
        yield "submodules moved"
    if now.edits != last.edits:
        yield "uncommitted edits changed" if now.edits else "uncommitted edits are gone"


def kept_back(job: SourceJob, stale: Sequence[str] = ()) -> Iterator[str]:
    """Submodules that a person moved, which a pull does not move along; `stale` are no such."""
    if job.submodules and (own := sorted({*git.moved_submodules(job.tree)} - {*stale})):
        yield (
            f"submodules left at a commit that the tree does not record: {', '.join(own)} "
            f"(git -C {job.tree} submodule update brings them to theirs)"
        )
