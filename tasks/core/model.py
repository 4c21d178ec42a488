"""The values that everything else passes around: frozen, and free of effects.

A `Stage` is what the plan wants; its `job` is what the stage's action is given; `inputs` is
everything that must cause it to run again and nothing else. Paths are pure: a plan for Windows is
made and tested on Linux.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal

from tasks.core.errors import KnowledgeError

Json = dict[str, Any] | list[Any] | str | int | float | bool | None
System = Literal["linux", "windows", "macos"]
Strategy = Literal["source", "prebuilt", "existing"]
# "numpy==2.3.5" → the sha256 of each file that it may be, as torchyard.lock holds them
LockedPackages = Mapping[str, tuple[str, ...]]

_CAPABILITY_TEXT = re.compile(r"(\d{1,2})\.(\d)([af]?)")
_MACHINE_CODE_NAME = re.compile(r"(?:sm_|compute_)(\d{1,2})(\d)([af]?)")


@dataclass(frozen=True, order=True)
class Arch:
    """A compute capability with its suffix: `12.0`, `9.0a` (one chip only) or `12.0f` (one
    family).
    """

    major: int
    minor: int
    suffix: str = ""

    @classmethod
    def parse_capability(cls, text: str) -> Arch:
        """Read `12.0`, `9.0a`, `sm_120` or `compute_90a`; anything else is a `KnowledgeError`."""
        found = _CAPABILITY_TEXT.fullmatch(text.strip()) or _MACHINE_CODE_NAME.fullmatch(
            text.strip()
        )
        if not found:
            raise KnowledgeError(f'"{text}" is not a compute capability', hint='write it as "12.0"')
        return cls(int(found[1]), int(found[2]), found[3])

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.suffix}"

    @property
    def sm(self) -> str:
        """The name of its machine code, `sm_120`."""
        return f"sm_{self.major}{self.minor}{self.suffix}"


@dataclass(frozen=True)
class Gpu:
    """A card that is in this machine; `capability` as text, `12.0`."""

    name: str
    capability: str
    memory_mib: int = 0


@dataclass(frozen=True)
class InstalledToolkit:
    """A CUDA toolkit on this machine: its CUDA_HOME and full version, `13.0.88`. `asked` is the one
    that toolkit.path names.
    """

    home: str
    version: str
    asked: bool = False

    @property
    def release(self) -> str:
        """Major and minor, `13.0`."""
        return ".".join(self.version.split(".")[:2])


@dataclass(frozen=True)
class InstalledTorch:
    """A torch that an interpreter already holds, read from its files and not imported."""

    version: str
    cuda: str | None
    folder: str


@dataclass(frozen=True)
class Interpreter:
    """A Python that the environment is built for, or that holds the existing torch."""

    path: str
    version: str
    torch: InstalledTorch | None = None

    @property
    def minor(self) -> str:
        """Major and minor, `3.11`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def tag(self) -> str:
        """The CPython wheel tag, `cp311`."""
        return "cp" + self.minor.replace(".", "")


@dataclass(frozen=True)
class Host:
    """What planning needs to know of this machine. Pinned in host.json by the first run that
    builds.
    """

    system: System
    machine: str
    python: Interpreter
    gpus: tuple[Gpu, ...] = ()
    toolkits: tuple[InstalledToolkit, ...] = ()
    pinned: bool = False


def compute_build_folder(root: PurePath, profile: str) -> PurePath:
    """The build folder of a profile, or of the cell of a matrix (`NAME@CELL`): no @ is in it, which
    package tools read in a way of their own.
    """
    return root / "build" / profile.replace("@", ".")


@dataclass(frozen=True)
class Layout:
    """Where things are: absolute paths, all derived from the checkout and the profile."""

    root: PurePath
    profile: str
    wheelhouse: PurePath

    @property
    def build(self) -> PurePath:
        """Everything of this profile that we own."""
        return compute_build_folder(self.root, self.profile)

    @property
    def venv(self) -> PurePath:
        """The environment that torch and the extensions are installed into."""
        return self.build / "venv"

    @property
    def overlay(self) -> PurePath:
        """Build tools beside an existing interpreter, so that nothing is installed into it."""
        return self.build / "overlay"

    @property
    def logs(self) -> PurePath:
        """One log per command."""
        return self.build / "logs"

    @property
    def abi_fingerprints(self) -> PurePath:
        """What the last torches showed to extensions, so that a later one can be told from them."""
        return self.build / "surfaces"

    @property
    def jobserver(self) -> PurePath:
        """The jobs that all builds of the checkout share."""
        return self.root / "build" / ".jobs"

    @property
    def config(self) -> PurePath:
        """Settings, profiles and knowledge."""
        return self.root / "config"

    @property
    def templates(self) -> PurePath:
        """Jinja templates, and the smoke extension."""
        return self.root / "templates"

    def compute_manifest_path(self, name: str) -> PurePath:
        """The manifest `name`; `extensions:smoke` lies in a folder of its own kind."""
        return self.build.joinpath(*f"{name}.json".split(":"))


@dataclass(frozen=True)
class Command:
    """A process to run: an argument list, never a shell string.

    `env` is the whole environment of the child. `what` names the step in messages ("install
    torch"). `timeout` is in seconds; None waits for ever. `encoding` is that of what it prints. It
    `serves` where it leaves a server at work that is to outlive the run.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    step_name: str
    cwd: PurePath | None = None
    log: PurePath | None = None
    timeout: float | None = None
    encoding: str = "utf-8"
    serves: bool = False


@dataclass(frozen=True)
class Artifact:
    """A file that came out of a build, known by its bytes."""

    name: str
    sha256: str
    size: int


CheckStatus = Literal["passed", "failed", "not run"]


@dataclass(frozen=True)
class ValidationResult:
    """One answer: `detail` is what was found or why it was not run, `remedy` what to do then.

    `cause` is the slug of a known failure (config/knowledge/failures.yaml), "" where none is
    recognised.
    """

    name: str
    status: CheckStatus
    detail: str
    remedy: str = ""
    cause: str = ""


# The stage kinds in build order, with what the console prints while a stage runs and after it
STAGE_VERBS = {
    "deps": ("Preparing", "Prepared"),
    "source": ("Reading", "Read"),
    "env": ("Rendering", "Rendered"),
    "compile": ("Compiling", "Compiled"),
    "wheel": ("Installing", "Installed"),
    "extensions": ("Building", "Built"),
    "install": ("Handing over", "Handed over"),
    "validate": ("Validating", "Validated"),
}


@dataclass(frozen=True)
class Stage:
    """A stage of the plan, which becomes one doit task.

    `kind` is its package in tasks.stages: `run.run(job)` runs it. `fingerprint` holds every value
    whose change must run the stage again. `inputs` are manifests of earlier stages. `outputs` are
    the manifests that the returned values are written to, in order; if a file of `extra_outputs` is
    missing, the stage runs again.

    `uptodate_check` is for changes that neither fingerprint nor inputs show: with `stale`,
    `up_to_date.is_stale(job)` is called (a changed extension folder, an upgraded compiler); with
    `always`, the stage runs every time and returns identical outputs if nothing changed (a source
    tree). `explain_changes.list_changes(job)` describes what changed in `explained_inputs`. The
    stage also runs without the manifests in `optional_inputs`, a subset of `inputs`, after their
    stages have ended or failed.
    """

    name: str
    kind: str
    doc: str
    job: Any
    fingerprint: Mapping[str, Json]
    outputs: tuple[PurePath, ...]
    inputs: tuple[PurePath, ...] = ()
    extra_outputs: tuple[PurePath, ...] = ()
    uptodate_check: Literal["", "always", "stale"] = ""
    explained_inputs: tuple[PurePath, ...] = ()
    optional_inputs: tuple[PurePath, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Everything that is known before anything runs. `absent` maps a stage that this strategy lacks
    to the reason.
    """

    stages: tuple[Stage, ...]
    validate: Stage
    headline: tuple[tuple[str, str], ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def find_stages(self, room: str) -> tuple[Stage, ...]:
        """The stages of a room, in their order."""
        return tuple(stage for stage in self.stages if stage.kind == room)
