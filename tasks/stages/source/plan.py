"""Plan the stage source from the settings path, tarball and git, in this order of precedence."""

from __future__ import annotations

from pathlib import PurePath

from tasks.core.canonical_json import convert_to_json
from tasks.core.model import Json, Layout, Stage
from tasks.core.resolution import Resolution
from tasks.settings.schema import Settings, Source
from tasks.stages.source.model import SourceJob, SourceKind

RECIPE = 1


def plan(settings: Settings, layout: Layout, choice: Resolution) -> Stage:
    """Return the stage source.

    Mirrors are not in the fingerprint, since they do not change the tree.
    """
    job = _build_source_job(settings.source, layout, choice.torch)
    return Stage(
        name="source",
        kind="source",
        doc="PyTorch's own tree, as it is now",
        job=job,
        fingerprint=_build_source_fingerprint(job, settings.source),
        outputs=(layout.compute_manifest_path("source"),),
        uptodate_check="always",
    )


def _build_source_job(source: Source, layout: Layout, release: str) -> SourceJob:
    kind = select_source_kind(source)
    state = layout.build / "src"
    location = resolve_source_location(source, kind, layout.root)
    return SourceJob(
        kind=kind,
        location=location,
        ref=f"v{release}" if source.ref == "auto" else source.ref,
        submodules=source.submodules,
        sha256=source.sha256,
        patches=tuple(layout.root / patch for patch in source.patches),
        mirrors=source.mirrors,
        tree=layout.root / location if kind == "path" else state / "pytorch",
        state=state,
        manifest=layout.compute_manifest_path("source"),
        log=layout.logs / "source.log",
        others=layout.build.parent,
        release=release,
    )


def select_source_kind(source: Source) -> SourceKind:
    """Return the kind that is used if several are set."""
    if source.path:
        return "path"
    return "tarball" if source.tarball else "git"


def resolve_source_location(source: Source, kind: SourceKind, root: PurePath) -> str:
    """Return the URL unchanged, or a path made absolute, relative to the checkout."""
    match kind:
        case "path":
            return str(root / (source.path or ""))
        case "tarball":
            tarball = source.tarball or ""
            return tarball if "://" in tarball else str(root / tarball)
        case "git":
            return source.git or ""


def _build_source_fingerprint(job: SourceJob, source: Source) -> dict[str, Json]:
    inputs: dict[str, Json] = {
        "recipe": RECIPE,
        "kind": job.kind,
        "location": job.location,
        "submodules": job.submodules,
        "patches": convert_to_json(source.patches),
    }
    match job.kind:
        case "git":
            inputs["ref"] = job.ref
        case "tarball":
            inputs["sha256"] = job.sha256
        case "path":
            pass
    return inputs
