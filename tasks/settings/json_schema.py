"""The settings as a JSON schema, for editors that complete and check YAML:
`python -m tasks.cli.generated_files`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tasks.core.canonical_json import format_canonical_json
from tasks.settings.schema import Settings
from tasks.settings.values import Section


def render_json_schema() -> str:
    """The content of config/schema.json."""
    schema = Settings.model_json_schema()
    for model in _list_models(Section):
        described = schema if model is Settings else schema["$defs"][model.__name__]
        for name, said in _read_field_docstrings(model):
            described["properties"][model.model_fields[name].alias or name]["description"] = said
    schema = _normalize_schema_node(schema)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "torchyard settings"
    return format_canonical_json(schema)


def _list_models(base: type[Section]) -> Iterator[type[Section]]:
    for model in base.__subclasses__():
        yield model
        yield from _list_models(model)


def _read_field_docstrings(model: type[Section]) -> Iterator[tuple[str, str]]:
    """The fields of a class, each with the string that follows it."""
    source = ast.parse(textwrap.dedent(inspect.getsource(model)))
    for field, after in pairwise(getattr(source.body[0], "body", ())):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                yield name, inspect.cleandoc(said)


def _normalize_schema_node(node: Any) -> Any:
    """Descriptions in one line each; names that have no right form are refused like unknown keys
    are.
    """
    if isinstance(node, list):
        return [_normalize_schema_node(item) for item in node]
    if not isinstance(node, dict):
        return node
    tidy = {key: _normalize_schema_node(value) for key, value in node.items()}
    if isinstance(tidy.get("description"), str):
        tidy["description"] = " ".join(tidy["description"].split())
    if "patternProperties" in tidy:
        tidy["additionalProperties"] = False
    return tidy
