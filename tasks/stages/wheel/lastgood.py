"""What was last installed, and imported, of what was built here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.core.errors import BuildError
from tasks.core.model import Artifact
from tasks.stages.wheel.job import BuiltJob
from tasks.system import files, manifests


@dataclass(frozen=True)
class Content:
    """The digest of the wheel's content without its version, and the wheel that has it. `asked` is
    its version without the commit, `record` the sha256 of RECORD as it was left installed.
    """

    digest: str
    artifact: Artifact
    identity: str
    asked: str = ""
    record: str = ""


def read(job: BuiltJob) -> Content | None:
    """What was installed before, where its wheel is still what it was."""
    try:
        last = manifests.read(job.content, Content)
    except BuildError:
        return None
    place = wheel_of(job, last)
    return last if place.is_file() and files.artifact(place) == last.artifact else None


def wheel_of(job: BuiltJob, content: Content) -> Path:
    """Where it is kept."""
    return Path(job.wheelhouse) / content.artifact.name


def asked(job: BuiltJob) -> str:
    """Release and local version, without the commit."""
    return f"{job.release}+{job.local}"
