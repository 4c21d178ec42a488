"""Validate the files of config/knowledge against schema.json.

`python -m tasks.knowledge.schema_check_io` lists all mistakes. A build does not call it: jsonschema is
a test dependency, and `tasks.knowledge.schema_errors` reports what loading needs.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from tasks.knowledge.load_knowledge_io import KNOWLEDGE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML can be built without libyaml


@dataclass(frozen=True)
class SchemaProblem:
    """`what` is wrong in a file of facts, at the dotted `path`."""

    file: str
    path: str
    message: str

    def __str__(self) -> str:
        return (
            f"{self.file}: {self.path}: {self.message}"
            if self.path
            else f"{self.file}: {self.message}"
        )


def check_schema(folder: Path) -> tuple[SchemaProblem, ...]:
    """Every mistake in the YAML files of `folder`, by its schema.json; none is fine.

    Needs jsonschema, and raises what reading a file that is no YAML raises.
    """
    schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
    return tuple(
        problem
        for path in sorted(folder.glob("*.yaml"))
        for problem in _check_knowledge_file(path, schema)
    )


def _check_knowledge_file(path: Path, schema: Any) -> Iterator[SchemaProblem]:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - only where it is checked
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    if path.stem not in schema["$defs"]:
        yield SchemaProblem(path.name, "", f"schema.json has no $defs.{path.stem}")
        return
    validator = Draft202012Validator({"$ref": f"#/$defs/{path.stem}", "$defs": schema["$defs"]})
    content = yaml.load(path.read_text(encoding="utf-8"), _LOADER)  # noqa: S506  (a safe one)
    for whole in validator.iter_errors(content):
        error = best_match([whole]) or whole  # of alternatives, the one that comes closest
        yield SchemaProblem(path.name, ".".join(map(str, error.absolute_path)), error.message)


if __name__ == "__main__":
    found = check_schema(KNOWLEDGE_FOLDER)
    sys.stdout.writelines(f"{problem}\n" for problem in found)
    sys.exit(1 if found else 0)
