"""The host compilers that a CUDA toolkit and the sources of a PyTorch release accept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tasks.core.deps_model import CompilerLimits
from tasks.core.errors import KnowledgeError
from tasks.knowledge.cuda_toolkits import find_toolkit_compilers
from tasks.knowledge.torch_releases import find_release
from tasks.knowledge.versions import parse_version_numbers

if TYPE_CHECKING:
    from tasks.knowledge.knowledge_files import Knowledge

# --includeRecommended adds the Windows SDK, which is needed to link
MSVC_INSTALL_COMMAND = (
    "winget install Microsoft.VisualStudio.2022.BuildTools --override "
    '"--wait --passive --add Microsoft.VisualStudio.Workload.VCTools --includeRecommended"'
)
CompilerKind = Literal["gcc", "clang", "msvc"]
_UNCHECKED_CXX_STANDARD = 20
_COMPILER_NAMES = {"gcc": "GCC", "clang": "clang"}


@dataclass(frozen=True)
class HostCompiler:
    """A compiler with its name in messages (`name`, "g++-14") and its version, "" if not known.

    The version of MSVC is that of the toolset, "14.44.35207".
    """

    name: str
    kind: CompilerKind
    version: str


def find_compiler_limits(
    knowledge: Knowledge, cuda: str | None, torch: str | None
) -> CompilerLimits:
    """Return the limits of `cuda` (None: no toolkit) and of the sources of `torch`, if set.

    Raises `KnowledgeError` for a toolkit that is not known. An unknown torch sets no limits.
    """
    gcc_min = _find_gcc_minimum(knowledge, torch) if torch else ""
    if not cuda:
        return CompilerLimits(torch=torch or "", gcc_min=gcc_min)
    compilers = find_toolkit_compilers(knowledge, cuda)
    return CompilerLimits(
        cuda=cuda,
        gcc_max=compilers.gcc_max,
        clang_max=compilers.clang_max,
        msvc=(compilers.msvc_min, compilers.msvc_below),
        torch=torch or "",
        gcc_min=gcc_min,
    )


def explain_compiler_rejection(given: CompilerLimits, compiler: HostCompiler) -> str:
    """Return why `compiler` is outside of the limits.

    "" if it is within them, or its version is not known.
    """
    if compiler.kind == "msvc":
        return _explain_msvc_rejection(given, compiler)
    version = parse_version_numbers(compiler.version)
    newest = given.gcc_max if compiler.kind == "gcc" else given.clang_max
    if newest is not None and version[:1] > (newest,):
        limit = f"{_COMPILER_NAMES[compiler.kind]} up to {newest}"
        return (
            f"{_format_compiler(compiler)} is newer than {_format_toolkit(given)} takes ({limit})"
        )
    if compiler.kind == "gcc" and version and version < parse_version_numbers(given.gcc_min):
        limit = f"GCC {given.gcc_min} or later"
        return (
            f"{_format_compiler(compiler)} is older than the sources of PyTorch "
            f"{given.torch} take ({limit})"
        )
    return ""


def parse_msc_ver(toolset: str) -> int | None:
    """Return the _MSC_VER of an MSVC toolset: 1944 for "14.44.35207"; None if it has another form.

    The source is Microsoft's table of toolsets, "MSVC Toolset Minor Version Number 14.40 in VS 2022
    v17.10": cl.exe of toolset 14.NN is 19.NN, since Visual Studio 2017 (14.1x).
    """
    parts = re.match(r"14\.(\d\d)(?:\.|$)", toolset)
    return 1900 + int(parts[1]) if parts else None


def _find_gcc_minimum(knowledge: Knowledge, torch: str) -> str:
    """Return the oldest GCC that a release's CMakeLists.txt accepts; "" if it does not check.

    Only releases of C++17 check it (gcc-min of pytorch.yaml). This runs at load, where
    combinations.yaml is not read.
    """
    try:
        release = find_release(knowledge, torch)
    except KnowledgeError:
        return ""
    return release.gcc_min if release.cxx_std < _UNCHECKED_CXX_STANDARD else ""


def _explain_msvc_rejection(given: CompilerLimits, compiler: HostCompiler) -> str:
    version = parse_msc_ver(compiler.version)
    if not given.msvc or version is None or given.msvc[0] <= version < given.msvc[1]:
        return ""
    lowest, below = given.msvc
    relation = "newer" if version >= below else "older"
    limit = f"_MSC_VER {lowest} to {below - 1}"
    description = f"{compiler.name} (MSVC {compiler.version}, _MSC_VER {version})"
    return f"{description} is {relation} than {_format_toolkit(given)} takes ({limit})"


def _format_compiler(compiler: HostCompiler) -> str:
    return f"{compiler.name} {compiler.version}"


def _format_toolkit(given: CompilerLimits) -> str:
    return f"CUDA {given.cuda}" if given.cuda else "this CUDA toolkit"
