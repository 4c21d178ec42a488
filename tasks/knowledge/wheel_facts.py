"""Read the facts about a torch release from its wheels: their names, METADATA and source files.

All functions are pure and accept any input. A fact that cannot be read is left out of the result.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.cpp_extension import parse_cpp_extension
from tasks.knowledge.torch_releases import normalize_machine
from tasks.knowledge.versions import parse_major_minor

METADATA_MEMBER = "*.dist-info/METADATA"
VERSION_MEMBER = "torch/version.py"
CPP_EXTENSION_MEMBER = "torch/utils/cpp_extension.py"
CUDA_MEMBER = "torch/cuda/__init__.py"
CMAKE_MEMBER = "torch/share/cmake/Caffe2/public/cuda.cmake"
# The members of a torch wheel that `read_torch_wheel` reads, as patterns for `fnmatch`
TORCH_MEMBERS = (
    METADATA_MEMBER,
    VERSION_MEMBER,
    CPP_EXTENSION_MEMBER,
    CUDA_MEMBER,
    CMAKE_MEMBER,
)

Row = dict[str, Any]
WheelPythons = dict[tuple[str, str], list[str]]

_TRITON_NAMES = frozenset({"triton", "pytorch-triton"})  # the second in nightly builds
_NVIDIA_LIBRARY = re.compile(r"nvidia-(cudnn|nccl)-cu\d+==(\d+(?:\.\d+)*)")
_CUDA_FLOOR = re.compile(
    r"if\s*\(\s*CUDA_VERSION\s+VERSION_LESS\s+\"?(\d+(?:\.\d+)*)\"?\s*\)\s*message\s*\(\s*FATAL_ERROR"
)
_ZERO_PATCH = re.compile(r"(?<![\d.])(?<!~=)(\d+\.\d+)\.0(?![\d.])")  # ~=3.8.0 is not ~=3.8
_LOCAL_PART = re.compile(r"\+[a-zA-Z\d._-]+")
_PYTHON_TAG = re.compile(r"(?:cp|py)3(\d*)")
_PLATFORM_TAG = re.compile(r"(linux|manylinux\w*?|win|macosx_\d+_\d+)_(x86_64|aarch64|amd64|arm64)")
_UNPARSABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)
_SYSTEMS = ("linux", "windows", "macos")
_MACHINES = ("x86_64", "aarch64")


def read_torch_wheel(members: Mapping[str, bytes]) -> Row:
    """Return the facts in the `TORCH_MEMBERS` of a torch wheel, as keys of a release's row.

    - `version` ("2.15.0"), `local` ("cu132", "" for none): torch/version.py, else METADATA
    - `cuda` ("13.2", None for a build without CUDA): torch/version.py
    - `requires_python` (">=3.11"), `setuptools` (">=77.0.3", "" for any version): METADATA
    - `triton` ("~=3.9.0"), `cudnn` ("9.26.0.51"), `nccl` ("2.30.7"): METADATA. PyPI's wheels of a
      release share their requirements, so that a build without CUDA has no `cudnn` and no `nccl`.
    - `cxx_std` (20), `msvc_min` ("19.20"), `extension_archs` (["7.5", "9.0a"]): cpp_extension.py
    - `min_cuda_cmake` ("12.6"): the oldest CUDA that cuda.cmake accepts
    - `code` ({"13.2": {"x86_64": ["7.5", "12.0"]}}): torch/cuda/__init__.py, `parse_code_table`
    """
    cpp_extension = _decode_member(members, CPP_EXTENSION_MEMBER)
    row = {
        **_read_metadata(_find_member(members, METADATA_MEMBER)),
        **_read_version_module(_decode_member(members, VERSION_MEMBER)),
        **_read_compilers(cpp_extension),
    }
    if "cuda" in row and row["cuda"] is None:
        row.pop("cudnn", None)
        row.pop("nccl", None)
    if floor := _CUDA_FLOOR.search(_decode_member(members, CMAKE_MEMBER)):
        row["min_cuda_cmake"] = floor[1]
    if archs := parse_extension_archs(cpp_extension):
        row["extension_archs"] = archs
    if code := parse_code_table(_decode_member(members, CUDA_MEMBER)):
        row["code"] = code
    return row


def read_companion_requirement(metadata: bytes) -> str:
    """Return the torch that the METADATA of torchvision or torchaudio requires: "==2.8.0".

    Return "" if it requires none, or any version. A local part, as in 2.8.0+cu128, is left out.
    """
    requirements = _list_requirements(parse_email(metadata)[0].get("requires_dist", []))
    specifiers = (one.specifier for one in requirements if canonicalize_name(one.name) == "torch")
    return _LOCAL_PART.sub("", str(next(specifiers, "")))


def list_wheel_pythons(names: Iterable[str]) -> WheelPythons:
    """Return the Pythons that the wheels of one release are for, by system and machine.

    `names` are file names. {("linux", "x86_64"): ["3.9", "3.10"]} has the CPython versions in
    order, without free-threaded builds. "3.12+" is a wheel with the stable ABI
    (cp312-abi3), "3+" for one that runs on every Python 3 (py3-none). A wheel for any platform
    counts for all. Other file names, and platforms that torchyard does not know, are left out.
    """
    found = defaultdict(set)
    for name in names:
        for tag in _parse_wheel_tags(name):
            if python := _parse_python_tag(tag):
                for platform in _list_tag_platforms(tag.platform):
                    found[platform].add(python)
    return {key: sorted(found[key], key=parse_major_minor) for key in sorted(found)}


def parse_extension_archs(text: str) -> list[str]:
    """Return the archs that `_get_cuda_arch_flags` accepts, in order: ["7.5", "9.0", "9.0a"].

    `text` is torch/utils/cpp_extension.py, which has them in the local variable `supported_arches`.
    Each is accepted with "+PTX" too. Return [] if a part of the list is not a literal.
    """
    function = next(
        (
            node
            for node in _list_nodes(text)
            if isinstance(node, ast.FunctionDef) and node.name == "_get_cuda_arch_flags"
        ),
        None,
    )
    parts = [_evaluate(node) for node in _list_arch_expressions(function)]
    if not all(isinstance(part, list | tuple | set) for part in parts):
        return []
    try:
        archs = {Arch.parse_capability(str(item)) for part in parts for item in part}
    except KnowledgeError:
        return []
    return [str(arch) for arch in sorted(archs)]


def parse_code_table(text: str) -> dict[str, dict[str, list[str]]]:
    """Return the archs of a release's official wheels, by CUDA release and machine.

    `text` is torch/cuda/__init__.py. PYTORCH_RELEASES_CODE_CC has {"13.2": {"x86_64": {75, 120}}}
    since torch 2.13, which gives {"13.2": {"x86_64": ["7.5", "12.0"]}}. The table of 2.11 and 2.12
    does not distinguish machines, and is left out.
    """
    name = "PYTORCH_RELEASES_CODE_CC"
    table = next((_evaluate(value) for value in _list_assigned_values(text, name)), None)
    rows = ((cuda, dict(_read_code_row(by_machine))) for cuda, by_machine in _items(table))
    return {cuda: row for cuda, row in rows if row}


def _read_code_row(by_machine: Any) -> Iterator[tuple[str, list[str]]]:
    for machine, codes in _items(by_machine):
        numbers = list(codes) if isinstance(codes, set | list | tuple) else []
        if numbers and all(isinstance(code, int) and 10 <= code < 1000 for code in numbers):
            yield machine, [f"{code // 10}.{code % 10}" for code in sorted(set(numbers))]


def _items(table: Any) -> list[tuple[str, Any]]:
    items = table.items() if isinstance(table, dict) else ()
    return [(key, value) for key, value in items if isinstance(key, str)]


def _find_member(members: Mapping[str, bytes], pattern: str) -> bytes:
    names = sorted(name for name in members if fnmatchcase(name, pattern))
    return members[names[0]] if names else b""


def _decode_member(members: Mapping[str, bytes], name: str) -> str:
    return members.get(name, b"").decode("utf-8", "replace")


def _read_metadata(data: bytes) -> Row:
    """Return what METADATA states. The format: packaging.python.org, core metadata."""
    metadata, _ = parse_email(data)
    if not {"name", "version"} <= metadata.keys():
        return {}
    row = _split_version(metadata["version"])
    if not row.get("local"):  # METADATA on PyPI has no local part, torch/version.py has it
        row.pop("local", None)
    if python := metadata.get("requires_python"):
        row["requires_python"] = _ZERO_PATCH.sub(r"\1", python.replace(" ", ""))
    row["setuptools"] = ""
    for requirement in _list_requirements(metadata.get("requires_dist", [])):
        name, specifier = canonicalize_name(requirement.name), str(requirement.specifier)
        if name == "setuptools":
            row["setuptools"] = specifier
        elif name in _TRITON_NAMES and specifier:
            row["triton"] = _LOCAL_PART.sub("", specifier)
        elif library := _NVIDIA_LIBRARY.fullmatch(f"{name}{specifier}"):
            row[library[1]] = library[2]
    return row


def _list_requirements(texts: Iterable[str]) -> Iterator[Requirement]:
    """Yield the requirements, without those of extras."""
    for text in texts:
        try:
            requirement = Requirement(text.strip())
        except InvalidRequirement:
            continue
        if "extra" not in str(requirement.marker):
            yield requirement


def _read_version_module(text: str) -> Row:
    """Return what torch/version.py states: `__version__` and `cuda`, by torch's setup.py."""
    row: Row = {}
    for version in _list_assigned_values(text, "__version__"):
        row |= _split_version(_evaluate(version))
    for cuda in _list_assigned_values(text, "cuda"):
        if isinstance(cuda, ast.Constant) and isinstance(cuda.value, str | None):
            row["cuda"] = cuda.value
    return row


def _split_version(text: Any) -> Row:
    try:
        version = Version(text)
    except (InvalidVersion, TypeError):
        return {}
    return {"version": version.public, "local": version.local or ""}


def _read_compilers(text: str) -> Row:
    try:
        tables = parse_cpp_extension(text)
    except _UNPARSABLE:
        return {}
    values = {"cxx_std": tables.standard, "msvc_min": _ZERO_PATCH.sub(r"\1", tables.least_msvc)}
    return {key: value for key, value in values.items() if value}


def _list_arch_expressions(function: ast.FunctionDef | None) -> Iterator[ast.expr | None]:
    """Yield the lists that make up `supported_arches`: the first, and those that are added."""
    for node in ast.walk(function) if function else ():
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="supported_arches")], value=value)
                | ast.AnnAssign(target=ast.Name(id="supported_arches"), value=value)
                | ast.AugAssign(target=ast.Name(id="supported_arches"), op=ast.Add(), value=value)
            ):
                yield value
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="supported_arches"), attr=method), args=args
            ):
                is_append = method == "append"
                yield ast.List(elts=args) if is_append else (args[0] if args else None)


def _list_assigned_values(text: str, name: str) -> Iterator[ast.expr]:
    """Yield the values that a module assigns to a variable of its own."""
    for node in _parse(text):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=target)], value=value)
                | ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value)
            ) if target == name:
                yield value


def _list_nodes(text: str) -> Iterator[ast.AST]:
    return (node for top in _parse(text) for node in ast.walk(top))


def _parse(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except _UNPARSABLE:
        return []


def _evaluate(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node else None
    except _UNPARSABLE:
        return None


def _parse_wheel_tags(name: str) -> frozenset[Tag]:
    try:
        return parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return frozenset()


def _parse_python_tag(tag: Tag) -> str:
    """Return "3.12" of cp312-cp312, "3.12+" of cp312-abi3, "3+" of py3-none, else ""."""
    python = _PYTHON_TAG.fullmatch(tag.interpreter)
    if not python or tag.abi.endswith("t"):  # cp314t, abi3t: free-threaded
        return ""
    is_open = tag.abi == "abi3" or tag.interpreter.startswith("py")
    return ("3." + python[1]).rstrip(".") + ("+" if is_open else "")


def _list_tag_platforms(platform: str) -> list[tuple[str, str]]:
    """Return the (system, machine) of a platform tag. The tags: packaging.python.org."""
    if platform == "any":
        return [(system, machine) for system in _SYSTEMS for machine in _MACHINES]
    if re.fullmatch(r"macosx_\d+_\d+_universal2", platform):
        return [("macos", machine) for machine in _MACHINES]
    match = _PLATFORM_TAG.fullmatch(platform)
    if not match:
        return []
    system = {"win": "windows", "macosx": "macos"}.get(match[1].split("_")[0], "linux")
    return [(system, normalize_machine(match[2]))]
