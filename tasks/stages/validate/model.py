"""The job and the manifest of the `validate` stage."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tasks.core.model import Arch, Layout, Stage, System, ValidationResult


@dataclass(frozen=True)
class SmokeCheck:
    """A script that tests an extension. `gpu` says whether the script requires a GPU."""

    script: PurePath
    gpu: bool


@dataclass(frozen=True)
class ValidateJob:
    """The job of the `validate` stage: the requested checks, and the files to check.

    `timeout` is the limit in seconds for each program. `extensions` are manifests and `smokes` test
    scripts, by extension name. `stages` are the build stages, to find out if a build is outdated.
    `junit` is the file for the JUnit report.
    """

    layout: Layout
    system: System
    checks: tuple[str, ...]
    timeout: int
    targets: tuple[Arch, ...]
    extensions: Mapping[str, PurePath]
    smokes: Mapping[str, SmokeCheck]
    stages: tuple[Stage, ...]
    manifest: PurePath
    junit: PurePath
    log: PurePath

    @property
    def build_command(self) -> str:
        """Return the command that builds the checked artifacts."""
        return f"doit build profile={self.layout.profile}"


@dataclass(frozen=True)
class Validation:
    """The manifest validate.json: the machine-readable form of the printed table.

    `schema` is the version of this format. Version 2 added `warnings` and the `cause` of a check.
    `counts` are the numbers of checks by status.
    """

    schema: int
    torch: str
    counts: Mapping[str, int]
    checks: tuple[ValidationResult, ...]
    warnings: tuple[str, ...] = ()
