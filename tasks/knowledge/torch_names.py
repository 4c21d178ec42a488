"""Find when names came to torch and when they went, by comparing the wheels of its releases.

The names are the paths of headers, what headers declare (macros, classes, functions), the modules,
and what modules define. A name that every release has, or that none has, is not recorded.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

NameKind = Literal["headers", "declarations", "modules", "definitions"]
NAME_KINDS: tuple[NameKind, ...] = ("headers", "declarations", "modules", "definitions")
NAME_MEMBERS = (
    *("torch/include/*.h", "torch/include/*.cuh", "torch/include/*.hpp"),
    "torch/*.py",
)
_INCLUDE = "torch/include/"
_API_INCLUDE = "torch/csrc/api/include/"  # is on the include path, too
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
_IDENTIFIER = re.compile(rb"\b[A-Za-z_]\w{3,}\b")
_DECLARATIONS = (
    re.compile(rb"(?m)^\s*#\s*define\s+([A-Za-z]\w{3,})"),
    re.compile(
        rb"\b(?:class|struct|enum(?:\s+class)?|union|namespace)\s+(?:[A-Z_]+\s+)?"
        rb"([A-Za-z]\w{3,})\s*[:{;]"
    ),
    re.compile(rb"\busing\s+([A-Za-z]\w{3,})\s*="),
    re.compile(
        rb"(?m)^(?!\s*return\b)[\w:&<>*, ]+\s\*?&?([A-Za-z]\w{3,})\([^()]*\)\s*(?:const)?\s*[;{]"
    ),
)  # fmt: skip
# The generated headers have a function for each operator, which are named elsewhere
_GENERATED = re.compile(
    r"ATen/ops/|third_party/|^(?:pybind11|fmt|google|oneapi|kineto|gloo|tensorpipe|sleef|nlohmann)"
    r"|caffe2/|inductor|nativert|distributed|tensorexpr|/codegen|_stub|vulkan|/mps|xpu|/cpu/vec"
)
_PRIVATE = re.compile(
    r"(?:^|[./])_(?!_init__)|testing/|/test_|fx/passes|onnx/|quantization|torch/ao/|benchmark"
)


@dataclass(frozen=True)
class ReleaseNames:
    """The names of one release, by kind. A definition is `MODULE:NAME`.

    `present` also has the names that occur without a declaration: a name went only if it is in no
    text any more.
    """

    declared: Mapping[NameKind, frozenset[str]]
    present: Mapping[NameKind, frozenset[str]]


def read_release_names(members: Mapping[str, bytes]) -> ReleaseNames:
    """Return the names in the headers and modules of a wheel."""
    declared: dict[NameKind, set[str]] = {kind: set() for kind in NAME_KINDS}
    present: dict[NameKind, set[str]] = {kind: set() for kind in NAME_KINDS}
    for path, content in members.items():
        if path.startswith(_INCLUDE):
            header = path.removeprefix(_INCLUDE)
            text = _COMMENT.sub(b"", content)
            declared["headers"].add(header.removeprefix(_API_INCLUDE))
            present["declarations"].update(map(bytes.decode, _IDENTIFIER.findall(text)))
            declared["declarations"].update(_list_declarations(header, text))
        elif not _PRIVATE.search(path):
            module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            own, imported = _list_definitions(content)
            offered = own | imported if path.endswith("/__init__.py") else own
            declared["modules"].add(module)
            declared["definitions"].update(f"{module}:{name}" for name in offered)
            present["definitions"].update(f"{module}:{name}" for name in own | imported)
    return ReleaseNames(
        {kind: frozenset(names) for kind, names in declared.items()},
        {kind: frozenset(present[kind] | declared[kind]) for kind in NAME_KINDS},
    )


def _list_declarations(header: str, text: bytes) -> Iterator[str]:
    for pattern in () if _GENERATED.search(header) else _DECLARATIONS:
        yield from map(bytes.decode, pattern.findall(text))


def _list_definitions(source: bytes) -> tuple[set[str], set[str]]:
    """Return the names that a module defines at its top level, and those that it imports."""
    own: set[str] = set()
    imported: set[str] = set()
    try:
        nodes: list[ast.AST] = list(ast.parse(source).body)
    except (SyntaxError, ValueError):
        return own, imported
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            own.update(one.id for one in targets if isinstance(one, ast.Name))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            imported.update(one.asname or one.name for one in node.names)
        elif isinstance(node, (ast.If, ast.Try, ast.ExceptHandler)):
            nodes += ast.iter_child_nodes(node)
    return own, imported


def build_name_document(releases: Mapping[str, ReleaseNames]) -> dict[str, Any]:
    """Return the document of all releases, ascending: kind → "FIRST LAST" → names.

    A name that went and came again counts from its first to its last release.
    """
    order = list(releases)
    document: dict[str, Any] = {"releases": order}
    for kind in NAME_KINDS:
        declared = frozenset().union(*(one.declared[kind] for one in releases.values()))
        groups = defaultdict(list)
        for name in sorted(declared):
            having = [one for one in order if name in releases[one].present[kind]]
            if (having[0], having[-1]) != (order[0], order[-1]):
                groups[f"{having[0]} {having[-1]}"].append(name)
        document[kind] = {span: " ".join(names) for span, names in sorted(groups.items())}
    return document


_HEADER = """\
# The names that came to torch or went, read from its wheels by `doit refresh --names`
# (tasks/knowledge/torch_names.py): the paths of headers, what headers declare, the modules, and
# what modules define (MODULE:NAME). Each key is the first and the last release that has the names
# below it. Names that all of these releases have, or none, are not listed.
"""


def render_name_document(document: Mapping[str, Any]) -> str:
    """Return the text of config/knowledge/read/torch_names.yaml."""
    releases = ", ".join(f'"{release}"' for release in document["releases"])
    lines = [f"releases: [{releases}]"]
    for kind in NAME_KINDS:
        lines += [f"{kind}:", *(f'  "{key}": "{names}"' for key, names in document[kind].items())]
    return _HEADER + "\n".join(lines) + "\n"


@dataclass(frozen=True)
class NameHistory:
    """The spans of releases that have a name, from the document of `build_name_document`."""

    document: Mapping[str, Any] = field(default_factory=dict)

    @property
    def releases(self) -> tuple[str, ...]:
        """The compared releases, ascending."""
        return tuple(self.document.get("releases", ()))

    @cached_property
    def _spans(self) -> Mapping[str, Mapping[str, tuple[str, str]]]:
        return {kind: dict(self._list_spans(kind)) for kind in NAME_KINDS}

    def _list_spans(self, kind: NameKind) -> Iterator[tuple[str, tuple[str, str]]]:
        for span, names in self.document.get(kind, {}).items():
            first, _, last = span.partition(" ")
            yield from ((name, (first, last)) for name in names.split())

    def explain_name(self, kind: NameKind, name: str) -> tuple[str, tuple[str, ...]] | None:
        """Return the cause and the remedy for a missing name; None if its releases are unknown."""
        if not (span := self._spans[kind].get(name)):
            return None
        first, last = span
        shown = name.replace(":", ".").removeprefix(".")
        if last == self.releases[-1]:
            cause = f"{shown} came with torch {first}, and the torch here is older"
            return cause, (
                f'install torch {first} or later: pip install "torch>={first}"',
                "or an older release of the package that needs it: pip index versions {importer}",
            )
        gone = self._find_next(last)
        cause = (
            f"{shown} is not in torch {gone} and later; torch {last} was the last release with it"
        )
        return cause, (
            "update the package that needs it: pip install -U {importer}",
            "use a version of the project that supports the installed torch",
            f'or install an older torch: pip install "torch<{gone}"',
        )

    def _find_next(self, release: str) -> str:
        return self.releases[self.releases.index(release) + 1]
