"""Whether every file of facts has the shape that schema.json gives it.

`python -m tasks.knowledge.check` tells of each mistake. Nothing that builds asks: jsonschema is
there for tests, and reading tells of what it needs by itself (`tasks.knowledge.misread`).
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from tasks.knowledge.load import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML can be built without libyaml


@dataclass(frozen=True)
class Problem:
    """`what` is wrong in a file of facts, at the dotted `path`."""

    file: str
    path: str
    what: str

    def __str__(self) -> str:
        return (
            f"{self.file}: {self.path}: {self.what}" if self.path else f"{self.file}: {self.what}"
        )


def check(folder: Path) -> tuple[Problem, ...]:
    """Every mistake in the YAML files of `folder`, by its schema.json; none is fine.

    Needs jsonschema, and raises what reading a file that is no YAML raises.
    """
    schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
    return tuple(
        problem for path in sorted(folder.glob("*.yaml")) for problem in _file(path, schema)
    )


def _file(path: Path, schema: Any) -> Iterator[Problem]:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - only where it is checked
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    if path.stem not in schema["$defs"]:
        yield Problem(path.name, "", f"schema.json has no $defs.{path.stem}")
        return
    validator = Draft202012Validator({"$ref": f"#/$defs/{path.stem}", "$defs": schema["$defs"]})
    content = yaml.load(path.read_text(encoding="utf-8"), _LOADER)  # noqa: S506  (a safe one)
    for whole in validator.iter_errors(content):
        error = best_match([whole]) or whole  # of alternatives, the one that comes closest
        yield Problem(path.name, ".".join(map(str, error.absolute_path)), error.message)


if __name__ == "__main__":
    found = check(FOLDER)
    sys.stdout.writelines(f"{problem}\n" for problem in found)
    sys.exit(1 if found else 0)
