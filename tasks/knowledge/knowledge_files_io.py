"""Read and validate the files of config/knowledge."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tasks.core.errors import KnowledgeError
from tasks.knowledge.knowledge_files import Knowledge, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

KNOWLEDGE_FOLDER = Path(__file__).parents[2] / "config" / "knowledge"  # of this checkout


def load_knowledge(folder: Path) -> Knowledge:
    """Return the knowledge in `folder`; files are read when first needed.

    Then a file that is missing, is not YAML, lacks a key or has a value of another type raises a
    `KnowledgeError`.
    """
    return Knowledge(folder, _parse_file)


def _parse_file(path: Path) -> Mapping[str, Any]:
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise KnowledgeError(
            "facts are missing", location=str(path), hint="git restore config/knowledge"
        ) from error
    except yaml.YAMLError as error:
        raise KnowledgeError(
            "cannot be read as YAML", location=str(path), hint=str(error)
        ) from error
    if not isinstance(content, dict):
        raise KnowledgeError("is not a mapping", location=str(path))
    return content


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML can be built without libyaml


@dataclass(frozen=True)
class SchemaProblem:
    """A mistake in a knowledge file at the dotted `path`."""

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
    """Return every mistake in the YAML files of `folder`, by its schema.json.

    Needs jsonschema. Raises the errors of reading a file that is not YAML.
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
    for schema_error in validator.iter_errors(content):
        error = (
            best_match([schema_error]) or schema_error
        )  # of alternatives, the one that comes closest
        yield SchemaProblem(path.name, ".".join(map(str, error.absolute_path)), error.message)


if __name__ == "__main__":
    found = check_schema(KNOWLEDGE_FOLDER)
    sys.stdout.writelines(f"{problem}\n" for problem in found)
    sys.exit(1 if found else 0)
