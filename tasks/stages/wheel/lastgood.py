"""What was last installed, and imported, of what was built here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.core.model import Artifact
from tasks.stages.wheel.job import BuiltJob
from tasks.system import files, manifests


@dataclass(frozen=True)
class LastWheel:
    """The digest of the wheel's content without its version, and the wheel that has it. `asked` is
    its version without the commit, `record` the sha256 of RECORD as it was left installed.
    """

    digest: str
    artifact: Artifact
    identity: str
    asked: str = ""
    record: str = ""


def read_last_wheel(job: BuiltJob) -> LastWheel | None:
    """What was installed before, where its wheel is still what it was."""
    try:
        last = manifests.read_manifest(job.content, LastWheel)
    except TorchyardError:
        return None
    place = locate_last_wheel(job, last)
    return last if place.is_file() and files.read_artifact(place) == last.artifact else None


def locate_last_wheel(job: BuiltJob, content: LastWheel) -> Path:
    """Where it is kept."""
    return Path(job.wheelhouse) / content.artifact.name


def format_base_version(job: BuiltJob) -> str:
    """Release and local version, without the commit."""
    return f"{job.release}+{job.local}"
