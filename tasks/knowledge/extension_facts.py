"""The shapes of what is known of extensions, and of what belongs to one torch. No question is
answered here.

`when` is a condition as combinations.yaml writes it, `cuda` being there for CUDA builds alone;
`status` is the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.facts import ParsedArch, WheelCode
from tasks.knowledge.known_problems import is_condition_met

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tasks.core.resolution import Combination
    from tasks.knowledge.knowledge_files import Knowledge

PypiStatus = Literal["own", "unrelated", "absent"]


class BuildSetting(Struct, frozen=True, kw_only=True):
    """Variables, and options that nvcc gets last, of builds where `when` holds."""

    why: str
    env: Mapping[str, str] = {}
    nvcc: tuple[str, ...] = ()
    when: Mapping[str, Any] = {}
    status: str


class ArchVariable(Struct, frozen=True, kw_only=True):
    """A setup.py that takes archs by a variable of its own: digits, ";" between. `known` are all
    that it takes; none: any.
    """

    variable: str
    known: tuple[ParsedArch, ...]
    why: str
    status: str


class BuildFailure(Struct, frozen=True, kw_only=True):
    """A torch or CUDA that the entry's own source is known not to build with."""

    what: str
    fix: str
    when: Mapping[str, Any]
    status: str


class ExtensionFact(Struct, frozen=True, kw_only=True):
    """A CUDA extension: its sources, what to import, and what its build needs that it does not say.

    One of `git` (at `ref`) and `sdist` is set. `requires` are packages that its build imports,
    `after` names of extensions that it imports. `own_jobs`: its setup.py puts a number of jobs
    where MAX_JOBS has none. `compiler_mib` is the memory of one compiler, 0 where nobody knows.
    `check` is a script of templates/checks, `pypi` whose package has its name on the index,
    `distribution` the name in its metadata, `subdirectory` the folder of its project.
    """

    name: str
    distribution: str
    git: str = ""
    ref: str = "HEAD"
    sdist: str = ""
    subdirectory: str = ""
    submodules: tuple[str, ...]
    imports: tuple[str, ...]
    headers: tuple[str, ...] = field(name="force_include.header")
    settings: tuple[BuildSetting, ...] = ()
    archs: ArchVariable | None = None
    requires: tuple[str, ...] = field(name="requires.package", default=())
    after: tuple[str, ...] = ()
    own_jobs: bool
    compiler_mib: int = field(name="compiler_mib.value", default=0)
    fails: tuple[BuildFailure, ...] = ()
    check: str = ""
    pypi: PypiStatus = field(name="pypi.is")
    warnings: tuple[str, ...] = field(name="warnings.text")
    status: str

    @property
    def source(self) -> str:
        """Its source as a person would write it."""
        return f"git: {self.git}" if self.git else f"sdist: {self.sdist}"


class StableAbiWheel(WheelCode, frozen=True, kw_only=True):
    """A wheel that runs with any torch of a range, whoever built it: it uses the stable ABI alone.

    `torch` and `cuda` are version specifiers; `beside_built` is the evidence that it runs with a
    torch that no official wheel is.
    """

    wheel: str
    torch: str
    cuda: str
    system: str
    machine: str
    why: str
    beside_built: str
    status: str


class CompanionFact(Struct, frozen=True, kw_only=True):
    """What belongs to one torch. `source` is how it is built, None for triton, whose `packages` by
    system and `pins` in PyTorch's tree say which wheel it is.
    """

    name: str
    imports: tuple[str, ...]
    source: ExtensionFact | None
    independent: tuple[StableAbiWheel, ...] = ()
    packages: Mapping[str, str] = {}
    pins: Mapping[str, str] = {}
    warnings: tuple[str, ...] = field(name="warnings.text")
    status: str


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
