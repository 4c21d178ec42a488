"""The manifests of a build folder as JSON, and which of them a run itself left. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.runlog.record import Run

_EXTENSION_PREFIX = "extensions:"


@dataclass(frozen=True)
class ManifestDocuments:
    """The manifests as JSON, {} for one that is not there; `extensions` in their order."""

    source: Mapping[str, Any]
    deps: Mapping[str, Any]
    wheel: Mapping[str, Any]
    validation: Mapping[str, Any]
    extensions: tuple[Mapping[str, Any], ...] = ()


def merge_run_outputs(found: ManifestDocuments, run: Run) -> ManifestDocuments:
    """The same, with what the run itself left where its record holds it: a later run may have put
    something else there.
    """
    left = {stage.name: stage.outputs for stage in run.stages if stage.outputs}
    extensions = {str(document.get("name")): document for document in found.extensions}
    extensions |= {
        name.removeprefix(_EXTENSION_PREFIX): document
        for name, document in left.items()
        if name.startswith(_EXTENSION_PREFIX)
    }
    return ManifestDocuments(
        source=left.get("source", found.source),
        deps=left.get("deps", found.deps),
        wheel=left.get("wheel", found.wheel),
        validation=left.get("validate", found.validation),
        extensions=tuple(extensions.values()),
    )
