"""The shapes of the facts. No question is answered here.

`status` is the evidence of an entry, as config/knowledge explains it: "verified: ..." or
"unverified ...".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tasks.core.model import Arch
    from tasks.knowledge.archs import MachineCode

Level = Literal["error", "warning", "info"]
FixStage = Literal["", "deps", "env"]
Backend = Literal["setup_py", "scikit_build_core"]
Channel = Literal["", "nightly", "test", "nowhere"]
Effect = Literal["reuse", "reconfigure", "wipe"]
Phase = Literal["run", "build"]
Rank = Literal["cause", "consequence", "notice", "hint", "rest"]


@dataclass(frozen=True)
class GpuFact:
    """A product, as the driver reports it, and its compute capability.

    `machine` is the only kind of machine that it is in ("aarch64"), "" where it may be in any.
    """

    name: str
    arch: Arch
    status: str
    machine: str = ""


@dataclass(frozen=True)
class GpuFamily:
    """An architecture by its name, and all capabilities of its products."""

    name: str
    archs: tuple[Arch, ...]
    status: str


@dataclass(frozen=True)
class IntegratedGpu:
    """A capability of systems on a chip, which run other cubins than the rule says.

    `runs` are all of them; `runs_since` are more, of toolkits from the CUDA release `since` on.
    """

    runs: frozenset[Arch]
    since: str
    runs_since: frozenset[Arch]
    status: str


@dataclass(frozen=True)
class BinaryRules:
    """What machine code runs on besides the rule of the same major and the minor from its own up.

    `integrated` by capability; `families` are the capabilities that a family arch, `12.0f`, runs
    on.
    """

    integrated: Mapping[Arch, IntegratedGpu]
    families: Mapping[Arch, frozenset[Arch]]


@dataclass(frozen=True)
class Toolkit:
    """A CUDA release.

    `makes` are the cubins its ptxas can write, suffixed ones included. Limits are inclusive, but
    `msvc` is the lowest _MSC_VER it accepts and the first it rejects. `pypi`: PyPI can give it.
    """

    cuda: str
    makes: frozenset[Arch]
    gcc_max: int
    clang_max: int
    msvc: tuple[int, int]
    ptx_isa: str
    pypi: bool
    cuobjdump: bool
    driver: Mapping[str, str | None]
    status: str


@dataclass(frozen=True)
class OfficialWheel:
    """A wheel of pytorch.org, or (`pypi`) of PyPI, and the machine code in it."""

    cuda: str
    system: str
    machine: str
    pypi: bool
    code: MachineCode
    status: str


@dataclass(frozen=True)
class PythonLimit:
    """Wheels of a release that end at an older Python than its other wheels.

    They are the wheels for these systems and machines, () for any; with `pypi`, only those on PyPI.
    `last` is the newest Python, "" if there is no such wheel at all.
    """

    system: tuple[str, ...]
    machine: tuple[str, ...]
    pypi: bool
    last: str


@dataclass(frozen=True)
class Release:
    """A minor release of PyTorch, with the requirements of its newest patch.

    `python` is the first and the last Python that has wheels; `fewer_pythons` lists the platforms
    with fewer. `setuptools`, `torchvision`,
    `torchaudio` and `triton` are version specifiers, "" where anything goes or nothing exists.
    `channel` is where a version before the release is published; its facts are only assumed.
    `patches` are the specifiers of older patches that have others, by patch and name.
    """

    minor: str
    patch: str
    requires_python: str
    python: tuple[str, str]
    cudas_built: tuple[str, ...]
    pypi_cuda: str
    wheels: tuple[OfficialWheel, ...]
    min_cuda_cmake: str
    cxx_std: int
    setuptools: str
    cmake_min: str
    cmake_below: str
    gcc_min: str
    msvc_min: str
    torchvision: str
    torchaudio: str
    triton: str
    backend: Backend
    status: str
    channel: Channel = ""
    fewer_pythons: tuple[PythonLimit, ...] = ()
    patches: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownBad:
    """A combination that is known not to work.

    `when` is one alternative per item; none: no machine can judge it. `cured` is the stage that
    takes care of it, so that a person need not.
    """

    id: str
    level: Level
    when: tuple[Mapping[str, Any], ...]
    what: str
    symptom: str
    fix: str
    status: str
    cured: FixStage = ""


@dataclass(frozen=True)
class MinimumVersion:
    """Something that can be too old.

    `fact` is the field of a combination that is compared, `least` where the number is: a field of
    the release, "driver_floor", "toolkit_msvc", or the number itself. The row is for releases whose
    C++ is `cxx_std` or later, and where every key of `when` holds. `what` and `fix` may name
    {here}, {least}, {torch} and {cuda}.
    """

    id: str
    fact: str
    least: str
    cxx_std: int
    level: Level
    when: Mapping[str, Any]
    what: str
    symptom: str
    fix: str
    status: str
    cured: FixStage


@dataclass(frozen=True)
class FolderRule:
    """What a change of one of these variables or tools means for a configured CMake folder.

    `keys` and `forget` are globs, `entries` names in CMakeCache.txt ("=" for the variable's own).
    `defines`: the value is given as -D; else CMake reads it from the environment.
    """

    keys: tuple[str, ...]
    effect: Effect
    entries: tuple[str, ...]
    defines: bool
    forget: tuple[str, ...]
    why: str
    status: str


@dataclass(frozen=True)
class Failure:
    """Something that is known to go wrong, and when; one of `patterns` is found in what is printed
    then, or one of `headers` could not be opened.

    `near` and `unless` say what else has to be there or must not; `rank` what it gives way to.
    `here` are remedies for one host and profile, the first of which all {words} are known there
    goes before `remedy`; `heal` is what a build may do about it ("forced-include cfloat").
    """

    slug: str
    phase: Phase
    patterns: tuple[str, ...]
    cause: str
    remedy: str
    status: str
    headers: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    platform: str = ""
    rank: Rank = "cause"
    here: tuple[str, ...] = ()
    heal: str = ""
