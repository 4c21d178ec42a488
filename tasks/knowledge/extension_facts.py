"""The types of the facts about extensions and companion packages, and queries over them.

In all types, `when` says for which builds the fact holds, and `status` is the evidence. A condition
on `cuda` excludes CPU builds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
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
    """Environment variables and additional nvcc options for builds that match `when`."""

    why: str
    env: Mapping[str, str] = {}
    nvcc: tuple[str, ...] = ()
    when: Mapping[str, Any] = {}
    status: str


class ArchVariable(Struct, frozen=True, kw_only=True):
    """The environment variable that tells setup.py the archs, such as `80;120`.

    `known` are the archs that setup.py accepts; empty means all.
    """

    variable: str
    known: tuple[ParsedArch, ...]
    why: str
    status: str


class BuildFailure(Struct, frozen=True, kw_only=True):
    """Versions of torch or CUDA with which the extension's source is known not to build."""

    what: str
    fix: str
    when: Mapping[str, Any]
    status: str


class ExtensionFact(Struct, frozen=True, kw_only=True):
    """A CUDA extension: its source, its imports, and its undeclared build requirements.

    The source is the repository `git` at `ref`, or `sdist`. The build needs the packages in
    `requires` and the extensions in `after`. `own_jobs` is True if setup.py chooses a job count
    when MAX_JOBS is not set. `compiler_mib` is the memory of one compiler, 0 if unknown. `check` is
    a script in templates/checks. `pypi` says whose package has this name on PyPI. `distribution` is
    the name in the package metadata.
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
        """The source in the syntax of a settings file, such as `git: URL`."""
        return f"git: {self.git}" if self.git else f"sdist: {self.sdist}"


class StableAbiWheel(WheelCode, frozen=True, kw_only=True):
    """A wheel that uses only the stable ABI, and so runs with every matching torch and CUDA.

    `torch` and `cuda` are version specifiers. `beside_built` is the evidence that the wheel also
    runs with a torch that was built from source.
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
    """A companion package, whose version must match that of torch.

    `source` says how to build the package. `independent` are wheels that match many torch versions.
    triton has no `source`: `packages` are its package names by system, `pins` its package index and
    the files in PyTorch's sources that contain its version.
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
    """Normalize a name as package indexes do: `Simple_KNN` becomes `simple-knn` (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_extension(knowledge: Knowledge, name: str) -> ExtensionFact | None:
    """Return the known extension with that name in any spelling, or None."""
    return knowledge.extensions.get(normalize_project_name(name))


def find_extension_by_distribution(knowledge: Knowledge, name: str) -> ExtensionFact | None:
    """Return the known extension with that distribution name, or None."""
    facts = knowledge.extensions.values()
    by_distribution = {normalize_project_name(fact.distribution): fact for fact in facts}
    return by_distribution.get(normalize_project_name(name))


def find_extensions_by_source(
    knowledge: Knowledge, git: str, ref: str, sdist: str
) -> list[ExtensionFact]:
    """Return the known extensions with this repository or sdist, those at `ref` first."""
    if sdist:
        fact = find_extension_by_distribution(knowledge, sdist.partition("==")[0])
        return [fact] if fact and fact.pypi == "own" else []
    url, facts = _normalize_git_url(git), knowledge.extensions.values()
    matching = [fact for fact in facts if git and _normalize_git_url(fact.git) == url]
    return sorted(matching, key=lambda fact: fact.ref != ref)


def _normalize_git_url(url: str) -> str:
    """Return the host and path of a git URL, which are the same for every protocol."""
    address = re.sub(r"^\w+://|^[\w.-]+@(?=[^/]+:)", "", url.lower()).rpartition("@")[2]
    return re.sub(r"\.git$", "", address.replace(":", "/").rstrip("/"))


def compute_build_variables(
    settings: Iterable[BuildSetting], archs: ArchVariable | None, combination: Combination
) -> dict[str, str]:
    """Return the variables for a build. Raises `KnowledgeError` for a GPU that is not supported."""
    met = (setting.env for setting in settings if is_condition_met(setting.when, combination))
    env = {name: value for variables in met for name, value in variables.items()}
    if archs and combination.archs:
        env[archs.variable] = format_arch_variable(archs, combination.archs)
    return env


def list_nvcc_options(
    settings: Iterable[BuildSetting], combination: Combination
) -> tuple[str, ...]:
    """Return the additional nvcc options of a build with this combination."""
    met = (setting.nvcc for setting in settings if is_condition_met(setting.when, combination))
    return tuple(chain.from_iterable(met))


def format_arch_variable(archs: ArchVariable, targets: Sequence[Arch]) -> str:
    """Return `80;120`: for each target, the newest arch that it runs and setup.py accepts."""
    covering = set()
    for target in targets:
        known = archs.known or (Arch(target.major, target.minor),)
        able = [a for a in known if a.major == target.major and a.minor <= target.minor]
        if not able:
            names = ", ".join(map(str, known))
            hint = f"remove the extension, or remove {target} from target.gpus"
            message = f"its setup.py compiles only for {names}, not for {target}"
            raise KnowledgeError(message, hint=hint)
        covering.add(max(able))
    return ";".join(f"{arch.major}{arch.minor}" for arch in sorted(covering))


def find_build_failure(fact: ExtensionFact, combination: Combination) -> BuildFailure | None:
    """Return the known reason why this extension does not build with `combination`, or None."""
    return next((one for one in fact.fails if is_condition_met(one.when, combination)), None)
