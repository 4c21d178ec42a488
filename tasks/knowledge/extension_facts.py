"""The shapes of what is known of extensions, and of what belongs to one torch. No question is
answered here.

`when` is a condition as combinations.yaml writes it, `cuda` being there for CUDA builds alone;
`status` is the evidence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.facts import parse_archs, read_texts
from tasks.knowledge.known_problems import is_condition_met
from tasks.knowledge.machine_code_rules import MachineCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tasks.core.model import Arch
    from tasks.core.resolution import Combination
    from tasks.knowledge.knowledge_files import Knowledge
    from tasks.knowledge.machine_code_rules import MachineCode

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


def read_extensions(data: Mapping[str, Any]) -> dict[str, ExtensionFact]:
    """extensions.yaml: extensions."""
    return {name: _read_extension(name, row) for name, row in data["extensions"].items()}


def read_companions(data: Mapping[str, Any]) -> dict[str, CompanionFact]:
    """extensions.yaml: companions."""
    return {name: _read_companion(name, row) for name, row in data["companions"].items()}


def _read_extension(name: str, row: Mapping[str, Any]) -> ExtensionFact:
    return ExtensionFact(
        name=name,
        distribution=row.get("distribution", name),
        git=row.get("git", ""),
        ref=row.get("ref", "HEAD"),
        sdist=row.get("sdist", ""),
        subdirectory=row.get("subdirectory", ""),
        submodules=read_texts(row["submodules"]),
        imports=read_texts(row["imports"]),
        headers=tuple(include["header"] for include in row["force_include"]),
        settings=tuple(map(_read_build_setting, row.get("settings", ()))),
        archs=_read_arch_variable(row["archs"]) if "archs" in row else None,
        requires=tuple(each["package"] for each in row.get("requires", ())),
        after=read_texts(row.get("after", ())),
        own_jobs="own_jobs" in row,
        compiler_mib=row["compiler_mib"]["value"] if "compiler_mib" in row else 0,
        fails=tuple(map(_read_build_failure, row.get("fails", ()))),
        check=row.get("check", ""),
        pypi=row["pypi"]["is"],
        warnings=tuple(warning["text"] for warning in row["warnings"]),
        status=row["status"],
    )


def _read_build_setting(row: Mapping[str, Any]) -> BuildSetting:
    env = dict(row.get("env", {}))
    read_texts(env.values())
    nvcc = read_texts(row.get("nvcc", ()))
    return BuildSetting(row["why"], env, nvcc, row.get("when", {}), row["status"])


def _read_arch_variable(row: Mapping[str, Any]) -> ArchVariable:
    known = tuple(Arch.parse_capability(text) for text in read_texts(row["known"]))
    return ArchVariable(row["variable"], known, row["why"], row["status"])


def _read_build_failure(row: Mapping[str, Any]) -> BuildFailure:
    return BuildFailure(row["what"], row["fix"], row["when"], row["status"])


def _read_companion(name: str, row: Mapping[str, Any]) -> CompanionFact:
    return CompanionFact(
        name=name,
        imports=read_texts(row["imports"]),
        source=_read_extension(name, row) if "git" in row else None,
        independent=tuple(map(_read_stable_abi_wheel, row.get("independent", ()))),
        packages=row.get("packages", {}),
        pins={key: value for key, value in row.get("pins", {}).items() if key != "status"},
        warnings=tuple(warning["text"] for warning in row["warnings"]),
        status=row["status"],
    )


def _read_stable_abi_wheel(row: Mapping[str, Any]) -> StableAbiWheel:
    same = ("wheel", "torch", "cuda", "system", "machine", "why", "beside_built", "status")
    code = MachineCode(parse_archs(row["archs"]), parse_archs(row["ptx"]))
    return StableAbiWheel(code=code, **{key: row[key] for key in same})


def normalize_project_name(name: str) -> str:
    """A name as a package index compares it: `Simple_KNN` is `simple-knn` (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_extension(knowledge: Knowledge, name: str) -> ExtensionFact | None:
    """The extension of that name, however it is written."""
    wanted = normalize_project_name(name)
    return next((fact for fact in knowledge.extensions.values() if fact.name == wanted), None)


def find_extension_by_distribution(knowledge: Knowledge, name: str) -> ExtensionFact | None:
    """Return the known extension with that distribution name, None if there is none."""
    wanted = normalize_project_name(name)
    facts = knowledge.extensions.values()
    return next(
        (fact for fact in facts if normalize_project_name(fact.distribution) == wanted), None
    )


def find_extensions_by_source(
    knowledge: Knowledge, git: str, ref: str, sdist: str
) -> list[ExtensionFact]:
    """Return the known extensions with that repository or sdist, those at `ref` first."""
    if sdist:
        fact = find_extension_by_distribution(knowledge, sdist.partition("==")[0])
        return [fact] if fact and fact.pypi == "own" else []
    facts = knowledge.extensions.values()
    found = [
        fact for fact in facts if git and _normalize_git_url(fact.git) == _normalize_git_url(git)
    ]
    return sorted(found, key=lambda fact: fact.ref != ref)


def _normalize_git_url(url: str) -> str:
    """Normalize a git URL, so that all addresses of one repository are equal."""
    bare = re.sub(r"^\w+://|^[\w.-]+@(?=[^/]+:)", "", url.lower()).rpartition("@")[2]
    return re.sub(r"\.git$", "", bare.replace(":", "/").rstrip("/"))


def compute_build_variables(
    settings: Iterable[BuildSetting], archs: ArchVariable | None, met: Combination
) -> dict[str, str]:
    """The variables that a build of `met` needs. `KnowledgeError` for a card that its setup.py
    cannot be told of.
    """
    env: dict[str, str] = {}
    for setting in settings:
        if is_condition_met(setting.when, met):
            env.update(setting.env)
    if archs and met.archs:
        env[archs.variable] = format_arch_variable(archs, met.archs)
    return env


def list_nvcc_options(settings: Iterable[BuildSetting], met: Combination) -> tuple[str, ...]:
    """What nvcc gets last in a build of `met`."""
    return tuple(
        option for each in settings if is_condition_met(each.when, met) for option in each.nvcc
    )


def format_arch_variable(archs: ArchVariable, targets: Sequence[Arch]) -> str:
    """The targets as the variable of a setup.py takes them, `80;120`: of what it knows, the newest
    whose code each of them runs.
    """
    taken = sorted({_find_covering_arch(archs, target) for target in targets})
    return ";".join(f"{arch.major}{arch.minor}" for arch in taken)


def _find_covering_arch(archs: ArchVariable, target: Arch) -> Arch:
    if not archs.known:
        return Arch(target.major, target.minor)
    below = [
        arch for arch in archs.known if arch.major == target.major and arch.minor <= target.minor
    ]
    if not below:
        raise KnowledgeError(
            f"its setup.py makes no code for {target}: it knows {', '.join(map(str, archs.known))}",
            hint="leave the extension out, or that card out of target.gpus",
        )
    return max(below)


def find_build_failure(fact: ExtensionFact, met: Combination) -> BuildFailure | None:
    """Why its own source is known not to build there."""
    return next((each for each in fact.fails if is_condition_met(each.when, met)), None)
