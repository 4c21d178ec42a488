"""Asked in each run, so it is small: does the last result of an extension still stand?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.core.dependencies import unlike
from tasks.core.deps_model import Deps
from tasks.core.errors import BuildError
from tasks.stages.extensions import sources
from tasks.stages.extensions.job import Built, ExtensionJob
from tasks.system import manifests
from tasks.system.python import frozen


def moved(job: ExtensionJob) -> bool:
    """Whether the last result no longer stands: its folder was edited, its host was away, or
    torchyard.lock holds something else.
    """
    try:
        last = manifests.read(job.manifest, Built)
    except BuildError:
        return True
    if last.status == "unreachable" or not all(Path(path).is_file() for path in last.libraries):
        return True
    if job.kind == "path" and last.source.get("digest") != sources.path_digest(job):
        return True
    return any(_unlike(job, last))


def unlocked(job: ExtensionJob) -> tuple[str, ...]:
    """What torchyard.lock holds and is not there."""
    return tuple(_unlike(job, manifests.read(job.manifest, Built)))


def _unlike(job: ExtensionJob, last: Built) -> Iterator[str]:
    commit, digest = last.source.get("commit", ""), last.source.get("sha256", "")
    if job.commit not in ("", commit):
        yield f"{job.ref} is locked at {job.commit[:7]}, and {commit[:7]} is built"
    if job.locked_sha256 not in ("", digest):
        yield f"sha256 {job.locked_sha256[:12]}… is locked, and {digest[:12]}… is built"
    if job.locked:
        yield from unlike(job.locked, frozen.versions(_site(job)))
    required = job.work / "requires"
    if job.locked_requires and Path(required).is_dir():
        yield from unlike(job.locked_requires, frozen.versions(required))


def _site(job: ExtensionJob) -> Path:
    """The environment's, as deps left it."""
    return frozen.site_of(Path(manifests.read(job.deps, Deps).scripts).parent)
