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

_STR = "tag:yaml.org,2002:str"
_PLAIN = (True, False)  # as `implicit` has it: neither quoted nor tagged


_NO_KEYS = (list, dict)


class _OddError(Exception):
    """Something that only PyYAML itself understands."""


def read(text: str) -> Any:
    """What stands in `text`. Raises `yaml.YAMLError` with line and column."""
    try:
        from yaml import cyaml  # noqa: PLC0415 - PyYAML can be built without it

        parser: Any = vars(cyaml)["CParser"]
        return _Reader(parser(text)).document()
    except (ImportError, _OddError):
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  (safe)


class _Reader:
    """One document out of the events of a parser."""

    def __init__(self, parser: Any) -> None:
        self.event = parser.get_event
        self.resolve: Callable[..., str] = Resolver().resolve
        self.construct: Callable[..., Any] = SafeConstructor().construct_object
        self.known: dict[str, Any] = {}  # plain scalars that were met: most are keys

    def document(self) -> Any:
        self.event()  # the stream
        if not isinstance(self.event(), yaml.DocumentStartEvent):
            return None
        found = self._value(self.event())
        self.event()
        if not isinstance(self.event(), yaml.StreamEndEvent):
            raise _OddError
        return found

    def _value(self, event: Any) -> Any:
        kind = type(event)
        if kind is ScalarEvent:
            return self._scalar(event)
        if event.anchor or event.tag:  # an alias has an anchor
            raise _OddError
        if kind is SequenceStartEvent:
            return self._sequence()
        if kind is MappingStartEvent:
            return self._mapping()
        raise _OddError

    def _scalar(self, event: Any) -> Any:
        if event.tag or event.anchor:
            raise _OddError
        text = event.value
        if not event.implicit[0]:
            return text
        if text not in self.known:
            tag = self.resolve(ScalarNode, text, _PLAIN)
            self.known[text] = text if tag == _STR else self.construct(ScalarNode(tag, text))
        return self.known[text]

    def _sequence(self) -> list[Any]:
        found = []
        while type(event := self.event()) is not SequenceEndEvent:
            found.append(self._value(event))
        return found

    def _mapping(self) -> dict[Any, Any]:
        found = {}
        while type(event := self.event()) is not MappingEndEvent:
            key = self._value(event)
            if key == "<<" or isinstance(key, _NO_KEYS):
                raise _OddError
            found[key] = self._value(self.event())
        return found
