"""YAML as plain values, three times faster than PyYAML's own way by nodes: every command of doit
reads the facts. Pure.

It takes the events of libyaml and resolves a scalar as `yaml.safe_load` does. A file with anchors
or tags, and a PyYAML without libyaml, get `yaml.safe_load` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
