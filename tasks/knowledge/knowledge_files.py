"""Reads config/knowledge, each file only when something first asks for it.

It does not know what the facts mean: `tasks.knowledge.facts` gives them types, the other modules
answer questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
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
from tasks.knowledge.extension_facts import read_companions, read_extensions
from tasks.knowledge.facts import (
    read_binary_rules,
    read_failures,
    read_families,
    read_folder_rules,
    read_gpus,
    read_known_bad,
    read_minimums,
    read_releases,
    read_toolkits,
)
from tasks.knowledge.mirrors import read_mirrors
from tasks.knowledge.package_managers import PackageManagers, read_package_managers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tasks.knowledge.costs import CostFact, ExtensionCost
    from tasks.knowledge.extension_facts import CompanionFact, ExtensionFact
    from tasks.knowledge.facts import (
        BinaryRules,
        Failure,
        FolderRule,
        GpuFact,
        GpuFamily,
        KnownBad,
        MinimumVersion,
        Release,
        Toolkit,
    )
    from tasks.knowledge.mirrors import MirrorFact

KeyPath = tuple[str, ...]
_TypeCheck = tuple[str, Callable[[Any], bool]]  # in words, and whether a value is of it

READ_ERRORS = (KeyError, TypeError, ValueError, AttributeError, KnowledgeError)


def locate_read_error(
    read: Callable[[Mapping[str, Any]], Any], data: Mapping[str, Any]
) -> tuple[str, str]:
    """The dotted key at which `read` of `data` failed, "" where it cannot be told, and what is
    wrong there.
    """
    for entry, alone in _split_entries(data):
        asked: list[KeyPath] = [()]
        try:
            read(_record_accesses(alone, (), asked))
        except READ_ERRORS as error:
            last = asked[-1]
            return ".".join(last if last[: len(entry)] == entry else entry), _describe_error(error)
    return "", "cannot be read"


def find_type_errors(facts: Any) -> Iterator[tuple[str, str]]:
    """Each field of these facts whose value is of another type than it is declared with: the fact's
    first field and the field's name, dotted, and what it must be.
    """
    for fact in _list_facts(facts):
        for name, kind in _list_declared_types(fact.__class__):
            value = getattr(fact, name)
            if kind is None:
                if isinstance(value, tuple) and value and is_dataclass(value[0]):
                    yield from (
                        (f"{_format_fact_name(fact)}.{key}", what)
                        for key, what in find_type_errors(value)
                    )
            elif not kind[1](value):
                yield f"{_format_fact_name(fact)}.{name}", f"{value!r} is not {kind[0]}"


@cache
def _list_declared_types(kind: type) -> tuple[tuple[str, _TypeCheck | None], ...]:
    return tuple((field.name, _TYPE_CHECKS.get(str(field.type))) for field in fields(kind))


def _list_facts(facts: Any) -> Iterable[Any]:
    if is_dataclass(facts):
        return (facts,)
    return facts.values() if isinstance(facts, Mapping) else tuple(facts)


def _format_fact_name(fact: Any) -> str:
    first = getattr(fact, fields(fact)[0].name)
    return first if isinstance(first, str) else ", ".join(map(str, first))


def _build_type_check(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _build_sequence_check(kind: type) -> Callable[[Any], bool]:
    one = _build_type_check(kind)
    return lambda values: all(map(one, values))


_TYPE_CHECKS: dict[str, _TypeCheck] = {
    "str": ("text (quote it)", _build_type_check(str)),
    "int": ("a whole number", _build_type_check(int)),
    "bool": ("true or false", _build_type_check(bool)),
    "tuple[str, ...]": ("a list of texts (quote them)", _build_sequence_check(str)),
    "tuple[str, str]": ("two texts (quote them)", _build_sequence_check(str)),
    "tuple[int, int]": ("two whole numbers", _build_sequence_check(int)),
}


def _describe_error(error: Exception) -> str:
    match error:
        case KnowledgeError():
            return error.message
        case KeyError():
            return "is missing"
        case _:
            return f"is of the wrong kind ({error})"


def _split_entries(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """The file without entries, then with each of them alone."""
    empty = {key: type(part)() if _is_container(part) else part for key, part in data.items()}
    yield (), empty
    for key, part in data.items():
        if isinstance(part, dict):
            yield from (((key, str(n)), {**empty, key: {n: row}}) for n, row in part.items())
        elif isinstance(part, list):
            for place, row in enumerate(part):
                yield (key, _format_entry_label(row, place)), {**empty, key: [row]}


def _is_container(part: Any) -> bool:
    return isinstance(part, (dict, list))


def _format_entry_label(row: Any, place: int) -> str:
    return str(row["id"]) if isinstance(row, dict) and "id" in row else str(place + 1)


def _record_accesses(value: Any, path: KeyPath, asked: list[KeyPath]) -> Any:
    if isinstance(value, dict):
        return _RecordingDict(
            {key: _record_accesses(part, (*path, str(key)), asked) for key, part in value.items()},
            path,
            asked,
        )
    if isinstance(value, list):
        return [
            _record_accesses(part, (*path, _format_entry_label(part, place)), asked)
            for place, part in enumerate(value)
        ]
    return value


class _RecordingDict(dict[str, Any]):
    """A mapping that notes each key that it is asked for."""

    def __init__(self, content: dict[str, Any], path: KeyPath, asked: list[KeyPath]) -> None:
        super().__init__(content)
        self._path, self._asked = path, asked

    def __getitem__(self, key: str) -> Any:
        self._asked.append((*self._path, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._asked.append((*self._path, key))
        return super().get(key, default)


_STRING_TAG = "tag:yaml.org,2002:str"
_PLAIN_SCALAR = (True, False)  # as `implicit` has it: neither quoted nor tagged


_UNHASHABLE_KEYS = (list, dict)


class _UnsupportedYamlError(Exception):
    """Something that only PyYAML itself understands."""


def parse_yaml(text: str) -> Any:
    """What stands in `text`. Raises `yaml.YAMLError` with line and column."""
    try:
        from yaml import cyaml  # noqa: PLC0415 - PyYAML can be built without it

        parser: Any = vars(cyaml)["CParser"]
        return _YamlReader(parser(text)).read_document()
    except (ImportError, _UnsupportedYamlError):
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  (safe)


class _YamlReader:
    """One document out of the events of a parser."""

    def __init__(self, parser: Any) -> None:
        self.next_event = parser.get_event
        self.resolve_tag: Callable[..., str] = Resolver().resolve
        self.construct_scalar: Callable[..., Any] = SafeConstructor().construct_object
        self.known_scalars: dict[str, Any] = {}  # plain scalars that were met: most are keys

    def read_document(self) -> Any:
        self.next_event()  # the stream
        if not isinstance(self.next_event(), yaml.DocumentStartEvent):
            return None
        found = self._read_value(self.next_event())
        self.next_event()
        if not isinstance(self.next_event(), yaml.StreamEndEvent):
            raise _UnsupportedYamlError
        return found

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
        found = []
        while type(event := self.next_event()) is not SequenceEndEvent:
            found.append(self._read_value(event))
        return found

    def _read_mapping(self) -> dict[Any, Any]:
        found = {}
        while type(event := self.next_event()) is not MappingEndEvent:
            key = self._read_value(event)
            if key == "<<" or isinstance(key, _UNHASHABLE_KEYS):
                raise _UnsupportedYamlError
            found[key] = self._read_value(self.next_event())
        return found


T = TypeVar("T")


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
        return self._read_facts("gpus", read_gpus)

    @cached_property
    def gpus_by_text(self) -> dict[str, GpuFact]:
        """Cache of resolved GPU names: the suggestions for a refusal look each up many times."""
        return {}

    @cached_property
    def families(self) -> tuple[GpuFamily, ...]:
        """Architectures by name, such as Blackwell, ascending."""
        return self._read_facts("gpus", read_families)

    @cached_property
    def line_words(self) -> frozenset[str]:
        """Words of product names that name no one product, such as `pro`; lower case."""
        return frozenset(word.lower() for word in self._read_file("gpus")["lines"]["words"])

    @property
    def default_gpu(self) -> str:
        """The card that is meant where none is named and none is found."""
        return str(self._read_file("gpus")["default"])

    @property
    def gpu_notes(self) -> Mapping[str, Any]:
        """gpus.yaml as it is written: names that mislead, and claims that are wrong."""
        return self._read_file("gpus")

    @cached_property
    def toolkits(self) -> Mapping[str, Toolkit]:
        """CUDA releases by `12.8`, ascending."""
        return self._read_facts("toolkits", read_toolkits)

    @cached_property
    def binary_rules(self) -> BinaryRules:
        """Systems on a chip and family archs: which machine code runs where."""
        return self._read_facts("toolkits", read_binary_rules)

    @property
    def toolkit_notes(self) -> Mapping[str, Any]:
        """toolkits.yaml as it is written: the PyPI components, drivers and rules."""
        return self._read_file("toolkits")

    @cached_property
    def releases(self) -> Mapping[str, Release]:
        """PyTorch releases by `2.7`, ascending."""
        return self._read_facts("pytorch", read_releases)

    @property
    def pytorch_notes(self) -> Mapping[str, Any]:
        """pytorch.yaml as it is written: indexes, accepted arch lists, how to build."""
        return self._read_file("pytorch")

    @cached_property
    def known_bad(self) -> tuple[KnownBad, ...]:
        """Combinations that are known not to work, in the order of combinations.yaml."""
        return self._read_facts("combinations", read_known_bad)

    @cached_property
    def minimums(self) -> tuple[MinimumVersion, ...]:
        """What can be too old, in the order of combinations.yaml."""
        return self._read_facts("combinations", read_minimums)

    @cached_property
    def extensions(self) -> Mapping[str, ExtensionFact]:
        """CUDA extensions by name."""
        return self._read_facts("extensions", read_extensions)

    @cached_property
    def companions(self) -> Mapping[str, CompanionFact]:
        """torchvision, torchaudio and triton by name."""
        return self._read_facts("extensions", read_companions)

    @property
    def extension_notes(self) -> Mapping[str, Any]:
        """extensions.yaml as it is written: why each entry has what it has."""
        return self._read_file("extensions")

    @cached_property
    def folder_rules(self) -> tuple[FolderRule, ...]:
        """What a change means for a configured CMake folder; the first that matches decides."""
        return self._read_facts("buildfolder", read_folder_rules)

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """What is known to go wrong; the first whose pattern is found is the cause."""
        return self._read_facts("failures", read_failures)

    @cached_property
    def package_managers(self) -> PackageManagers:
        """What the package manager of each system calls what remedies ask for."""
        return self._read_facts("packagemanagers", read_package_managers)

    @cached_property
    def costs(self) -> tuple[CostFact, ...]:
        """What each strategy takes, with CUDA and without."""
        from tasks.knowledge.costs import read_costs  # noqa: PLC0415 - of no use to list tasks

        return self._read_facts("costs", read_costs)

    @cached_property
    def extension_cost(self) -> ExtensionCost:
        """What an extension adds."""
        from tasks.knowledge.costs import read_extension_cost  # noqa: PLC0415 - as above

        return self._read_facts("costs", read_extension_cost)

    @property
    def package_sizes(self) -> Mapping[str, int]:
        """MiB of packages of an index once they are unpacked, by the beginning of a name."""
        sizes: Mapping[str, int] = self._read_file("costs")["packages"]["unpacked_mib"]
        return sizes

    @cached_property
    def mirrors(self) -> Mapping[str, MirrorFact]:
        """Public mirrors by the name that settings call them."""
        return self._read_facts("mirrors", read_mirrors)

    @cached_property
    def _parsed_files(self) -> dict[str, Mapping[str, Any]]:
        return {}

    def _read_facts(self, name: str, read: Callable[[Mapping[str, Any]], T]) -> T:
        """What `read` makes of a file; a person's mistake in it is a `KnowledgeError`."""
        data = self._read_file(name)
        try:
            found = read(data)
        except READ_ERRORS as error:
            raise self._build_file_error(name, *locate_read_error(read, data)) from error
        for key, what in find_type_errors(found):
            raise self._build_file_error(name, key, what)
        return found

    def _build_file_error(self, name: str, key: str, what: str) -> KnowledgeError:
        file = self.folder / f"{name}.yaml"
        return KnowledgeError(
            what, location=f"{file}: {key}" if key else str(file), hint=_REPAIR_HINT
        )

    def _read_file(self, name: str) -> Mapping[str, Any]:
        if name not in self._parsed_files:
            self._parsed_files[name] = self.read_file(self.folder / f"{name}.yaml")
        return self._parsed_files[name]
