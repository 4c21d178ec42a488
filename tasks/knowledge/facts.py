"""The shapes of the facts. No question is answered here.

`status` is the evidence of an entry, as config/knowledge explains it: "verified: ..." or
"unverified ...".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from tasks.core.model import Arch
from tasks.knowledge.machine_code_rules import MachineCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tasks.core.model import Arch
    from tasks.knowledge.machine_code_rules import MachineCode

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


_parse_arch = lru_cache(maxsize=None)(Arch.parse_capability)


def read_gpus(data: Mapping[str, Any]) -> tuple[GpuFact, ...]:
    """gpus.yaml: product names, then Jetson modules."""
    named = {**data["names"], **data["jetson_modules"]}
    return tuple(
        GpuFact(name, _parse_arch(row["cc"]), row["status"], row.get("machine", ""))
        for name, row in named.items()
    )


def read_families(data: Mapping[str, Any]) -> tuple[GpuFamily, ...]:
    """gpus.yaml: families."""
    return tuple(
        GpuFamily(name, tuple(map(_parse_arch, row["cc"])), row["status"])
        for name, row in data["families"].items()
    )


def read_binary_rules(data: Mapping[str, Any]) -> BinaryRules:
    """toolkits.yaml: integrated and families."""
    return BinaryRules(
        integrated={
            _parse_arch(cc): _read_integrated_gpu(row) for cc, row in data["integrated"].items()
        },
        families={
            _parse_arch(name): parse_archs(row["runs_on"]) for name, row in data["families"].items()
        },
    )


def read_toolkits(data: Mapping[str, Any]) -> dict[str, Toolkit]:
    """toolkits.yaml: releases."""
    return {cuda: _read_toolkit(cuda, row) for cuda, row in data["releases"].items()}


def read_releases(data: Mapping[str, Any]) -> dict[str, Release]:
    """Read the releases of pytorch.yaml, each with its rows of fewer_pythons."""
    fewer = data["fewer_pythons"]
    return {minor: _read_release(minor, row, fewer) for minor, row in data["releases"].items()}


def read_known_bad(data: Mapping[str, Any]) -> tuple[KnownBad, ...]:
    """combinations.yaml: known_bad."""
    return tuple(_read_known_bad_entry(row) for row in data["known_bad"])


def read_minimums(data: Mapping[str, Any]) -> tuple[MinimumVersion, ...]:
    """combinations.yaml: minimums."""
    return tuple(_read_minimum(row) for row in data["minimums"])


def read_folder_rules(data: Mapping[str, Any]) -> tuple[FolderRule, ...]:
    """buildfolder.yaml: rules, in order."""
    return tuple(_read_folder_rule(row) for row in data["rules"])


def read_failures(data: Mapping[str, Any]) -> tuple[Failure, ...]:
    """failures.yaml: failures, in order. A pattern that is no regular expression is a
    ValueError.
    """
    return tuple(_read_failure(row) for row in data["failures"])


def _read_failure(row: Mapping[str, Any]) -> Failure:
    same = ("phase", "cause", "remedy", "status")
    return Failure(
        slug=row["id"],
        patterns=tuple(map(_check_pattern, read_texts(row["patterns"]))),
        headers=tuple(map(_check_pattern, read_texts(row.get("headers", ())))),
        near=tuple(map(_check_pattern, read_texts(row.get("near", ())))),
        unless=tuple(map(_check_pattern, read_texts(row.get("unless", ())))),
        here=read_texts(row.get("here", ())),
        **{key: row[key] for key in same},
        **{key: row[key] for key in ("platform", "rank", "heal") if key in row},
    )


def _check_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    return text


def read_texts(values: Iterable[str]) -> tuple[str, ...]:
    """The values, each of them a text; one text alone is a TypeError."""
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise TypeError("a list of texts is meant: quote each")
    return tuple(values)


def parse_archs(names: Iterable[str], suffix: str = "") -> frozenset[Arch]:
    """The archs of these names, each with the suffix."""
    return frozenset(_parse_arch(f"{name}{suffix}") for name in read_texts(names))


def _read_integrated_gpu(row: Mapping[str, Any]) -> IntegratedGpu:
    more = parse_archs(row.get("runs_since", ()))
    return IntegratedGpu(parse_archs(row["runs"]), row.get("since", ""), more, row["status"])


def _read_toolkit(cuda: str, row: Mapping[str, Any]) -> Toolkit:
    return Toolkit(
        cuda=cuda,
        makes=parse_archs(row["sm"]) | parse_archs(row["a"], "a") | parse_archs(row["f"], "f"),
        gcc_max=row["gcc_max"],
        clang_max=row["clang_max"],
        msvc=(row["msvc"]["min"], row["msvc"]["below"]),
        ptx_isa=row["ptx_isa"],
        pypi=row["pypi"],
        cuobjdump=row.get("pypi_cuobjdump", False),
        driver={system: row["driver"][system] for system in ("linux", "windows")},
        status=row["status"],
    )


def _read_release(minor: str, row: Mapping[str, Any], fewer: list[Mapping[str, Any]]) -> Release:
    together = row["companions"]
    same = ("patch", "requires_python", "pypi_cuda", "min_cuda_cmake", "cxx_std", "setuptools")
    return Release(
        minor=minor,
        python=(row["python"]["first"], row["python"]["last"]),
        cudas_built=read_texts(row["cudas_built"]),
        wheels=tuple(_read_official_wheel(wheel) for wheel in row["wheels"]),
        cmake_min=row["cmake"]["min"],
        cmake_below=row["cmake"]["below"] or "",
        gcc_min=row["gcc_min"],
        msvc_min=row["msvc_min"],
        torchvision=together["torchvision"] or "",
        torchaudio=together["torchaudio"] or "",
        triton=together["triton"] or "",
        backend=row["backend"],
        status=row["status"],
        fewer_pythons=tuple(_read_python_limit(one) for one in fewer if minor in one["releases"]),
        patches=together.get("patches", {}),
        **{key: row[key] for key in same},
    )


def _read_python_limit(row: Mapping[str, Any]) -> PythonLimit:
    where = (read_texts(row.get("system", ())), read_texts(row.get("machine", ())))
    return PythonLimit(*where, row.get("pypi", False), row["last"] or "")


def _read_official_wheel(row: Mapping[str, Any]) -> OfficialWheel:
    return OfficialWheel(
        cuda=row["cuda"],
        system=row["system"],
        machine=row["machine"],
        pypi=row["pypi"],
        code=MachineCode(parse_archs(row["archs"]), parse_archs(row["ptx"])),
        status=row["status"],
    )


def _read_known_bad_entry(row: Mapping[str, Any]) -> KnownBad:
    when = row["when"] or []
    return KnownBad(
        id=row["id"],
        level=row["level"],
        when=tuple(when) if isinstance(when, list) else (when,),
        what=row["what"],
        symptom=row.get("symptom", ""),
        fix=row["fix"],
        status=row["status"],
        cured=row.get("cured", ""),
    )


def _read_minimum(row: Mapping[str, Any]) -> MinimumVersion:
    same = ("id", "fact", "least", "level", "when", "what", "fix", "status")
    return MinimumVersion(
        cxx_std=row.get("cxx_std", 0),
        symptom=row.get("symptom", ""),
        cured=row.get("cured", ""),
        **{key: row[key] for key in same},
    )


def _read_folder_rule(row: Mapping[str, Any]) -> FolderRule:
    return FolderRule(
        keys=read_texts(row["keys"]),
        effect=row["effect"],
        entries=read_texts(row.get("entries", ())),
        defines=row.get("by") == "define",
        forget=read_texts(row.get("forget", ())),
        why=row["why"],
        status=row["status"],
    )
