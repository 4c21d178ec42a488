"""Parse the compiler requirements of a torch from the text of its torch.utils.cpp_extension."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.version import Version

CPP_EXTENSION_PATH = "utils/cpp_extension.py"  # below torch
SKIP_CHECK_VARIABLE = "TORCH_DONT_CHECK_COMPILER_ABI"
_TRUE_VALUES = frozenset({"ON", "1", "YES", "TRUE", "Y"})
_CXX_STANDARD = re.compile(r"(?:[-/]std[=:])?c\+\+(\d\d)")


@dataclass(frozen=True)
class VersionBounds:
    """The accepted compiler versions: `lowest` and later, but older than `above`."""

    lowest: str
    above: str

    def __str__(self) -> str:
        return f">={self.lowest}, <{self.above}"

    def is_accepted(self, version: str) -> bool:
        """Return True if a compiler version is within the bounds."""
        return Version(self.lowest) <= Version(version) < Version(self.above)


@dataclass(frozen=True)
class CppExtension:
    """The compiler requirements in the tables of a torch's cpp_extension.py.

    `standard` is the C++ standard for extensions (20). `gcc` and `clang` have bounds by CUDA
    release ("12.8"). Compilers older than `least_gcc` or `least_msvc` cause a warning. A torch
    version that matches the pattern `unchecked` disables all checks.
    """

    standard: int | None = None
    gcc: Mapping[str, VersionBounds] = field(default_factory=dict)
    clang: Mapping[str, VersionBounds] = field(default_factory=dict)
    least_gcc: str = ""
    least_msvc: str = ""
    unchecked: str = ""

    def should_check_compilers(self, torch: str) -> bool:
        """Return False for a torch that was built by hand (2.7.0a0+git1a2b3c4), else True."""
        return not (self.unchecked and re.match(self.unchecked, torch))

    def select_bounds(self, cxx: str) -> tuple[str, Mapping[str, VersionBounds]]:
        """Return "clang" or "GCC" and its bounds. As in torch, `/usr/bin/clang` counts as GCC."""
        return ("clang", self.clang) if cxx.startswith("clang") else ("GCC", self.gcc)


def is_check_disabled(env: Mapping[str, str]) -> bool:
    """Return True if the variables `env` disable the compiler check."""
    return env.get(SKIP_CHECK_VARIABLE) in _TRUE_VALUES


def parse_cpp_extension(text: str) -> CppExtension:
    """Return the tables in the text of cpp_extension.py. Unreadable tables are left out."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return CppExtension()
    variables: dict[str, Any] = {}  # module variables; references to earlier ones are resolved
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                variables[name] = _evaluate_node(value, variables)
    pattern = variables.get("BUILT_FROM_SOURCE_VERSION_PATTERN")
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    options = (_CXX_STANDARD.fullmatch(text) for text in texts if isinstance(text, str))
    standards = {int(option[1]) for option in options if option}  # one in torch 2.5 to 2.15
    return CppExtension(
        standard=standards.pop() if len(standards) == 1 else None,
        gcc=dict(_parse_bounds(variables.get("CUDA_GCC_VERSIONS"))),
        clang=dict(_parse_bounds(variables.get("CUDA_CLANG_VERSIONS"))),
        least_gcc=_format_version(variables.get("MINIMUM_GCC_VERSION")),
        least_msvc=_format_version(variables.get("MINIMUM_MSVC_VERSION")),
        unchecked=pattern if isinstance(pattern, str) else "",
    )


def _evaluate_node(node: ast.expr | None, known: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return known.get(name)
        case ast.Tuple(elts=parts):
            return tuple(_evaluate_node(part, known) for part in parts)
        case ast.Dict(keys=keys, values=values):
            items = zip(keys, values, strict=True)
            return {_evaluate_node(k, known): _evaluate_node(v, known) for k, v in items}
        case ast.Call(func=ast.Attribute(attr="compile"), args=[ast.Constant(value=value)]):
            return value  # re.compile
    return None


def _parse_bounds(table: Any) -> Iterator[tuple[str, VersionBounds]]:
    for cuda, row in table.items() if isinstance(table, dict) else ():
        bounds = tuple(map(_format_version, row)) if isinstance(row, tuple) else ()
        if isinstance(cuda, str) and len(bounds) == 2 and all(bounds):
            yield cuda, VersionBounds(*bounds)


def _format_version(numbers: Any) -> str:
    is_version = isinstance(numbers, tuple) and all(isinstance(number, int) for number in numbers)
    return ".".join(map(str, numbers)) if is_version else ""
