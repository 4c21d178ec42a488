"""The types of the facts in config/knowledge; the other modules have the queries.

`field(name=...)` is the YAML key of a field with another name. A dotted key is in a mapping of the
row, or in each mapping of a list; "name" is the key of the row. `status` is the evidence of an
entry: "verified: ..." or "unverified ...".
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.machine_code_rules import MachineCode

Level = Literal["error", "warning", "info"]
FixStage = Literal["", "deps", "env"]
Backend = Literal["setup_py", "scikit_build_core"]
Channel = Literal["", "nightly", "test", "nowhere"]
Effect = Literal["reuse", "reconfigure", "wipe"]
Phase = Literal["run", "build"]
Rank = Literal["cause", "consequence", "notice", "hint", "rest"]

if TYPE_CHECKING:
    ParsedArch = Arch
else:

    class ParsedArch(ABC):  # noqa: B024  (msgspec reads a dataclass from a mapping only)
        """An `Arch` that is written as `12.0` in YAML."""

    ParsedArch.register(Arch)


class NullableText(str):
    """A text, "" for null."""


class Pattern(str):
    """The text of a valid regular expression."""


class Conditions(tuple[Mapping[str, Any], ...]):
    """Alternatives: empty for null, one for a mapping, several for a list."""


def parse_value(kind: type, value: Any) -> Any:
    """Return a value of a type that YAML does not have. `ValueError` says what is wrong with it."""
    if kind is Conditions:
        return Conditions([value] if isinstance(value, dict) else value or ())
    if value is None and kind is NullableText:
        return NullableText()
    if not isinstance(value, str):
        raise ValueError(f"the value has the wrong type: {value!r} is not text (quote it)")  # noqa: TRY004
    if kind is ParsedArch:
        return _parse_arch(value)
    if kind is Pattern:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"{value!r} is not a regular expression: {error}") from error
    return kind(value)


@cache
def _parse_arch(text: str) -> Arch:
    try:
        return Arch.parse_capability(text)
    except KnowledgeError as error:
        raise ValueError(error.message) from error


class GpuFact(Struct, frozen=True):
    """A product, named as the driver reports it, and its compute capability.

    `machine` is the only kind of machine that has it ("aarch64"), "" if any may have it.
    """

    name: str
    arch: ParsedArch = field(name="cc")
    status: str
    machine: str = ""


class GpuFamily(Struct, frozen=True, kw_only=True):
    """An architecture with its name and all capabilities of its products."""

    name: str
    archs: tuple[ParsedArch, ...] = field(name="cc")
    status: str


class IntegratedGpu(Struct, frozen=True, kw_only=True):
    """A capability of systems on a chip, which run other cubins than the general rule allows.

    `runs` are all cubins that it runs; `runs_since` more, of toolkits from CUDA `since` on.
    """

    arch: ParsedArch = field(name="name")
    runs: frozenset[ParsedArch]
    since: str = ""
    runs_since: frozenset[ParsedArch] = frozenset()
    status: str


class CodeFamily(Struct, frozen=True, kw_only=True):
    """A family arch, `12.0f`, and the capabilities that it runs on."""

    arch: ParsedArch = field(name="name")
    runs_on: frozenset[ParsedArch]


class BinaryRules(Struct, frozen=True):
    """The exceptions to the general rule that code runs on its major, from its minor up.

    `integrated` is by capability, `families` has the capabilities that a family arch runs on.
    """

    integrated: Mapping[Arch, IntegratedGpu]
    families: Mapping[Arch, frozenset[Arch]]


class Toolkit(Struct, frozen=True, kw_only=True, dict=True):
    """A CUDA release.

    `sm`, `a` and `f` are the cubins that its ptxas can write, by suffix. Limits are inclusive, but
    `msvc_below` is the first _MSC_VER that it rejects. `pypi`: PyPI has this toolkit.
    """

    cuda: str = field(name="name")
    sm: frozenset[ParsedArch]
    a: frozenset[ParsedArch]
    f: frozenset[ParsedArch]
    gcc_max: int
    clang_max: int
    msvc_min: int = field(name="msvc.min")
    msvc_below: int = field(name="msvc.below")
    ptx_isa: str
    pypi: bool
    cuobjdump: bool = field(name="pypi_cuobjdump", default=False)
    linux_driver: str | None = field(name="driver.linux")
    windows_driver: str | None = field(name="driver.windows")
    status: str

    @cached_property
    def makes(self) -> frozenset[Arch]:
        """The cubins that its ptxas can write."""
        suffixed = [replace(arch, suffix="a") for arch in self.a]
        return self.sm.union(suffixed, (replace(arch, suffix="f") for arch in self.f))

    @property
    def msvc(self) -> tuple[int, int]:
        """The lowest _MSC_VER that this CUDA accepts, and the first that is too new."""
        return self.msvc_min, self.msvc_below


class WheelCode(Struct, frozen=True, kw_only=True, dict=True):
    """The machine code in a wheel."""

    archs: frozenset[ParsedArch]
    ptx: frozenset[ParsedArch]

    @cached_property
    def code(self) -> MachineCode:
        """The same as a `MachineCode`, for compatibility queries."""
        return MachineCode(self.archs, self.ptx)


class OfficialWheel(WheelCode, frozen=True, kw_only=True):
    """A wheel of pytorch.org, or (`pypi`) of PyPI."""

    cuda: str
    system: str
    machine: str
    pypi: bool
    status: str


class PythonLimit(Struct, frozen=True, kw_only=True):
    """Wheels of a release whose newest Python is older than that of its other wheels.

    They are the wheels for these systems and machines, () for any; with `pypi`, only those on PyPI.
    `last` is the newest Python, "" if there is no such wheel at all.
    """

    releases: tuple[str, ...]
    system: tuple[str, ...] = ()
    machine: tuple[str, ...] = ()
    pypi: bool = False
    last: NullableText


class Release(Struct, frozen=True, kw_only=True):
    """A minor release of PyTorch, with the requirements of its newest patch.

    `fewer_pythons` lists the platforms with wheels for fewer Pythons. `setuptools`, `torchvision`,
    `torchaudio` and `triton` are version specifiers, "" if any version works or nothing exists.
    `channel` is where a pre-release is published; the facts of a pre-release are only assumed.
    `patches` are the different specifiers of older patches, by patch and name.
    """

    minor: str = field(name="name")
    patch: str
    requires_python: str
    first_python: str = field(name="python.first")
    last_python: str = field(name="python.last")
    cudas_built: tuple[str, ...]
    pypi_cuda: str
    wheels: tuple[OfficialWheel, ...]
    min_cuda_cmake: str
    cxx_std: int
    setuptools: str
    cmake_min: str = field(name="cmake.min")
    cmake_below: NullableText = field(name="cmake.below")
    gcc_min: str
    msvc_min: str
    torchvision: NullableText = field(name="companions.torchvision")
    torchaudio: NullableText = field(name="companions.torchaudio")
    triton: NullableText = field(name="companions.triton")
    backend: Backend
    status: str
    channel: Channel = ""
    fewer_pythons: tuple[PythonLimit, ...] = ()
    patches: Mapping[str, Mapping[str, str]] = field(
        name="companions.patches", default_factory=dict
    )

    @property
    def python(self) -> tuple[str, str]:
        """The first and the last Python that has wheels."""
        return self.first_python, self.last_python


class KnownBad(Struct, frozen=True, kw_only=True):
    """A combination that is known not to work.

    `when` has one alternative per item; empty if no fact can show that it is met. `cured` is the
    stage that fixes it, so that the user does not have to.
    """

    id: str
    level: Level
    when: Conditions
    what: str
    symptom: str = ""
    fix: str
    status: str
    cured: FixStage = ""


class MinimumVersion(Struct, frozen=True, kw_only=True):
    """A version that can be too old.

    `fact` is the field of a combination that is compared. `least` says where the minimum is: a
    field of the release, "driver_floor", "toolkit_msvc", or the number itself. The row applies to
    releases whose C++ is `cxx_std` or later, if every key of `when` holds. `what` and `fix` may
    contain {here}, {least}, {torch} and {cuda}.
    """

    id: str
    fact: str
    least: str
    cxx_std: int = 0
    level: Level
    when: Mapping[str, Any]
    what: str
    symptom: str = ""
    fix: str
    status: str
    cured: FixStage = ""


class FolderRule(Struct, frozen=True, kw_only=True):
    """The effect of a changed variable or tool on a configured CMake build directory.

    `keys` and `forget` are globs. `entries` are names in CMakeCache.txt ("=" for that of the
    variable).
    """

    keys: tuple[str, ...]
    effect: Effect
    entries: tuple[str, ...] = ()
    by: Literal["", "define", "environment"] = ""
    forget: tuple[str, ...] = ()
    why: str
    status: str

    @property
    def defines(self) -> bool:
        """True if the value is passed as -D; else CMake reads it from the environment."""
        return self.by == "define"


class Failure(Struct, frozen=True, kw_only=True):
    """A known failure and how to recognize it in the output of a command.

    One of `patterns` is found in the output, or one of `headers` could not be opened. `near` are
    other texts that must be there, `unless` those that must not. `rank` says which failures are
    reported instead of it. `here` are fixes for one host and profile: the first one whose {words}
    are all known there precedes `remedy`. `auto_fix` is what a build may do about it
    ("forced-include cfloat").
    """

    slug: str = field(name="id")
    phase: Phase
    patterns: tuple[Pattern, ...]
    cause: str
    remedy: str
    status: str
    headers: tuple[Pattern, ...] = ()
    near: tuple[Pattern, ...] = ()
    unless: tuple[Pattern, ...] = ()
    platform: str = ""
    rank: Rank = "cause"
    here: tuple[str, ...] = ()
    auto_fix: str = ""
