"""What the environment would be now: from what deps and source left, rendered nowhere."""

from __future__ import annotations

from tasks.core.deps_model import CompilerCache, DepsManifest
from tasks.core.errors import TorchyardError
from tasks.stages.env.job import Environment, EnvJob
from tasks.stages.env.resolve import resolve_environments
from tasks.stages.source.job import SourceTree
from tasks.system import manifests


def preview_environment(job: EnvJob) -> Environment | None:
    """That of source builds; None where the stages before have not run yet."""
    try:
        deps, cache = (
            manifests.read_manifest(job.deps, DepsManifest),
            manifests.read_manifest(job.cache, CompilerCache),
        )
        tree = manifests.read_manifest(job.source, SourceTree).tree if job.source else ""
    except TorchyardError:
        return None
    return resolve_environments(job, deps, cache, tree)[0]
