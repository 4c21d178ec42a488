"""Define the immutable types that planning and building share. They do no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Any, Literal

from tasks.core.errors import KnowledgeError
from tasks.core.project import Project

Json = dict[str, Any] | list[Any] | str | int | float | bool | None
System = Literal["linux", "windows", "macos"]
Strategy = Literal["source", "prebuilt", "existing"]
# "numpy==2.3.5" → the accepted sha256 digests of its files, from torchyard.lock
LockedPackages = Mapping[str, tuple[str, ...]]

_CAPABILITY_TEXT = re.compile(r"(\d{1,2})\.(\d)([af]?)")
_MACHINE_CODE_NAME = re.compile(r"(?:sm_|compute_)(\d{1,2})(\d)([af]?)")


@dataclass(frozen=True, order=True)
class Arch:
    """A compute capability such as `12.0`. `9.0a` is only for this chip, `12.0f` for its family."""

    major: int
    minor: int
    suffix: str = ""

    @classmethod
    def parse_capability(cls, text: str) -> Arch:
        """Parse `12.0`, `9.0a`, `sm_120` or `compute_90a`. Raises `KnowledgeError`."""
        text = text.strip()
        match = _CAPABILITY_TEXT.fullmatch(text) or _MACHINE_CODE_NAME.fullmatch(text)
        if not match:
            raise KnowledgeError(f'"{text}" is not a compute capability', hint='write it as "12.0"')
        return cls(int(match[1]), int(match[2]), match[3])

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.suffix}"

    @property
    def sm(self) -> str:
        """Return the architecture name of nvcc, `sm_120`."""
        return f"sm_{self.major}{self.minor}{self.suffix}"


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine, with its compute capability, such as `12.0`."""

    name: str
    capability: str
    memory_mib: int = 0


@dataclass(frozen=True)
class InstalledToolkit:
    """A CUDA toolkit on this machine. `asked` is True if toolkit.path names the toolkit."""

    home: str
    version: str
    asked: bool = False

    @property
    def release(self) -> str:
        """Return the major and minor version, `13.0`."""
        return ".".join(self.version.split(".")[:2])


@dataclass(frozen=True)
class InstalledTorch:
    """The torch that an interpreter has; `cuda` is `None` for a CPU torch."""

    version: str
    cuda: str | None
    folder: str


@dataclass(frozen=True)
class Interpreter:
    """A Python: the base of the environment, or the Python that has the existing torch."""

    path: str
    version: str
    torch: InstalledTorch | None = None

    @property
    def minor(self) -> str:
        """Return the major and minor version, `3.11`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def tag(self) -> str:
        """Return the CPython wheel tag, `cp311`."""
        return "cp" + self.minor.replace(".", "")


@dataclass(frozen=True)
class Host:
    """The facts that planning needs; `pinned` is True if they come from host.json."""

    system: System
    machine: str
    python: Interpreter
    gpus: tuple[Gpu, ...] = ()
    toolkits: tuple[InstalledToolkit, ...] = ()
    pinned: bool = False


def _below(folder: str, path: str) -> cached_property[PurePath]:
    """Return a property of `Layout`: `path` in the folder of the property named `folder`."""
    return cached_property(lambda layout: getattr(layout, folder) / path)


@dataclass(frozen=True)
class Layout:
    """The absolute paths of a profile, all derived from the project and the profile name."""

    project: Project
    profile: str
    wheelhouse: PurePath

    venv = _below("build", "venv")  # torch and the extensions are installed into it
    overlay = _below("build", "overlay")  # build tools for an existing, unmodified interpreter
    logs = _below("build", "logs")  # one for each command
    abi_fingerprints = _below("build", "surfaces")  # of recent torches, to detect a changed ABI

    @property
    def root(self) -> PurePath:
        """Return the folder that relative paths in the settings start at."""
        return self.project.root

    @property
    def build(self) -> PurePath:
        """Return the build directory of this profile. torchyard owns everything in it."""
        return self.project.compute_build_folder(self.profile)

    @property
    def jobserver(self) -> PurePath:
        """Return the folder of the jobserver, which all builds of the user share."""
        return self.project.jobserver

    def compute_manifest_path(self, name: str) -> PurePath:
        """Return the path of a manifest; for `extensions:smoke`, `extensions/smoke.json`."""
        return self.build.joinpath(*f"{name}.json".split(":"))


@dataclass(frozen=True)
class Command:
    """A process to run, as an argument list and never as a shell string.

    `env` is the whole environment of the child. `step_name` names the step in messages ("install
    torch"). `timeout` is in seconds. `encoding` is the encoding of the output. `serves` is True if
    the command starts a server that outlives the run.
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
    """A file that a build made, identified by its digest."""

    name: str
    sha256: str
    size: int


CheckStatus = Literal["passed", "failed", "not run"]


@dataclass(frozen=True)
class ValidationResult:
    """The result of one check.

    `detail` says what was found, or why the check did not run. `remedy` says what to do. `cause` is
    the key of a known failure in failures.yaml, "" if none matches.
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
    "install": ("Installing", "Installed"),
    "validate": ("Validating", "Validated"),
}


@dataclass(frozen=True)
class Stage:
    """A stage of the plan, which becomes one doit task.

    `kind` is the package of the stage in tasks.stages; `run.run(job)` there runs the stage.
    `fingerprint` holds every value whose change must run the stage again, and nothing else.
    `inputs` are manifests of earlier stages. `outputs` are the manifests to write, one for each
    value that `run.run` returns, in order. The stage also runs if a file in `extra_outputs` is
    missing.

    `uptodate_check` is for changes that neither fingerprint nor inputs show, such as an upgraded
    compiler or an edited source: `stale` calls `up_to_date.is_stale(job)`, `always` runs the stage
    every time. `explain_changes.list_changes(job)` describes what changed in `explained_inputs`.
    `optional_inputs` are those of `inputs` that may be missing: this stage runs after the stages
    that write them, even if those failed.
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
    """The stages of a run. `headline` has the main decisions, `absent` why a stage is left out."""

    stages: tuple[Stage, ...]
    validate: Stage
    headline: tuple[tuple[str, str], ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def find_stages(self, kind: str) -> tuple[Stage, ...]:
        """Return the stages of that kind, in build order."""
        return tuple(stage for stage in self.stages if stage.kind == kind)
