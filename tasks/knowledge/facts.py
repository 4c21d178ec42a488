"""Define the types of the facts in config/knowledge; the other modules have the queries.

`field(name=...)` sets the YAML key. "a.b" is the key `b` in the mapping `a`, or in each item of the
list `a`. "name" is the key of the row itself. `status` is the evidence: "verified: ...".
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
        """A type annotation for an `Arch` that YAML contains as text, such as `12.0`."""

    ParsedArch.register(Arch)


class NullableText(str):
    """A text in YAML, where null means an empty text."""


class Pattern(str):
    """The text of a valid regular expression."""


class Conditions(tuple[Mapping[str, Any], ...]):
    """Alternative conditions: in YAML null, a mapping or a list of mappings."""


def parse_value(kind: type, value: Any) -> Any:
    """Convert a YAML value to one of the types of this module. Raises `ValueError`."""
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
    """A GPU product, named as the driver reports it, and its compute capability.

    If only one kind of machine has this GPU, `machine` names it ("aarch64").
    """

    name: str
    arch: ParsedArch = field(name="cc")
    status: str
    machine: str = ""


class GpuFamily(Struct, frozen=True, kw_only=True):
    """A GPU generation, such as Blackwell, with the compute capabilities of all its products."""

    name: str
    archs: tuple[ParsedArch, ...] = field(name="cc")
    status: str


class IntegratedGpu(Struct, frozen=True, kw_only=True):
    """A compute capability of systems on a chip, and the cubins that run on it.

    `runs` are the archs whose cubins it runs, `runs_since` those whose cubins it runs only if CUDA
    `since` or later compiled them.
    """

    arch: ParsedArch = field(name="name")
    runs: frozenset[ParsedArch]
    since: str = ""
    runs_since: frozenset[ParsedArch] = frozenset()
    status: str


class CodeFamily(Struct, frozen=True, kw_only=True):
    """A family arch, such as `12.0f`, and the compute capabilities that its code runs on."""

    arch: ParsedArch = field(name="name")
    runs_on: frozenset[ParsedArch]


class Toolkit(Struct, frozen=True, kw_only=True, dict=True):
    """A CUDA release.

    `sm`, `a` and `f` are the archs that ptxas supports: without a suffix, with "a" and with "f".
    `msvc_min` is the oldest allowed _MSC_VER, `msvc_below` the first that is too new. `pypi` is
    True if PyPI has this toolkit, `cuobjdump` if PyPI has its cuobjdump. `origin` is "" for a
    recorded toolkit, otherwise where the facts come from ("read from /usr/local/cuda").
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
    linux_driver: str | None = field(name="driver.linux", default=None)
    windows_driver: str | None = field(name="driver.windows", default=None)
    status: str
    origin: str = ""

    @cached_property
    def makes(self) -> frozenset[Arch]:
        """The archs that the toolkit's ptxas can write cubins for."""
        suffixed = [replace(arch, suffix="a") for arch in self.a]
        return self.sm.union(suffixed, (replace(arch, suffix="f") for arch in self.f))


class WheelCode(Struct, frozen=True, kw_only=True, dict=True):
    """The machine code in a wheel."""

    archs: frozenset[ParsedArch]
    ptx: frozenset[ParsedArch]

    @cached_property
    def code(self) -> MachineCode:
        """The machine code as a `MachineCode`, for compatibility queries."""
        return MachineCode(self.archs, self.ptx)


class OfficialWheel(WheelCode, frozen=True, kw_only=True):
    """An official wheel; `pypi` is True for a wheel on PyPI, False for one on pytorch.org."""

    cuda: str
    system: str
    machine: str
    pypi: bool
    status: str


class PythonLimit(Struct, frozen=True, kw_only=True):
    """The newest Python that has wheels of these `releases`.

    An empty `system` or `machine` means all. With `pypi`, only wheels on PyPI count. `last` is the
    newest Python, "" if there is no wheel.
    """

    releases: tuple[str, ...]
    system: tuple[str, ...] = ()
    machine: tuple[str, ...] = ()
    pypi: bool = False
    last: NullableText


class Release(Struct, frozen=True, kw_only=True):
    """A minor release of PyTorch, with the requirements of its newest patch.

    `setuptools`, `torchvision`, `torchaudio` and `triton` are version specifiers. "" means any
    setuptools, but for the others that no version matches. `patches` has the specifiers that differ
    for older patches. `channel` is where a pre-release is published; its facts are only assumed.
    `pypi_pythons` has the Pythons of the wheels on PyPI by platform ("linux x86_64").
    `has_cuda` is False if the wheel that was read is a build for the CPU. `extension_archs` are the
    archs that torch.utils.cpp_extension accepts. `origin` is "" for a recorded release, otherwise
    where the facts come from ("assumed to be as 2.15.0").
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
    pypi_pythons: Mapping[str, tuple[str, ...]] = {}
    extension_archs: frozenset[str] = frozenset()
    has_cuda: bool = True
    origin: str = ""

    @property
    def python(self) -> tuple[str, str]:
        """The first and the last Python that has wheels."""
        return self.first_python, self.last_python


class KnownProblem(Struct, frozen=True, kw_only=True):
    """A combination that does not work. `cured` is the stage that avoids the problem, or ""."""

    id: str
    level: Level
    what: str
    symptom: str = ""
    fix: str
    status: str
    cured: FixStage = ""


class KnownBad(KnownProblem, frozen=True, kw_only=True):
    """A known problem of combinations that meet one of the conditions `when`."""

    when: Conditions


class MinimumVersion(KnownProblem, frozen=True, kw_only=True):
    """The minimum version of CUDA, a driver, a compiler or a tool.

    `fact` names the field of a `Combination` to compare. `least` is a version, a field of `Release`
    with the version, "driver_floor" or "toolkit_msvc" (the oldest driver or MSVC for the CUDA
    release). The minimum applies if `when` is met and torch requires C++ `cxx_std` or later. `what`
    and `fix` may contain {here}, {least}, {torch} and {cuda}.
    """

    fact: str
    least: str
    cxx_std: int = 0
    when: Mapping[str, Any]


class FolderRule(Struct, frozen=True, kw_only=True):
    """What to do with a configured CMake build directory when a variable or tool has changed.

    `keys` are globs of the variables and tools. `effect` is "reuse" (run only Ninja), "reconfigure"
    (run CMake again) or "wipe" (delete the directory). `entries` are the entries of CMakeCache.txt
    with the value ("=" for the entry with the variable's name). `by` is how CMake gets the value:
    with -D ("define") or from the environment. `forget` are globs of other entries to remove.
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
        """True if the value is passed as -D, False if CMake reads it from the environment."""
        return self.by == "define"


class Failure(Struct, frozen=True, kw_only=True):
    """A known failure and how to recognize it in the output of a command.

    One of `patterns` must match a line of the output, or one of `headers` the name of a missing
    header. One of `near` must match a nearby line, and none of `unless` the same line. `rank`
    decides which of several failures is reported. `remedy` has the steps for any build, `here` the
    remedies for builds of torchyard, with {placeholders}: the first whose placeholders this host
    can fill replaces `remedy`. `auto_fix` is the fix that a build may apply ("forced-include
    cfloat").
    """

    slug: str = field(name="id")
    phase: Phase
    patterns: tuple[Pattern, ...]
    cause: str
    remedy: tuple[str, ...]
    status: str
    headers: tuple[Pattern, ...] = ()
    near: tuple[Pattern, ...] = ()
    unless: tuple[Pattern, ...] = ()
    platform: str = ""
    rank: Rank = "cause"
    here: tuple[str, ...] = ()
    auto_fix: str = ""
