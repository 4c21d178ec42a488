"""The shapes of what is known of extensions, and of what belongs to one torch. No question is
answered here.

`when` is a condition as combinations.yaml writes it, `cuda` being there for CUDA builds alone;
`status` is the evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tasks.core.model import Arch
    from tasks.knowledge.archs import MachineCode

PypiStatus = Literal["own", "unrelated", "absent"]


@dataclass(frozen=True)
class BuildSetting:
    """Variables, and options that nvcc gets last, of builds where `when` holds."""

    why: str
    env: Mapping[str, str]
    nvcc: tuple[str, ...]
    when: Mapping[str, Any]
    status: str


@dataclass(frozen=True)
class ArchVariable:
    """A setup.py that takes archs by a variable of its own: digits, ";" between. `known` are all
    that it takes; none: any.
    """

    variable: str
    known: tuple[Arch, ...]
    why: str
    status: str


@dataclass(frozen=True)
class BuildFailure:
    """A torch or CUDA that the entry's own source is known not to build with."""

    what: str
    fix: str
    when: Mapping[str, Any]
    status: str


@dataclass(frozen=True)
class ExtensionFact:
    """A CUDA extension: its sources, what to import, and what its build needs that it does not say.

    One of `git` (at `ref`) and `sdist` is set. `requires` are packages that its build imports,
    `after` names of extensions that it imports. `own_jobs`: its setup.py puts a number of jobs
    where MAX_JOBS has none. `compiler_mib` is the memory of one compiler, 0 where nobody knows.
    `check` is a script of templates/checks, `pypi` whose package has its name on the index,
    `distribution` the name in its metadata, `subdirectory` the folder of its project.
    """

    name: str
    distribution: str
    git: str
    ref: str
    sdist: str
    subdirectory: str
    submodules: tuple[str, ...]
    imports: tuple[str, ...]
    headers: tuple[str, ...]
    settings: tuple[BuildSetting, ...]
    archs: ArchVariable | None
    requires: tuple[str, ...]
    after: tuple[str, ...]
    own_jobs: bool
    compiler_mib: int
    fails: tuple[BuildFailure, ...]
    check: str
    pypi: PypiStatus
    warnings: tuple[str, ...]
    status: str

    @property
    def source(self) -> str:
        """Its source as a person would write it."""
        return f"git: {self.git}" if self.git else f"sdist: {self.sdist}"


@dataclass(frozen=True)
class StableAbiWheel:
    """A wheel that runs with any torch of a range, whoever built it: it uses the stable ABI alone.

    `torch` and `cuda` are version specifiers, `code` is the machine code in it; `beside_built` is
    the evidence that it runs with a torch that no official wheel is.
    """

    wheel: str
    torch: str
    cuda: str
    system: str
    machine: str
    code: MachineCode
    why: str
    beside_built: str
    status: str


@dataclass(frozen=True)
class CompanionFact:
    """What belongs to one torch. `source` is how it is built, None for triton, whose `packages` by
    system and `pins` in PyTorch's tree say which wheel it is.
    """

    name: str
    imports: tuple[str, ...]
    source: ExtensionFact | None
    independent: tuple[StableAbiWheel, ...]
    packages: Mapping[str, str]
    pins: Mapping[str, str]
    warnings: tuple[str, ...]
    status: str
