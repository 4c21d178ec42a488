"""Parse config/knowledge into typed facts, each file when one of its facts is first needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from msgspec import Struct, ValidationError, convert
from yaml.constructor import SafeConstructor
from yaml.events import MappingEndEvent, ScalarEvent, SequenceEndEvent, SequenceStartEvent
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from tasks.core.errors import KnowledgeError
from tasks.knowledge import facts
from tasks.knowledge.error_kinds import KIND_FILES, ErrorKind, NameRow
from tasks.knowledge.extension_facts import CompanionFact, ExtensionFact
from tasks.knowledge.mirrors import MirrorFact
from tasks.knowledge.package_managers import PackageManager, PackageManagers
from tasks.knowledge.read_facts import (
    ReadFacts,
    assume_row,
    complete_read_row,
    complete_release_row,
    merge_rows,
    merge_tables,
)
from tasks.knowledge.torch_names import NameHistory
from tasks.knowledge.versions import (
    find_release_channel,
    format_major_minor,
    parse_major_minor,
    parse_version_numbers,
)

if TYPE_CHECKING:
    from tasks.core.model import Arch
    from tasks.knowledge.costs import CostFact, ExtensionCost
    from tasks.knowledge.package_wheels import WheelHistory
    from tasks.knowledge.system_packages import SystemPackages

Row = dict[str, Any]
F = TypeVar("F", bound=Struct)

_STRING_TAG = "tag:yaml.org,2002:str"
_PLAIN_SCALAR = (True, False)  # `implicit` of a scalar without quotes and tag
_EXPECTED_TYPES = {
    "str": "text (quote it)",
    "int": "a whole number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_CHECK_COMMAND = "python -m tasks.knowledge.knowledge_files_io"
_REPAIR_HINT = f"run: git diff config/knowledge. To list every mistake, run: {_CHECK_COMMAND}"


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
    """A reader that builds one document from the events of a YAML parser."""

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
        if event.anchor or event.tag:  # an alias has an anchor
            raise _UnsupportedYamlError
        kind = type(event)
        if kind is ScalarEvent:
            return self._read_plain_scalar(event.value) if event.implicit[0] else event.value
        if kind is SequenceStartEvent:
            items = []
            while type(event := self.next_event()) is not SequenceEndEvent:
                items.append(self._read_value(event))
            return items
        mapping = {}
        while type(event := self.next_event()) is not MappingEndEvent:
            key = self._read_value(event)
            if key == "<<" or isinstance(key, (list, dict)):
                raise _UnsupportedYamlError
            mapping[key] = self._read_value(self.next_event())
        return mapping

    def _read_plain_scalar(self, text: str) -> Any:
        if text not in self.known_scalars:
            tag = self.resolve_tag(ScalarNode, text, _PLAIN_SCALAR)
            is_text = tag == _STRING_TAG
            value = text if is_text else self.construct_scalar(ScalarNode(tag, text))
            self.known_scalars[text] = value
        return self.known_scalars[text]


def _convert_struct(row: Any, kind: type[F]) -> F:
    """Convert a row to the type `kind`. Raises `ValidationError`."""
    if isinstance(row, dict):
        nested = [name for name in kind.__struct_encode_fields__ if "." in name]
        row = row | {name: value for name in nested for value in _find_nested(row, name)}
    return convert(row, kind, dec_hook=facts.parse_value)


def _find_nested(row: Row, dotted: str) -> list[Any]:
    """Return `[value]` for a dotted key, `[]` if the key is missing."""
    value: Any = row
    try:
        for key in dotted.split("."):
            value = [item[key] for item in value] if isinstance(value, list) else value[key]
    except (KeyError, TypeError):
        return []
    return [value]


def _describe_mistake(error: ValidationError) -> tuple[str, str]:
    """Return the place of a mistake in a row (`wheels.1.cuda`, counted from 1), and the mistake."""
    match = re.fullmatch(r"(.*?)(?: - at (?:`key` in )?`\$(.*)`)?", str(error), re.DOTALL)
    mistake, path = match.groups("") if match else (str(error), "")
    key = re.sub(r"\[(\d+)\]", lambda place: f".{int(place[1]) + 1}", path.replace("[...]", ""))
    if missing := re.fullmatch(r"Object missing required field `(.*)`", mistake):
        return f"{key}.{missing[1]}", "the key is missing"
    if wrong := re.fullmatch(r"Expected `([^`]*)`, got `(.*)`", mistake):
        expected = " or ".join(_EXPECTED_TYPES.get(name, name) for name in wrong[1].split(" | "))
        return key, f"the value has the wrong type: {wrong[2]} is not {expected}"
    return key, mistake


def _complete_extension(row: Row) -> Row:
    return {"distribution": row["name"], **row, "own_jobs": "own_jobs" in row}


def _complete_companion(row: Row) -> Row:
    source = _convert_struct(_complete_extension(row), ExtensionFact) if "git" in row else None
    return row | {"pins": _drop_statuses(row.get("pins", {})), "source": source}


def _complete_package_manager(row: Row) -> Row:
    fields = {"name", "systems", "command", "status"}
    return row | {"packages": {word: name for word, name in row.items() if word not in fields}}


def _drop_statuses(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _drop_statuses(entry) for key, entry in value.items() if key != "status"}


def _notes(name: str) -> cached_property[Mapping[str, Any]]:
    """Return a property with the whole content of the file `name`."""
    return cached_property(lambda knowledge: knowledge.read_notes(name))


def _table(
    name: str, section: str, kind: type[F], complete: Callable[[Row], Row] = dict
) -> cached_property[Mapping[str, F]]:
    """Return a property with the facts of `section` by key; `complete` adds values to each row."""
    return cached_property(lambda knowledge: knowledge.read_table(name, section, kind, complete))


def _list(name: str, section: str, kind: type[F]) -> cached_property[tuple[F, ...]]:
    """Return a property with the facts of `section` as a tuple, in the order of the file."""
    return cached_property(lambda knowledge: (*knowledge.read_table(name, section, kind).values(),))


_READ_FOLDER = "read"
_READ_FILES = ("pytorch", "toolkits")


@dataclass(frozen=True)
class Knowledge:
    """The facts of one folder, and `read`: what this machine has read beyond them.

    `read_file` parses a file when one of its facts is first needed. The folder `read` has the
    facts that `doit refresh` writes; they complete the curated files of the same names.
    """

    folder: Path
    read_file: Callable[[Path], Mapping[str, Any]]
    read: ReadFacts = field(default_factory=ReadFacts)

    # Whole files, which also have content that no typed fact has
    gpu_notes = _notes("gpus")  # also names that mislead and claims that are wrong
    toolkit_notes = _notes("toolkits")  # also PyPI components, drivers and rules
    pytorch_notes = _notes("pytorch")  # also indexes, accepted arch lists and how to build
    extension_notes = _notes("extensions")  # also the reasons for the values of each entry

    @property
    def date(self) -> str:
        """The day on which the recorded facts were read, "2026-11-26"."""
        return str(self.pytorch_notes["read"]["date"])

    families = _list("gpus", "families", facts.GpuFamily)  # such as Blackwell, ascending
    known_bad = _list("combinations", "known_bad", facts.KnownBad)  # combinations that fail
    minimums = _list("combinations", "minimums", facts.MinimumVersion)
    extensions = _table("extensions", "extensions", ExtensionFact, _complete_extension)
    companions = _table("extensions", "companions", CompanionFact, _complete_companion)
    folder_rules = _list("buildfolder", "rules", facts.FolderRule)  # the first match decides
    failures = _list("failures", "failures", facts.Failure)  # the first that matches is the cause
    mirrors = _table("mirrors", "presets", MirrorFact)

    @cached_property
    def kinds(self) -> tuple[ErrorKind, ...]:
        """The kinds of errors, in the order in which they are tried on a line."""
        tables = (self.read_table(f"kinds/{name}", "kinds", ErrorKind) for name in KIND_FILES)
        return tuple(kind for table in tables for kind in table.values())

    @cached_property
    def names(self) -> Mapping[str, tuple[NameRow, ...]]:
        """The tables that explain the names in errors: headers, libraries, modules and others."""
        found: dict[str, tuple[NameRow, ...]] = {}
        for file in KIND_FILES:
            for table, rows in (self.read_notes(f"kinds/{file}").get("tables") or {}).items():
                parsed = (
                    self._convert_row(f"kinds/{file}", f"tables.{table}.{number}", row, NameRow)
                    for number, row in enumerate(rows, 1)
                )
                found[table] = (*found.get(table, ()), *parsed)
        return found

    @cached_property
    def torch_names(self) -> NameHistory:
        """When names came to torch and went, by release."""
        return NameHistory(self.read_notes("read/torch_names"))

    @cached_property
    def package_wheels(self) -> WheelHistory:
        """For which Pythons the releases of packages with compiled code have wheels."""
        from tasks.knowledge.package_wheels import WheelHistory  # noqa: PLC0415 - of a diagnosis

        return WheelHistory(self.read_notes("read/package_wheels"))

    @cached_property
    def system_packages(self) -> SystemPackages:
        """Which package of Debian has a header, a library, a module or a program."""
        from tasks.knowledge.system_packages import SystemPackages  # noqa: PLC0415 - as above

        return SystemPackages(self.read_notes("read/system_packages"))

    def add_read_facts(self, read: ReadFacts) -> Knowledge:
        """Return the knowledge with these facts in place of `read`, without parsing files again."""
        knowledge = replace(self, read=read)
        knowledge._parsed_files.update(self._parsed_files)
        return knowledge

    @cached_property
    def gpus(self) -> tuple[facts.GpuFact, ...]:
        """All product names and Jetson modules, in the order of gpus.yaml."""
        products = self.read_table("gpus", "names", facts.GpuFact)
        modules = self.read_table("gpus", "jetson_modules", facts.GpuFact)
        return tuple({**products, **modules}.values())

    @cached_property
    def gpus_by_text(self) -> dict[str, facts.GpuFact]:
        """The cache of resolved GPU names."""
        return {}

    @cached_property
    def line_words(self) -> frozenset[str]:
        """The words in product names that do not identify a product, such as `pro`."""
        return frozenset(word.lower() for word in self.gpu_notes["lines"]["words"])

    @property
    def default_gpu(self) -> str:
        """The GPU to build for if none is configured and none is found."""
        return str(self.gpu_notes["default"])

    @cached_property
    def integrated_gpus(self) -> Mapping[Arch, facts.IntegratedGpu]:
        """The compute capabilities of systems on a chip, each with the code that it runs."""
        rows = self.read_table("toolkits", "integrated", facts.IntegratedGpu).values()
        return {gpu.arch: gpu for gpu in rows}

    @cached_property
    def code_families(self) -> Mapping[Arch, frozenset[Arch]]:
        """The family archs (`12.0f`), each with the compute capabilities that run its code."""
        rows = self.read_table("toolkits", "families", facts.CodeFamily).values()
        return {family.arch: family.runs_on for family in rows}

    @cached_property
    def toolkits(self) -> Mapping[str, facts.Toolkit]:
        """The CUDA toolkits by release (`12.8`), ascending."""
        table = self.read_table("toolkits", "releases", facts.Toolkit)
        for cuda, read in self.read.toolkits.items():
            row = merge_rows(assume_row(self.toolkit_notes["releases"], cuda), read)
            at = f"releases.{cuda}"
            table[cuda] = self._convert_row("toolkits", at, {"name": cuda, **row}, facts.Toolkit)
        return dict(sorted(table.items(), key=lambda item: parse_major_minor(item[0])))

    @cached_property
    def releases(self) -> Mapping[str, facts.Release]:
        """The PyTorch releases by minor version (`2.7`), ascending.

        A minor version that is only in `read` has the facts of its newest patch there.
        """
        table = self.read_table("pytorch", "releases", facts.Release, self._complete_release)
        read = {release.minor: release for release in self.read_releases.values()}
        table = {**read, **table}
        return dict(sorted(table.items(), key=lambda item: parse_major_minor(item[0])))

    @cached_property
    def read_releases(self) -> Mapping[str, facts.Release]:
        """The PyTorch releases in `read` by their exact version (`2.16.0`), ascending."""
        known: Mapping[str, Row] = self.pytorch_notes["releases"]
        table = {}
        for version, read in sorted(
            self.read.releases.items(), key=lambda item: parse_version_numbers(item[0])
        ):
            minor = format_major_minor(version)
            row = complete_read_row(known, minor, read)
            channel = find_release_channel(version)
            named = {"name": minor, **row, "patch": version, "channel": channel}
            at, kind = f"releases.{version}", facts.Release
            table[version] = self._convert_row("pytorch", at, named, kind, self._complete_release)
        return table

    def _complete_release(self, row: Row) -> Row:
        limits = self._python_limits
        applicable = [limit for limit in limits if row["name"] in limit.releases]
        return complete_release_row(row) | {"fewer_pythons": applicable}

    @cached_property
    def _python_limits(self) -> tuple[facts.PythonLimit, ...]:
        return (*self.read_table("pytorch", "fewer_pythons", facts.PythonLimit).values(),)

    @cached_property
    def package_managers(self) -> PackageManagers:
        """The package managers by system, with the package names that install hints use."""
        name = "packagemanagers"
        managers = self.read_table(name, "managers", PackageManager, _complete_package_manager)
        row = _drop_statuses(self.read_notes(name)) | {"managers": list(managers.values())}
        return self._convert_row(name, "", row, PackageManagers)

    @cached_property
    def costs(self) -> tuple[CostFact, ...]:
        """The cost of each strategy, with CUDA and without."""
        from tasks.knowledge.costs import CostFact  # noqa: PLC0415 - of no use to list tasks

        return tuple(self.read_table("costs", "ways", CostFact).values())

    @cached_property
    def extension_cost(self) -> ExtensionCost:
        """The cost of one more extension."""
        from tasks.knowledge.costs import ExtensionCost  # noqa: PLC0415 - as above

        row = self.read_notes("costs").get("extension")
        return self._convert_row("costs", "extension", row, ExtensionCost)

    @property
    def package_sizes(self) -> Mapping[str, int]:
        """The unpacked sizes of packages in MiB, by the prefix of the package name."""
        sizes: Mapping[str, int] = self.read_notes("costs")["packages"]["unpacked_mib"]
        return sizes

    @cached_property
    def _parsed_files(self) -> dict[str, Mapping[str, Any]]:
        return {}

    def read_notes(self, name: str) -> Mapping[str, Any]:
        """Return the content of a file of the folder. Each file is parsed only once."""
        if name not in self._parsed_files:
            content = self.read_file(self.folder / f"{name}.yaml")
            if name in _READ_FILES:
                content = self._add_read_file(name, content)
            self._parsed_files[name] = content
        return self._parsed_files[name]

    def _add_read_file(self, name: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        read = self.read_file(self.folder / _READ_FOLDER / f"{name}.yaml")
        curated = content.get("releases")
        if not isinstance(curated, dict):
            return content  # reading the table reports this mistake
        return {
            **content,
            "read": read["read"],
            "releases": merge_tables(curated, read["releases"]),
        }

    def read_table(
        self, name: str, section: str, kind: type[F], complete: Callable[[Row], Row] = dict
    ) -> dict[str, F]:
        """Return the facts in a section of a file by key. The keys of a list are 1, 2 and so on.

        The key of a row is added to it as "name"; `complete` can add more values.
        """
        rows = self.read_notes(name).get(section)
        if not isinstance(rows, (dict, list)):
            mistake = "the key is missing" if rows is None else "the value is not a list or mapping"
            raise self._build_file_error(name, section, mistake)
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
        """Convert the row with the key `at` to the type `kind`. Raises `KnowledgeError`."""
        try:
            return _convert_struct(complete(row) if isinstance(row, dict) else row, kind)
        except ValidationError as error:
            key, mistake = _describe_mistake(error)
            raise self._build_file_error(name, f"{at}{key}".strip("."), mistake) from error

    def _build_file_error(self, name: str, key: str, mistake: str) -> KnowledgeError:
        path = self.folder / f"{name}.yaml"
        return KnowledgeError(mistake, location=f"{path}: {key}", hint=_REPAIR_HINT)
