"""The host compilers that a CUDA toolkit and the sources of a PyTorch release accept."""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from tasks.core.deps_model import CompilerLimits
from tasks.core.errors import KnowledgeError
from tasks.knowledge.cuda_toolkits import find_toolkit
from tasks.knowledge.knowledge_files import Knowledge
from tasks.knowledge.torch_releases import find_release
from tasks.knowledge.versions import parse_version_numbers

# --includeRecommended adds the Windows SDK, which is needed to link
MSVC_INSTALL_COMMAND = (
    "winget install Microsoft.VisualStudio.2022.BuildTools --override "
    '"--wait --passive --add Microsoft.VisualStudio.Workload.VCTools --includeRecommended"'
)
CompilerKind = Literal["gcc", "clang", "msvc"]
_UNCHECKED_CXX_STANDARD = 20


@dataclass(frozen=True)
class HostCompiler:
    """A compiler. `name` is for messages ("g++-14"); MSVC has the toolset version as `version`."""

    name: str
    kind: CompilerKind
    version: str


def find_compiler_limits(
    knowledge: Knowledge, cuda: str | None, torch: str | None
) -> CompilerLimits:
    """Return the compiler limits of the CUDA release `cuda` and of the sources of `torch`.

    None and an unknown torch set no limits. Raises `KnowledgeError` for an unknown `cuda`.
    """
    gcc_min = ""
    with suppress(KnowledgeError):
        # Only releases of C++17 check GCC (gcc-min of combinations.yaml, which is not read at load)
        release = find_release(knowledge, torch or "")
        gcc_min = release.gcc_min if release.cxx_std < _UNCHECKED_CXX_STANDARD else ""
    limits = CompilerLimits(torch=torch or "", gcc_min=gcc_min)
    if not cuda:
        return limits
    kit = find_toolkit(knowledge, cuda)
    msvc = (kit.msvc_min, kit.msvc_below)
    return replace(limits, cuda=cuda, gcc_max=kit.gcc_max, clang_max=kit.clang_max, msvc=msvc)


def explain_compiler_rejection(limits: CompilerLimits, compiler: HostCompiler) -> str:
    """Return why `limits` reject the compiler, "" if they do not or its version is unknown."""
    toolkit = f"CUDA {limits.cuda}" if limits.cuda else "this CUDA toolkit"
    if compiler.kind == "msvc":
        msc_ver = parse_msc_ver(compiler.version)
        if not limits.msvc or msc_ver is None or limits.msvc[0] <= msc_ver < limits.msvc[1]:
            return ""
        relation = "newer" if msc_ver >= limits.msvc[1] else "older"
        accepted = f"_MSC_VER {limits.msvc[0]} to {limits.msvc[1] - 1}"
        name = f"{compiler.name} (MSVC {compiler.version}, _MSC_VER {msc_ver})"
        return f"{name} is {relation} than {toolkit} supports ({accepted})"
    name = f"{compiler.name} {compiler.version}"
    version = parse_version_numbers(compiler.version)
    newest = limits.gcc_max if compiler.kind == "gcc" else limits.clang_max
    if newest is not None and version[:1] > (newest,):
        accepted = f"{'GCC' if compiler.kind == 'gcc' else 'clang'} up to {newest}"
        return f"{name} is newer than {toolkit} supports ({accepted})"
    if compiler.kind == "gcc" and version and version < parse_version_numbers(limits.gcc_min):
        accepted = f"GCC {limits.gcc_min} or later"
        return f"{name} is older than the sources of PyTorch {limits.torch} support ({accepted})"
    return ""


def parse_msc_ver(toolset: str) -> int | None:
    """Return the _MSC_VER of a toolset version (1944 for "14.44.35207"), None for other text."""
    # cl.exe of toolset 14.NN is 19.NN: Microsoft, "MSVC Toolset Minor Version Number 14.40"
    parts = re.match(r"14\.(\d\d)(?:\.|$)", toolset)
    return 1900 + int(parts[1]) if parts else None
