"""YAML files as trees of leaves that know their line. Plain data only: no tags, no aliases, no
duplicate keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import yaml

from tasks.errors import SettingsError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "bool", "null", "float", "map", "seq")
)


@dataclass(frozen=True)
class Number:
    """A float as it was written: 3.10 is not 3.1 where a version is meant."""

    text: str


@dataclass(frozen=True)
class Leaf:
    """A value and where it is from: `config/local.yaml:12` or the name of a variable."""

    value: Any
    where: str


Tree = dict[str, Union[Leaf, "Tree"]]


def read_tree(path: Path, name: str) -> Tree:
    """The mapping in a file; `name` is how messages call it. Lists are leaves."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        raise SettingsError(
            f"not readable as YAML: {getattr(error, 'problem', error)}", where=where
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"not UTF-8: {error.reason}", where=name, todo="save it as UTF-8"
        ) from error
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise SettingsError("the file must hold keys and values", where=name)
    return _mapping(node, name)


def read_value(text: str, name: str) -> Any:
    """The value of an environment variable: text as it stands, or YAML's [list] and {mapping}."""
    if not text.startswith(("[", "{")):
        return {"": None, "null": None}.get(text, text)
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise SettingsError(f"not readable as YAML: {error}", where=name) from error
    return _value(node, name) if node else None


def _mapping(node: yaml.MappingNode, name: str) -> Tree:
    tree: Tree = {}
    for key, below in _pairs(node, name):
        where = f"{name}:{below.start_mark.line + 1}"
        if isinstance(below, yaml.MappingNode) and below.value:
            tree[key] = _mapping(below, name)
        else:
            tree[key] = Leaf(_value(below, name), where)
    return tree


def _pairs(node: yaml.MappingNode, name: str) -> list[tuple[str, yaml.Node]]:
    pairs: dict[str, yaml.Node] = {}
    for key_node, below in node.value:
        where = f"{name}:{key_node.start_mark.line + 1}"
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else ""
        if not key or key == "<<":
            raise SettingsError("a key must be a plain word", where=where)
        if key in pairs:
            raise SettingsError(
                f'the key "{key}" is there twice', where=where, todo="keep one of them"
            )
        pairs[key] = below
    return list(pairs.items())


def _value(node: yaml.Node, name: str) -> Any:
    if node.tag not in _PLAIN:
        raise SettingsError(
            f"the YAML tag {node.tag} is not accepted",
            where=f"{name}:{node.start_mark.line + 1}",
            todo="write plain text, numbers, true/false, lists and mappings; "
            "quote a text that looks like a date",
        )
    if isinstance(node, yaml.MappingNode):
        return {key: _value(below, name) for key, below in _pairs(node, name)}
    if isinstance(node, yaml.SequenceNode):
        return [_value(below, name) for below in node.value]
    if node.tag.endswith(":float"):
        return Number(node.value)
    return yaml.constructor.SafeConstructor().construct_object(node)
