"""Read the files of config/knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tasks.core.errors import KnowledgeError
from tasks.knowledge.knowledge_files import Knowledge, parse_yaml

KNOWLEDGE_FOLDER = Path(__file__).parents[2] / "config" / "knowledge"  # of this checkout


def load_knowledge(folder: Path) -> Knowledge:
    """The knowledge in `folder`; nothing is read yet.

    A file that is missing or is no YAML, and one that lacks a key or has a value of another type,
    is a `KnowledgeError` when it is first asked for.
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
