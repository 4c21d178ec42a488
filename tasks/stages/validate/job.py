"""What validate is given and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from tasks.model import Arch, System

Status = Literal["passed", "failed", "not run"]


@dataclass(frozen=True)
class SmokeCheck:
    """A script that shows an extension at work; with `gpu` it needs a card."""

    script: PurePath
    gpu: bool


@dataclass(frozen=True)
class ValidateJob:
    """What to look at.

    `checks` are the names of the settings, `timeout` seconds for each program that is run,
    `extensions` maps a name to its manifest, `smokes` one to its script. `knowledge` is the folder
    of facts, `work` one for what is compiled here.
    """

    system: System
    checks: tuple[str, ...]
    timeout: int
    targets: tuple[Arch, ...]
    deps: PurePath
    wheel: PurePath
    environment: PurePath
    extensions: Mapping[str, PurePath]
    smokes: Mapping[str, SmokeCheck]
    knowledge: PurePath
    templates: PurePath
    work: PurePath
    manifest: PurePath
    log: PurePath


@dataclass(frozen=True)
class Check:
    """One answer: `detail` is what was found or why it was not run, `remedy` what to do then."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Validation:
    """The manifest validate.json: `schema` is the version of its form, `counts` are by status."""

    schema: int
    torch: str
    counts: Mapping[str, int]
    checks: tuple[Check, ...]
