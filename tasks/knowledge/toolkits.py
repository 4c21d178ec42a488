"""What each CUDA toolkit can make, with which compilers, and which packages give it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.resolution import Combination
from tasks.knowledge.combinations import judge
from tasks.knowledge.versions import major_minor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tasks.core.model import Arch, System
    from tasks.knowledge.facts import Release, Toolkit
    from tasks.knowledge.load import Knowledge


@dataclass(frozen=True)
class CompilerLimit:
    """The newest gcc and clang that nvcc takes; the lowest _MSC_VER, and the first it rejects."""

    gcc_max: int
    clang_max: int
    msvc_min: int
    msvc_below: int


def toolkit(knowledge: Knowledge, cuda: str) -> Toolkit:
    """The facts of a CUDA release, by `12.8` or a full version; a `KnowledgeError` if unknown."""
    release = major_minor(cuda)
    if release in knowledge.toolkits:
        return knowledge.toolkits[release]
    known = list(knowledge.toolkits)
    raise KnowledgeError(
        f"CUDA {cuda} is not known; known are {', '.join(known)}",
        todo=f"take {known[-1]}, or describe {release} in config/knowledge/toolkits.yaml",
    )


def can_make(knowledge: Knowledge, cuda: str, arch: Arch) -> bool:
    """Whether that toolkit writes machine code for `arch`; `12.0a` and `12.0f` count apart."""
    return arch in toolkit(knowledge, cuda).makes


def toolkits_for(knowledge: Knowledge, archs: Iterable[Arch]) -> tuple[str, ...]:
    """The CUDA releases that can make every one of `archs`, ascending."""
    wanted = frozenset(archs)
    return tuple(cuda for cuda, kit in knowledge.toolkits.items() if wanted <= kit.makes)


def known_to_build(
    knowledge: Knowledge, found: Release, archs: Iterable[Arch], system: System
) -> tuple[str, ...]:
    """The CUDA releases that make every one of `archs`, that the release is published with, and
    that are not known to fail with its sources; first that of PyPI's wheel.
    """
    wanted = tuple(archs)
    able = toolkits_for(knowledge, wanted)
    published = dict.fromkeys((found.pypi_cuda, *found.cudas_built))
    return tuple(
        cuda
        for cuda in published
        if cuda in able and not fails_to_build(knowledge, found.patch, cuda, wanted, system)
    )


def fails_to_build(
    knowledge: Knowledge, torch: str, cuda: str, archs: Iterable[Arch], system: System
) -> bool:
    """Whether that release's sources are known not to build with that CUDA for one of `archs`."""
    combination = Combination(
        system=system, cuda=cuda, torch=torch, archs=tuple(archs), strategy="source"
    )
    return any(finding.level == "error" for finding in judge(knowledge, combination))


def require_toolkit(knowledge: Knowledge, cuda: str, archs: Iterable[Arch]) -> Toolkit:
    """The toolkit, if it makes all of `archs`; else a `KnowledgeError` that names one that does."""
    kit = toolkit(knowledge, cuda)
    wanted = sorted(set(archs))
    for arch in wanted:
        if arch not in kit.makes:
            raise KnowledgeError(
                f"CUDA {cuda} {_cannot(knowledge, kit, arch)}", todo=_instead(knowledge, wanted)
            )
    return kit


def compiler_limit(knowledge: Knowledge, cuda: str) -> CompilerLimit:
    """The host compilers of that toolkit."""
    kit = toolkit(knowledge, cuda)
    return CompilerLimit(kit.gcc_max, kit.clang_max, *kit.msvc)


def driver_floor(knowledge: Knowledge, cuda: str) -> int:
    """The driver branch that runs any release of that CUDA major, `525` for 12.x.

    It does not cover PTX.
    """
    kit = toolkit(knowledge, cuda)
    return int(knowledge.toolkit_notes["driver_floor"][kit.cuda.partition(".")[0]])


def packages(knowledge: Knowledge, cuda: str, for_source: bool = False) -> tuple[str, ...]:
    """pip requirements that make a toolkit, and for a torch from source its libraries.

    `cuda-toolkit[nvcc,...]==13.2.*`: one release, as that package pins a set that fits together.

    What PyPI cannot give is a `KnowledgeError`: before 13.0 the wheels hold no nvcc.
    """
    kit = toolkit(knowledge, cuda)
    if not kit.pypi:
        raise _not_on_pypi(knowledge, kit)
    parts = knowledge.toolkit_notes["pypi"]
    extras = [*parts["extension"]["extras"]]
    extras += parts["extension"]["inspect"] if kit.cuobjdump else []
    extras += parts["source"]["extras"] if for_source else []
    apart = parts["source"]["packages"] if for_source else []
    return (f"{parts['metapackage']}[{','.join(extras)}]=={kit.cuda}.*", *apart)


def _cannot(knowledge: Knowledge, kit: Toolkit, arch: Arch) -> str:
    able = toolkits_for(knowledge, [arch])
    order = list(knowledge.toolkits)
    if not able:
        return f"cannot make {arch} ({arch.sm}), nor can any other known toolkit"
    if order.index(kit.cuda) < order.index(able[0]):
        return f"cannot make {arch} ({arch.sm}); {able[0]} is the first that can"
    return f"dropped {arch} ({arch.sm}); {able[-1]} is the last that can"


def _instead(knowledge: Knowledge, archs: list[Arch]) -> str:
    able = toolkits_for(knowledge, archs)
    names = ", ".join(map(str, archs))
    if not able:
        return f"no one toolkit makes {names}: build for fewer archs"
    return f"take CUDA {able[0]}" + (f" to {able[-1]}" if len(able) > 1 else "") + f" for {names}"


def _not_on_pypi(knowledge: Knowledge, kit: Toolkit) -> KnowledgeError:
    able = [cuda for cuda, other in knowledge.toolkits.items() if other.pypi]
    return KnowledgeError(
        f"PyPI has no usable toolkit of CUDA {kit.cuda}: it has {able[0]} to {able[-1]}",
        todo=f"install CUDA {kit.cuda} on the system, or take {able[-1]}",
    )
