"""Read and validate the files of config/knowledge."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tasks.core.errors import KnowledgeError
from tasks.knowledge.knowledge_files import Knowledge, parse_yaml

KNOWLEDGE_FOLDER = Path(__file__).parents[2] / "config" / "knowledge"  # of this checkout
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML can be built without libyaml


def load_knowledge(folder: Path) -> Knowledge:
    """Return the knowledge in `folder`. Each file is read when it is first needed.

    Reading raises `KnowledgeError` if a file is missing, lacks a key or has a wrong value.
    """
    return Knowledge(folder, parse_knowledge_file)


def parse_knowledge_file(path: Path) -> Mapping[str, Any]:
    """Return the content of a YAML file of the folder. Raises `KnowledgeError`."""
    where = str(path)
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        hint = "run: git restore config/knowledge"
        raise KnowledgeError("the file is missing", location=where, hint=hint) from error
    except yaml.YAMLError as error:
        hint = f"correct the YAML syntax: {error}"
        raise KnowledgeError("the file is not valid YAML", location=where, hint=hint) from error
    if not isinstance(content, dict):
        raise KnowledgeError("the file is not a YAML mapping", location=where)
    return content


@dataclass(frozen=True)
class SchemaProblem:
    """A mistake in a knowledge file at the dotted `path`, "" for the whole file."""

    file: str
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.file, self.path, self.message)))


def check_schema(folder: Path) -> Iterator[SchemaProblem]:
    """Yield every mistake in the YAML files of `folder`, according to schema.json there.

    The definition of read/pytorch.yaml is `read_pytorch`.
    """
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - only where it is checked
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    definitions = json.loads((folder / "schema.json").read_text(encoding="utf-8"))["$defs"]
    for path in sorted(folder.rglob("*.yaml")):
        file = path.relative_to(folder).as_posix()
        name = file.removesuffix(".yaml").replace("/", "_")
        name = "kinds" if file.startswith("kinds/") else name
        if name not in definitions:
            yield SchemaProblem(file, "", f"schema.json has no $defs.{name}")
            continue
        validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})
        content = yaml.load(path.read_text(encoding="utf-8"), _LOADER)  # noqa: S506  (a safe one)
        for schema_error in validator.iter_errors(content):
            error = best_match([schema_error]) or schema_error  # the closest of alternatives
            yield SchemaProblem(file, ".".join(map(str, error.absolute_path)), error.message)


if __name__ == "__main__":
    problems = list(check_schema(KNOWLEDGE_FOLDER))
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    sys.exit(1 if problems else 0)
