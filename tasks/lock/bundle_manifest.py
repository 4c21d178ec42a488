"""Define the manifest of a bundle, and make the jobs of a plan fetch from a bundle."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from tasks.core.errors import redact_secrets
from tasks.core.model import Plan
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.source.model import SourceJob

BUNDLE_SCHEMA = 1
MANIFEST_NAME = "bundle.json"
WHEELS_FOLDER = "wheels"  # wheels and sdists, in the layout that pip and uv search


@dataclass(frozen=True)
class BundledFile:
    """The digest and the size of a bundled file."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Bundle:
    """The manifest bundle.json.

    `repositories` and `archives` map URLs, without credentials, to paths of git repositories and
    source archives in the bundle. `files` maps the path of each file to its digest and size.
    """

    schema: int
    torchyard: str
    profile: str
    python: str
    platform: str
    repositories: Mapping[str, str] = field(default_factory=dict)
    archives: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, BundledFile] = field(default_factory=dict)


def redirect_plan(plan: Plan, bundle: Bundle, folder: PurePath) -> Plan:
    """Return the plan whose jobs fetch from the bundle in `folder`. Fingerprints do not change."""
    paths = {**bundle.repositories, **bundle.archives}
    mirrors = {url: str(folder / path) for url, path in paths.items()}

    def redirect_job(job: Any) -> Any:
        if not isinstance(job, SourceJob | ExtensionJob):
            return job
        mirror = mirrors.get(redact_secrets(job.location))
        with_credentials = {job.location: mirror} if mirror else {}  # the URL as in the settings
        return replace(job, mirrors={**job.mirrors, **mirrors, **with_credentials})

    stages = tuple(replace(stage, job=redirect_job(stage.job)) for stage in plan.stages)
    return replace(plan, stages=stages)
