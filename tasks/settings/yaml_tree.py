"""Parse YAML without tags and aliases, and keep the file and line of each value."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

import yaml

from tasks.core.errors import SettingsError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "bool", "null", "float", "map", "seq")
)
_DECIMAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


@dataclass(frozen=True)
class YamlNumber:
    """A number as written in YAML, so that the version 3.10 does not become 3.1."""

    text: str


@dataclass(frozen=True)
class Leaf:
    """A value and where it is set: `config/local.yaml:12` or the name of an environment variable.

    `lines` has the locations of values inside a list, by index and key.
    """

    value: Any
    location: str
    lines: Mapping[tuple[Any, ...], str] = field(default_factory=dict)


# Renamed keys of the previous release, still accepted: section.key
_RENAMED_KEYS = {"build.heal": "build.auto_fix"}

Tree = dict[str, Union[Leaf, "Tree"]]


def parse_yaml_tree(text: str, name: str) -> Tree:
    """Parse YAML text, which must be a mapping or empty."""
    node = _compose_node(text, name)
    if node is None or node.tag == "tag:yaml.org,2002:null":
        return {}
    if not isinstance(node, yaml.MappingNode):
        location = format_location(name, node.start_mark.line)
        hint = 'write each setting as "key: value"'
        raise SettingsError("the file must hold keys and values", location=location, hint=hint)
    return _build_tree(node, name)


def parse_variable_value(text: str, name: str) -> Leaf | Tree:
    """Parse the value of an environment variable: plain text, or a YAML [list] or {mapping}."""
    if not text.startswith(("[", "{")):
        return Leaf({"": None, "null": None}.get(text, text), name)
    node = _compose_node(text, name)
    if isinstance(node, yaml.MappingNode) and node.value:
        return _build_tree(node, name)
    return Leaf(_convert_node(node, name), name)


def _compose_node(text: str, name: str) -> yaml.Node | None:
    try:
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line if event.start_mark else 0
                location = format_location(name, line)
                hint = "write the value itself instead of the alias"
                raise SettingsError("a YAML alias is not accepted", location=location, hint=hint)
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        location = format_location(name, text.count("\n", 0, error.position))
        raise SettingsError(f"not valid YAML: {error.reason}", location=location) from error
    except yaml.MarkedYAMLError as error:
        location = format_location(name, error.problem_mark.line) if error.problem_mark else name
        raise SettingsError(f"not valid YAML: {error.problem}", location=location) from error
    return node


def format_location(name: str, line: int) -> str:
    """Return `name:line` for a file, or `name` for an environment variable."""
    return f"{name}:{line + 1}" if name.endswith((".yaml", ".lock")) else name


def _build_tree(node: yaml.MappingNode, name: str) -> Tree:
    _require_plain_tag(node, name)
    tree: Tree = {}
    for key, child in _list_mapping_pairs(node, name):
        if isinstance(child, yaml.MappingNode) and child.value:
            tree[key] = _build_tree(child, name)
        else:
            lines = dict(_find_item_locations(child, name))
            location = format_location(name, child.start_mark.line)
            tree[key] = Leaf(_convert_node(child, name), location, lines)
    return tree


def _list_mapping_pairs(node: yaml.MappingNode, name: str) -> list[tuple[str, yaml.Node]]:
    pairs: dict[str, yaml.Node] = {}
    for key_node, child in node.value:
        location = format_location(name, key_node.start_mark.line)
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else ""
        if not key or key == "<<":
            raise SettingsError("a key must be a plain word", location=location)
        if key in pairs:
            hint = "keep one of them"
            raise SettingsError(f'the key "{key}" occurs twice', location=location, hint=hint)
        pairs[key] = child
    return list(pairs.items())


def _find_item_locations(node: yaml.Node, name: str) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the location of each value inside a list, outer values before inner values."""
    items: list[tuple[Any, yaml.Node]] = []
    if isinstance(node, yaml.SequenceNode):
        items = list(enumerate(node.value))
    elif isinstance(node, yaml.MappingNode):
        items = list(_list_mapping_pairs(node, name))
    for key, child in items:
        yield (key,), format_location(name, child.start_mark.line)
        for path, location in _find_item_locations(child, name):
            yield (key, *path), location


def _convert_node(node: yaml.Node | None, name: str) -> Any:
    if node is None:
        return None
    _require_plain_tag(node, name)
    if isinstance(node, yaml.MappingNode):
        return {key: _convert_node(child, name) for key, child in _list_mapping_pairs(node, name)}
    if isinstance(node, yaml.SequenceNode):
        return [_convert_node(child, name) for child in node.value]
    kind = node.tag.rpartition(":")[2]
    if kind == "float" or (kind == "int" and not _DECIMAL_INTEGER.fullmatch(node.value)):
        return YamlNumber(node.value)
    return yaml.constructor.SafeConstructor().construct_object(node)


def _require_plain_tag(node: yaml.Node, name: str) -> None:
    if node.tag not in _PLAIN_TAGS:
        message = f"the YAML tag {node.tag} is not accepted"
        location = format_location(name, node.start_mark.line)
        hint = "write plain text, numbers, true/false, lists and mappings; "
        hint += "quote a text that looks like a date"
        raise SettingsError(message, location=location, hint=hint)


def rename_old_keys(tree: Tree) -> Iterator[str]:
    """Rename the old keys in the tree, and yield a warning for each."""
    for old, new in _RENAMED_KEYS.items():
        section, _, key = old.partition(".")
        subtree = tree.get(section)
        if isinstance(subtree, dict) and isinstance(leaf := subtree.get(key), Leaf):
            del subtree[key]
            subtree.setdefault(new.partition(".")[2], leaf)
            yield f"{leaf.location}: rename {old} to {new}; the next release will not read {old}"


def merge_tree(into: Tree, tree: Tree) -> None:
    """Update `into` with `tree`: merge mappings, and replace all other values."""
    for key, value in tree.items():
        present = into.get(key)
        if isinstance(value, dict):
            into[key] = branch = present if isinstance(present, dict) else {}
            merge_tree(branch, value)
        elif not isinstance(present, dict) or value.value != {}:
            into[key] = value


def split_tree(tree: Tree, prefix: str = "") -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the tree as nested mappings, and the location of each dotted key."""
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for key, node in tree.items():
        dotted = f"{prefix}.{key}" if prefix else key
        if isinstance(node, Leaf):
            values[key], origin[dotted] = node.value, node.location
        else:
            values[key], child_origin = split_tree(node, dotted)
            origin.update(child_origin)
    return values, origin


def list_item_origins(tree: Tree, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted key of every value inside a list, and where the value is set."""
    for key, node in tree.items():
        if isinstance(node, Leaf):
            for path, location in node.lines.items():
                yield prefix + ".".join(map(str, (key, *path))), location
        else:
            yield from list_item_origins(node, f"{prefix}{key}.")
