"""The settings as a JSON schema, for editors that complete and check YAML:
`python -m tasks.settings.jsonschema > config/schema.json`.
"""

from __future__ import annotations

import sys
from typing import Any

from tasks.digest import canonical
from tasks.settings.schema import Settings


def text() -> str:
    """The content of config/schema.json."""
    schema = _tidy(Settings.model_json_schema())
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "torchyard settings"
    return canonical(schema)


def _tidy(node: Any) -> Any:
    """Descriptions in one line each; names that have no right form are refused like unknown keys
    are.
    """
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    tidy = {key: _tidy(value) for key, value in node.items()}
    if isinstance(tidy.get("description"), str):
        tidy["description"] = " ".join(tidy["description"].split())
    if "patternProperties" in tidy:
        tidy["additionalProperties"] = False
    return tidy


if __name__ == "__main__":
    sys.stdout.buffer.write(text().encode())  # whatever a terminal or a pipe is in otherwise
