"""Read the facts about a CUDA toolkit: its compiler header, and the output of its own programs.

All functions are pure and accept any input. A fact that cannot be read is left out of the result.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch

Row = dict[str, Any]

# Members to read, as patterns for `fnmatch`. nvidia-cuda-nvcc-cu12 and -cu11 have the header and
# ptxas in nvidia/cuda_nvcc, but no nvcc. From CUDA 13.0 nvidia-cuda-nvcc has ptxas and nvcc, and
# nvidia-cuda-crt the header, in nvidia/cu13. On Windows the programs end with ".exe". Both programs
# run without the rest of the toolkit for the outputs that this module parses.
HOST_CONFIG_MEMBER = "nvidia/*/include/crt/host_config.h"
PTXAS_MEMBER = "nvidia/*/bin/ptxas"
NVCC_MEMBER = "nvidia/*/bin/nvcc"
TOOLKIT_MEMBERS = (HOST_CONFIG_MEMBER, PTXAS_MEMBER, NVCC_MEMBER)

# PTX that every ptxas refuses. The message has the PTX ISA that ptxas knows: `parse_ptx_isa`
REFUSED_PTX = ".version 99.9\n.target sm_90\n"

_GUARD = re.compile(r"^[ \t]*#[ \t]*(?:el)?if\b(.*)\n\s*#[ \t]*error\b(.*)", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_GCC_LIMIT = re.compile(r"__GNUC__\s*(>=?)\s*(\d{1,4})\b")
_CLANG_LIMIT = re.compile(r"__clang_major__\s*(>=?)\s*(\d{1,4})\b")
_MSVC_RANGE = re.compile(r"_MSC_VER\s*<\s*(\d{4})\b.*_MSC_VER\s*>=\s*(\d{4})\b")
_PTXAS_TARGET = re.compile(r"'sm_(\d{2,3}[af]?)'")
_GPU_CODE = re.compile(r"^\s*sm_(\d{2,3}[af]?)\s*$", re.MULTILINE)
_STD_OPTION = re.compile(r"^\s*--std\s+\{([^}]*)\}", re.MULTILINE)
_REFUSED_ISA = re.compile(r"current version is '(\d+\.\d+)'")
_PTX_VERSION = re.compile(r"^\s*\.version\s+(\d+\.\d+)\b", re.MULTILINE)


def build_toolkit_row(  # noqa: PLR0913  (one output each)
    version: str,
    *,
    host_config: str = "",
    ptxas_help: str = "",
    gpu_code: str = "",
    ptx_isa: str = "",
    nvcc_help: str = "",
) -> Row:
    """Return the row of a CUDA release in config/knowledge/toolkits.yaml, with what was read.

    The keys are `nvcc` (`version`, "13.5.37"), `sm`, `a`, `f`, `gcc_max`, `clang_max`, `msvc`,
    `ptx_isa` and `cxx_max`. The texts are the input of the functions of this module: `ptx_isa` is
    for `parse_ptx_isa`. If `ptxas_help` has no archs, `sm` comes from `gpu_code`.
    """
    archs = parse_ptxas_help(ptxas_help)
    if not archs and (codes := parse_gpu_code_list(gpu_code)):
        archs = {"sm": codes}
    row: Row = {"nvcc": version, **archs, **parse_host_config(host_config)}
    if isa := parse_ptx_isa(ptx_isa):
        row["ptx_isa"] = isa
    return row | parse_nvcc_help(nvcc_help)


def parse_host_config(text: str) -> Row:
    """Return the host compilers that crt/host_config.h accepts.

    {"gcc_max": 15, "clang_max": 21, "msvc": {"min": 1920, "below": 1960}}: the newest major
    versions, and the range of _MSC_VER. They are the conditions of the `#if` before each `#error`:
    `__GNUC__ > 15`, `__clang_major__ >= 22` and `_MSC_VER < 1920 || _MSC_VER >= 1960`. The limits
    of other compilers that are a clang (NVIDIA's for Grace, and for HOS) are not those of clang,
    and the text of an error is not always right: in CUDA 12.2 it says 16 where the limit is 17.
    """
    row: Row = {}
    for condition, message in _list_guards(text):
        if gcc := _GCC_LIMIT.search(condition):
            row.setdefault("gcc_max", _read_limit(gcc))
        elif clang := _CLANG_LIMIT.search(condition):
            if "unsupported clang version" in message:
                row.setdefault("clang_max", _read_limit(clang))
        elif msvc := _MSVC_RANGE.search(condition):
            row.setdefault("msvc", {"min": int(msvc[1]), "below": int(msvc[2])})
    return row


def parse_ptxas_help(text: str) -> dict[str, list[str]]:
    """Return the archs that ptxas compiles for: {"sm": ["9.0", "12.0"], "a": ["9.0"], "f": []}.

    `text` is the output of `ptxas --help`, which lists 'sm_90','sm_90a','sm_120' as the allowed
    values of --gpu-name. "a" and "f" have the archs that exist with this suffix. Return {} if there
    is no list.
    """
    archs = _parse_archs(f"sm_{code}" for code in _PTXAS_TARGET.findall(text))
    if not archs:
        return {}
    suffixes = {"sm": "", "a": "a", "f": "f"}
    return {
        key: [f"{arch.major}.{arch.minor}" for arch in archs if arch.suffix == suffix]
        for key, suffix in suffixes.items()
    }


def parse_gpu_code_list(text: str) -> list[str]:
    """Return the capabilities in the output of `nvcc --list-gpu-code`: ["7.5", "12.0"] of sm_75.

    nvcc 13.0 to 13.5 list one arch a line, in no order, and only those without a suffix.
    """
    return [str(arch) for arch in _parse_archs(f"sm_{code}" for code in _GPU_CODE.findall(text))]


def parse_ptx_isa(text: str) -> str:
    """Return the newest PTX ISA that a toolkit knows, "9.5", or "" if the text has none.

    `text` is one of three: the message of ptxas for `REFUSED_PTX` ("Unsupported .version 99.9;
    current version is '9.5'", 11.7 to 13.5), the output of `ptxas --list-version` (from 13.0, one
    a line), or PTX that nvcc has made (`.version 9.5`).
    """
    for pattern in (_REFUSED_ISA, _PTX_VERSION):
        if match := pattern.search(text):
            return match[1]
    versions = text.split()
    if not versions or not all(re.fullmatch(r"\d{1,3}\.\d{1,3}", item) for item in versions):
        return ""
    return max(versions, key=lambda item: tuple(map(int, item.split("."))))


def parse_nvcc_help(text: str) -> Row:
    """Return {"cxx_max": 23}, the newest C++ standard in the output of `nvcc --help`.

    nvcc has `--std {c++03|c++11|c++14|c++17|c++20|c++23}`. Return {} if there is no such option.
    """
    option = _STD_OPTION.search(text)
    years = re.findall(r"c\+\+(\d\d)\b", option[1]) if option else []
    return {"cxx_max": max(map(int, years))} if years else {}


def _list_guards(text: str) -> Iterator[tuple[str, str]]:
    """Yield the condition and the message of each `#if` that is followed by an `#error`."""
    lines = _COMMENT.sub(" ", text.replace("\r\n", "\n")).replace("\\\n", " ")
    return ((guard[1], guard[2]) for guard in _GUARD.finditer(lines))


def _read_limit(comparison: re.Match[str]) -> int:
    """Return the newest accepted version: 15 for both `> 15` and `>= 16`."""
    return int(comparison[2]) - (comparison[1] == ">=")


def _parse_archs(names: Iterable[str]) -> list[Arch]:
    found = set()
    for name in names:
        try:
            found.add(Arch.parse_capability(name))
        except KnowledgeError:
            continue
    return sorted(found)
