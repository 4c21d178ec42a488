"""Query CUDA toolkits: the archs they can compile, their host compilers, and their packages."""

import re
from collections.abc import Iterable

from msgspec.structs import replace

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch, System
from tasks.core.resolution import Combination
from tasks.knowledge.facts import Release, Toolkit
from tasks.knowledge.knowledge_files import Knowledge
from tasks.knowledge.known_problems import find_known_bad
from tasks.knowledge.read_facts import find_nearest
from tasks.knowledge.versions import format_major_minor, parse_major_minor


def find_toolkit(knowledge: Knowledge, cuda: str) -> Toolkit:
    """Return the facts about a CUDA release, given as `12.8` or as a full version.

    The facts of an unknown release are those of the nearest known release; its `origin` and
    `status` say so. Raises `KnowledgeError` for a release that is older than all known ones or was
    never published.
    """
    release = format_major_minor(cuda)
    if release in knowledge.toolkits:
        return knowledge.toolkits[release]
    nearest = knowledge.toolkits.get(find_nearest(knowledge.toolkits, release))
    skipped = {row["cuda"] for row in knowledge.toolkit_notes["never_shipped"]}
    if nearest is None or release in skipped or not re.fullmatch(r"\d+\.\d+", release):
        releases = list(knowledge.toolkits)
        reason = "was never published" if release in skipped else f"is older than {releases[0]}"
        message = f"CUDA {cuda} {reason}; the known releases are {', '.join(releases)}"
        raise KnowledgeError(message, hint="use one of the known releases")
    origin = f"assumed to be as {nearest.cuda}"
    return replace(nearest, cuda=release, origin=origin, status=f"unverified: {origin}")


def can_compile_arch(knowledge: Knowledge, cuda: str, arch: Arch) -> bool:
    """Return True if the toolkit compiles for exactly this `arch`, including the suffix."""
    return arch in find_toolkit(knowledge, cuda).makes


def list_capable_toolkits(knowledge: Knowledge, archs: Iterable[Arch]) -> tuple[str, ...]:
    """Return the CUDA releases that can compile for every one of `archs`, ascending."""
    required = frozenset(archs)
    return tuple(cuda for cuda, toolkit in knowledge.toolkits.items() if required <= toolkit.makes)


def list_published_toolkits(
    knowledge: Knowledge, release: Release, archs: Iterable[Arch], system: System
) -> tuple[str, ...]:
    """Return the CUDA releases of the official wheels of `release`, PyPI's first.

    CUDA releases that cannot compile for every arch, or are known to fail, are left out.
    """
    required = tuple(archs)
    published = dict.fromkeys((release.pypi_cuda, *release.cudas_built))
    able = [cuda for cuda in published if cuda in list_capable_toolkits(knowledge, required)]
    query = (required, system)
    return tuple(x for x in able if not is_known_to_fail(knowledge, release.patch, x, *query))


def is_known_to_fail(
    knowledge: Knowledge, torch: str, cuda: str, archs: Iterable[Arch], system: System
) -> bool:
    """Return True if building this torch with this CUDA for one of `archs` is known to fail."""
    build = Combination(system=system, cuda=cuda, torch=torch, strategy="source", archs=(*archs,))
    return any(problem.level == "error" for problem in find_known_bad(knowledge, build))


def require_toolkit(knowledge: Knowledge, cuda: str, archs: Iterable[Arch]) -> Toolkit:
    """Return the toolkit. Raises `KnowledgeError` if an arch in `archs` cannot be compiled."""
    toolkit = find_toolkit(knowledge, cuda)
    required = sorted(set(archs))
    missing = next((arch for arch in required if arch not in toolkit.makes), None)
    if not missing:
        return toolkit
    able = list_capable_toolkits(knowledge, [missing])
    if not able:
        reason = f"cannot compile for {missing} ({missing.sm}), nor can any other known toolkit"
    elif parse_major_minor(toolkit.cuda) < parse_major_minor(able[0]):
        reason = f"cannot compile for {missing} ({missing.sm}); {able[0]} is the first that can"
    else:
        reason = f"dropped {missing} ({missing.sm}); {able[-1]} is the last that supports it"
    names = ", ".join(map(str, required))
    hint = f"build for fewer archs: no toolkit can compile for all of {names}"
    if capable := list_capable_toolkits(knowledge, required):
        last = f" to {capable[-1]}" if len(capable) > 1 else ""
        hint = f"use CUDA {capable[0]}{last} for {names}"
    raise KnowledgeError(f"CUDA {cuda} {reason}", hint=hint)


def find_driver_floor(knowledge: Knowledge, cuda: str) -> int:
    """Return the oldest driver branch for the major version of `cuda`: `525` for 12.x.

    Raises `KnowledgeError` for an unknown major version.
    """
    major = find_toolkit(knowledge, cuda).cuda.partition(".")[0]
    floor = knowledge.toolkit_notes["driver_floor"].get(major)
    if floor is None:
        raise KnowledgeError(f"the oldest driver for CUDA {major} is not known")
    return int(floor)


def list_toolkit_packages(
    knowledge: Knowledge, cuda: str, for_source: bool = False
) -> tuple[str, ...]:
    """Return the pip requirements of a toolkit; `for_source` adds what building torch requires.

    Raises `KnowledgeError` for a toolkit that PyPI does not have, such as any before 13.0.
    """
    toolkit = find_toolkit(knowledge, cuda)
    if not toolkit.pypi:
        published = [kit.cuda for kit in knowledge.toolkits.values() if kit.pypi]
        known = f"only of {published[0]} to {published[-1]}"
        hint = f"install CUDA {toolkit.cuda} on the system, or use {published[-1]}"
        raise KnowledgeError(f"PyPI has no nvcc of CUDA {toolkit.cuda}, {known}", hint=hint)
    components = knowledge.toolkit_notes["pypi"]
    extras = [*components["extension"]["extras"]]
    extras += components["extension"]["inspect"] if toolkit.cuobjdump else []
    extras += components["source"]["extras"] if for_source else []
    packages = components["source"]["packages"] if for_source else []
    return (f"{components['metapackage']}[{','.join(extras)}]=={toolkit.cuda}.*", *packages)
