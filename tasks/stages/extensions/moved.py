"""Asked in each run, so it is small: does the last result of an extension still stand?"""

from __future__ import annotations

from pathlib import Path

from tasks.effects import manifests
from tasks.errors import BuildError
from tasks.stages.extensions import sources
from tasks.stages.extensions.job import Built, ExtensionJob


def moved(job: ExtensionJob) -> bool:
    """Whether the last result no longer stands: its folder was edited, or its host was away."""
    try:
        last = manifests.read(job.manifest, Built)
    except BuildError:
        return True
    if last.status == "unreachable" or not all(Path(path).is_file() for path in last.libraries):
        return True
    return job.kind == "path" and last.source.get("digest") != sources.path_digest(job)
