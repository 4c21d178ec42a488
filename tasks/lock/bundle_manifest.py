"""A bundle: what a profile is built of, in one folder or archive. And a plan that takes it from
there.
"""

from __future__ import annotations

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
WHEELS_FOLDER = "wheels"  # wheels and sdists, as pip and uv look for them


@dataclass(frozen=True)
class BundledFile:
    """A file of the bundle."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Bundle:
    """The manifest bundle.json. `repositories` maps the URL of a git repository to its folder,
    `archives` that of a source archive to its file; URLs without what opens them. `files` is
    everything that it consists of, by path.
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
    """The plan that fetches from `folder`, where the bundle lies or will. No input moves: what is
    fetched is the same.
    """
    stages = tuple(
        replace(stage, job=_redirect_job(stage.job, bundle, folder)) for stage in plan.stages
    )
    return replace(plan, stages=stages)


def _redirect_job(job: Any, bundle: Bundle, folder: PurePath) -> Any:
    if not isinstance(job, SourceJob | ExtensionJob):
        return job
    there = {**bundle.repositories, **bundle.archives}
    mirrors = {url: str(folder / place) for url, place in there.items()}
    if own := mirrors.get(redact_secrets(job.location)):
        mirrors[job.location] = own  # with a password in it, as the settings have it
    return replace(job, mirrors={**job.mirrors, **mirrors})
