"""What lies in a build folder, whoever's: the manifests as JSON, as far as they can be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from tasks.runlog.report.documents import Documents


def documents(build: PurePath) -> Documents:
    """The manifests below `build`; one that is gone, cut or of another make is {}."""
    folder = Path(build)
    source, deps, wheel, validation = (
        _document(folder / f"{name}.json") for name in ("source", "deps", "wheel", "validate")
    )
    return Documents(source, deps, wheel, validation, tuple(_extensions(folder / "extensions")))


def _extensions(folder: Path) -> Iterator[Mapping[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        if not path.name.endswith(".record.json"):
            yield _document(path)


def _document(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
