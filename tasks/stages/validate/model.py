"""What validate is given and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tasks.core.model import Arch, Stage, System, ValidationResult


@dataclass(frozen=True)
class SmokeCheck:
    """A script that shows an extension at work; with `gpu` it needs a card."""

    script: PurePath
    gpu: bool


@dataclass(frozen=True)
class ValidateJob:
    """What to look at.

    `checks` are the names of the settings, `timeout` seconds for each program that is run,
    `extensions` maps a name to its manifest, `smokes` one to its script. `stages` are those that
    build, whose records tell what was asked for then. `root` is the checkout, `knowledge` the
    folder of facts, `work` one for what is compiled here, `junit` the report for CI.
    """

    profile: str
    system: System
    checks: tuple[str, ...]
    timeout: int
    targets: tuple[Arch, ...]
    deps: PurePath
    wheel: PurePath
    abi_manifest: PurePath
    environment: PurePath
    extensions: Mapping[str, PurePath]
    smokes: Mapping[str, SmokeCheck]
    stages: tuple[Stage, ...]
    root: PurePath
    knowledge: PurePath
    templates: PurePath
    work: PurePath
    manifest: PurePath
    junit: PurePath
    log: PurePath

    @property
    def build_command(self) -> str:
        """The command that builds what is looked at."""
        return f"doit build profile={self.profile}"


@dataclass(frozen=True)
class Validation:
    """The manifest validate.json, by which a program can tell what a person reads.

    `schema` is the version of this form: 2 since `warnings` and each check's `cause` are there.
    `torch` is the version that was looked at, `counts` how many checks are passed, failed and "not
    run", `warnings` what puts all of them in doubt, `checks` the answers in the table's order.
    """

    schema: int
    torch: str
    counts: Mapping[str, int]
    checks: tuple[ValidationResult, ...]
    warnings: tuple[str, ...] = ()
