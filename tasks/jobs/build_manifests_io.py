"""What lies in a build folder, whoever's: the manifests as JSON, as far as they can be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from tasks.runlog.build_results import ManifestDocuments


def read_manifests(build: PurePath) -> ManifestDocuments:
    """The manifests below `build`; one that is gone, cut or of another make is {}."""
    folder = Path(build)
    source, deps, wheel, validation = (
        _read_manifest(folder / f"{name}.json") for name in ("source", "deps", "wheel", "validate")
    )
    return ManifestDocuments(
        source, deps, wheel, validation, tuple(_read_extension_manifests(folder / "extensions"))
    )


def _read_extension_manifests(folder: Path) -> Iterator[Mapping[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        if not path.name.endswith(".record.json"):
            yield _read_manifest(path)


def _read_manifest(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
