"""Parse config/knowledge to typed facts, each file when it is first needed.

`tasks.knowledge.facts` has the types. The other modules answer queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from msgspec import Struct, ValidationError, convert
from yaml.constructor import SafeConstructor
from yaml.events import (
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from tasks.core.errors import KnowledgeError
from tasks.knowledge.extension_facts import CompanionFact, ExtensionFact
from tasks.knowledge.facts import (
    BinaryRules,
    CodeFamily,
    Failure,
    FolderRule,
    GpuFact,
    GpuFamily,
    IntegratedGpu,
    KnownBad,
    MinimumVersion,
    PythonLimit,
    Release,
    Toolkit,
    parse_value,
)
from tasks.knowledge.mirrors import MirrorFact
from tasks.knowledge.package_managers import PackageManager, PackageManagers

if TYPE_CHECKING:
    from tasks.knowledge.costs import CostFact, ExtensionCost

_STRING_TAG = "tag:yaml.org,2002:str"
_PLAIN_SCALAR = (True, False)  # the value of `implicit` for neither quoted nor tagged


_UNHASHABLE_KEYS = (list, dict)


class _UnsupportedYamlError(Exception):
    """A YAML feature that only PyYAML supports."""


def parse_yaml(text: str) -> Any:
    """Parse a YAML document. Raises `yaml.YAMLError` with line and column."""
    try:
        from yaml import cyaml  # noqa: PLC0415 - PyYAML can be built without it

        parser: Any = vars(cyaml)["CParser"]
        return _YamlReader(parser(text)).read_document()
    except (ImportError, _UnsupportedYamlError):
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  (safe)


class _YamlReader:
    """A reader of one document from the events of a parser."""

    def __init__(self, parser: Any) -> None:
        self.next_event = parser.get_event
        self.resolve_tag: Callable[..., str] = Resolver().resolve
        self.construct_scalar: Callable[..., Any] = SafeConstructor().construct_object
        self.known_scalars: dict[str, Any] = {}  # cached plain scalars: most are repeated keys

    def read_document(self) -> Any:
        self.next_event()  # the start of the stream
        if not isinstance(self.next_event(), yaml.DocumentStartEvent):
            return None
        document = self._read_value(self.next_event())
        self.next_event()
        if not isinstance(self.next_event(), yaml.StreamEndEvent):
            raise _UnsupportedYamlError
        return document

    def _read_value(self, event: Any) -> Any:
        kind = type(event)
        if kind is ScalarEvent:
            return self._read_scalar(event)
        if event.anchor or event.tag:  # an alias has an anchor
            raise _UnsupportedYamlError
        if kind is SequenceStartEvent:
            return self._read_sequence()
        if kind is MappingStartEvent:
            return self._read_mapping()
        raise _UnsupportedYamlError

    def _read_scalar(self, event: Any) -> Any:
        if event.tag or event.anchor:
            raise _UnsupportedYamlError
        text = event.value
        if not event.implicit[0]:
            return text
        if text not in self.known_scalars:
            tag = self.resolve_tag(ScalarNode, text, _PLAIN_SCALAR)
            self.known_scalars[text] = (
                text if tag == _STRING_TAG else self.construct_scalar(ScalarNode(tag, text))
            )
        return self.known_scalars[text]

    def _read_sequence(self) -> list[Any]:
        items = []
        while type(event := self.next_event()) is not SequenceEndEvent:
            items.append(self._read_value(event))
        return items

    def _read_mapping(self) -> dict[Any, Any]:
        mapping = {}
        while type(event := self.next_event()) is not MappingEndEvent:
            key = self._read_value(event)
            if key == "<<" or isinstance(key, _UNHASHABLE_KEYS):
                raise _UnsupportedYamlError
            mapping[key] = self._read_value(self.next_event())
        return mapping


Row = dict[str, Any]
F = TypeVar("F", bound=Struct)

_EXPECTED_TYPES = {
    "str": "text (quote it)",
    "int": "a whole number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def convert_row(row: Any, kind: type[F]) -> F:
    """Return a row as a `kind`. Raises `ValidationError`."""
    if isinstance(row, dict):
        nested = [name for name in kind.__struct_encode_fields__ if "." in name]
        row = row | {name: value for name in nested for value in _find_nested(row, name)}
    return convert(row, kind, dec_hook=parse_value)


def _find_nested(row: Row, dotted: str) -> list[Any]:
    """Return a list with the value of a dotted key, empty if there is no value.

    For a list in the row, the value is the list of the values of its items.
    """
    value: Any = row
    try:
        for key in dotted.split("."):
            value = [item[key] for item in value] if isinstance(value, list) else value[key]
    except (KeyError, TypeError):
        return []
    return [value]


def describe_error(error: ValidationError) -> tuple[str, str]:
    """Return the dotted key that is wrong in a row, counting from 1 in lists, and the mistake."""
    match = re.fullmatch(r"(.*?)(?: - at (?:`key` in )?`\$(.*)`)?", str(error), re.DOTALL)
    mistake, path = match.groups("") if match else (str(error), "")
    key = re.sub(r"\[(\d+)\]", lambda place: f".{int(place[1]) + 1}", path.replace("[...]", ""))
    if missing_match := re.fullmatch(r"Object missing required field `(.*)`", mistake):
        return f"{key}.{missing_match[1]}", "is missing"
    if type_match := re.fullmatch(r"Expected `([^`]*)`, got `(.*)`", mistake):
        expected = [
            _EXPECTED_TYPES.get(type_name, type_name) for type_name in type_match[1].split(" | ")
        ]
        return key, f"is of the wrong kind: {type_match[2]} is not {' or '.join(expected)}"
    return key, mistake


_REPAIR_HINT = (
    "git diff config/knowledge; python -m tasks.knowledge.knowledge_files_io lists all mistakes"
)


@dataclass(frozen=True)
class Knowledge:
    """The facts of one folder. `read_file` parses a file when one of its facts is first needed."""

    folder: Path
    read_file: Callable[[Path], Mapping[str, Any]]

    @cached_property
    def gpus(self) -> tuple[GpuFact, ...]:
        """Every product name and Jetson module, in the order of gpus.yaml."""
        products = self._read_table("gpus", "names", GpuFact)
        return tuple({**products, **self._read_table("gpus", "jetson_modules", GpuFact)}.values())

    @cached_property
    def gpus_by_text(self) -> dict[str, GpuFact]:
        """Cache of resolved GPU names: the suggestions for a refusal look each up many times."""
        return {}

    @cached_property
    def families(self) -> tuple[GpuFamily, ...]:
        """Architectures by name, such as Blackwell, ascending."""
        return tuple(self._read_table("gpus", "families", GpuFamily).values())

    @cached_property
    def line_words(self) -> frozenset[str]:
        """Words in product names that do not identify one product, such as `pro`; lower case."""
        return frozenset(word.lower() for word in self._read_file("gpus")["lines"]["words"])

    @property
    def default_gpu(self) -> str:
        """The GPU to build for if none is configured and none is found."""
        return str(self._read_file("gpus")["default"])

    @property
    def gpu_notes(self) -> Mapping[str, Any]:
        """The content of gpus.yaml: also the names that mislead, and claims that are wrong."""
        return self._read_file("gpus")

    @cached_property
    def toolkits(self) -> Mapping[str, Toolkit]:
        """CUDA releases by `12.8`, ascending."""
        return self._read_table("toolkits", "releases", Toolkit)

    @cached_property
    def binary_rules(self) -> BinaryRules:
        """Systems on a chip and family archs: which machine code runs where."""
        integrated = self._read_table("toolkits", "integrated", IntegratedGpu).values()
        families = self._read_table("toolkits", "families", CodeFamily).values()
        return BinaryRules(
            {gpu.arch: gpu for gpu in integrated},
            {family.arch: family.runs_on for family in families},
        )

    @property
    def toolkit_notes(self) -> Mapping[str, Any]:
        """The content of toolkits.yaml: also the PyPI components, drivers and rules."""
        return self._read_file("toolkits")

    @cached_property
    def releases(self) -> Mapping[str, Release]:
        """PyTorch releases by `2.7`, ascending."""
        limits = self._read_table("pytorch", "fewer_pythons", PythonLimit).values()

        def add_limits(row: Row) -> Row:
            matching = [limit for limit in limits if row["name"] in limit.releases]
            return row | {"fewer_pythons": matching}

        return self._read_table("pytorch", "releases", Release, add_limits)

    @property
    def pytorch_notes(self) -> Mapping[str, Any]:
        """The content of pytorch.yaml: also indexes, accepted arch lists, and how to build."""
        return self._read_file("pytorch")

    @cached_property
    def known_bad(self) -> tuple[KnownBad, ...]:
        """Combinations that are known not to work, in the order of combinations.yaml."""
        return tuple(self._read_table("combinations", "known_bad", KnownBad).values())

    @cached_property
    def minimums(self) -> tuple[MinimumVersion, ...]:
        """Versions that can be too old, in the order of combinations.yaml."""
        return tuple(self._read_table("combinations", "minimums", MinimumVersion).values())

    @cached_property
    def extensions(self) -> Mapping[str, ExtensionFact]:
        """CUDA extensions by name."""
        return self._read_table("extensions", "extensions", ExtensionFact, _complete_extension)

    @cached_property
    def companions(self) -> Mapping[str, CompanionFact]:
        """torchvision, torchaudio and triton by name."""
        return self._read_table("extensions", "companions", CompanionFact, _add_companion_source)

    @property
    def extension_notes(self) -> Mapping[str, Any]:
        """The content of extensions.yaml: also the reasons for the values of each entry."""
        return self._read_file("extensions")

    @cached_property
    def folder_rules(self) -> tuple[FolderRule, ...]:
        """Effects of a change on a configured CMake build directory; the first match decides."""
        return tuple(self._read_table("buildfolder", "rules", FolderRule).values())

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """Known failures; the first whose pattern is found is the cause."""
        return tuple(self._read_table("failures", "failures", Failure).values())

    @cached_property
    def package_managers(self) -> PackageManagers:
        """The package manager of each system, with its names of the packages that hints suggest."""
        managers = self._read_table(
            "packagemanagers", "managers", PackageManager, _collect_packages
        )
        row = _drop_statuses(self._read_file("packagemanagers"))
        row["managers"] = list(managers.values())
        return self._convert_row("packagemanagers", "", row, PackageManagers)

    @cached_property
    def costs(self) -> tuple[CostFact, ...]:
        """The cost of each strategy, with CUDA and without."""
        from tasks.knowledge.costs import CostFact  # noqa: PLC0415 - of no use to list tasks

        return tuple(self._read_table("costs", "ways", CostFact).values())

    @cached_property
    def extension_cost(self) -> ExtensionCost:
        """The cost of one more extension."""
        from tasks.knowledge.costs import ExtensionCost  # noqa: PLC0415 - as above

        row = self._read_file("costs").get("extension")
        return self._convert_row("costs", "extension", row, ExtensionCost)

    @property
    def package_sizes(self) -> Mapping[str, int]:
        """Unpacked sizes in MiB of packages of an index, by the start of their names."""
        sizes: Mapping[str, int] = self._read_file("costs")["packages"]["unpacked_mib"]
        return sizes

    @cached_property
    def mirrors(self) -> Mapping[str, MirrorFact]:
        """Public mirrors by their names in settings."""
        return self._read_table("mirrors", "presets", MirrorFact)

    @cached_property
    def _parsed_files(self) -> dict[str, Mapping[str, Any]]:
        return {}

    def _read_table(
        self, name: str, section: str, kind: type[F], complete: Callable[[Row], Row] = dict
    ) -> dict[str, F]:
        """Return each row of a section of a file, by its key, or by its position from 1 in a list.

        `complete` adds derived values to a row; it finds the key of the row in `name`.
        """
        rows = self._read_file(name).get(section)
        if not isinstance(rows, (dict, list)):
            problem = "is missing" if rows is None else "is of the wrong kind"
            raise self._build_file_error(name, section, problem)
        table: dict[Any, F] = {}
        for key, row in rows.items() if isinstance(rows, dict) else enumerate(rows, 1):
            label, named_row = key, row
            if isinstance(row, dict):
                label, named_row = row.get("id", key), {"name": key, **row}
            table[key] = self._convert_row(name, f"{section}.{label}", named_row, kind, complete)
        return table

    def _convert_row(
        self, name: str, at: str, row: Any, kind: type[F], complete: Callable[[Row], Row] = dict
    ) -> F:
        """Return a row as a `kind`; a mistake in it raises a `KnowledgeError` with file and key."""
        try:
            return convert_row(complete(row) if isinstance(row, dict) else row, kind)
        except ValidationError as error:
            key, mistake = describe_error(error)
            raise self._build_file_error(name, f"{at}{key}".strip("."), mistake) from error

    def _build_file_error(self, name: str, key: str, what: str) -> KnowledgeError:
        path = self.folder / f"{name}.yaml"
        return KnowledgeError(what, location=f"{path}: {key}", hint=_REPAIR_HINT)

    def _read_file(self, name: str) -> Mapping[str, Any]:
        if name not in self._parsed_files:
            self._parsed_files[name] = self.read_file(self.folder / f"{name}.yaml")
        return self._parsed_files[name]


def _complete_extension(row: Row) -> Row:
    return {"distribution": row["name"], **row, "own_jobs": "own_jobs" in row}


def _add_companion_source(row: Row) -> Row:
    source = convert_row(_complete_extension(row), ExtensionFact) if "git" in row else None
    return row | {"pins": _drop_statuses(row.get("pins", {})), "source": source}


def _drop_statuses(value: Any) -> Any:
    """Return the mapping without `status`, also in nested mappings."""
    if not isinstance(value, dict):
        return value
    return {key: _drop_statuses(entry) for key, entry in value.items() if key != "status"}


def _collect_packages(row: Row) -> Row:
    fields = {"name", "systems", "command", "status"}
    return row | {"packages": {word: name for word, name in row.items() if word not in fields}}
