"""What the environment would be now: from what deps and source left, rendered nowhere."""

from __future__ import annotations

from tasks.core.deps_model import Cache, Deps
from tasks.core.errors import BuildError
from tasks.stages.env.job import Environment, EnvJob
from tasks.stages.env.resolve import resolve
from tasks.stages.source.job import SourceTree
from tasks.system import manifests


def foresee(job: EnvJob) -> Environment | None:
    """That of source builds; None where the stages before have not run yet."""
    try:
        deps, cache = manifests.read(job.deps, Deps), manifests.read(job.cache, Cache)
        tree = manifests.read(job.source, SourceTree).tree if job.source else ""
    except BuildError:
        return None
    return resolve(job, deps, cache, tree)[0]
