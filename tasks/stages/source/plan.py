"""Which tree is meant: the most local of path, tarball and git. Pure."""

from __future__ import annotations

from pathlib import PurePath

from tasks.core.digest import plain
from tasks.core.model import Json, Layout, Stage
from tasks.core.resolution import Choice
from tasks.settings.schema import Settings, Source
from tasks.stages.source.job import Kind, SourceJob

RECIPE = 1


def plan(settings: Settings, layout: Layout, choice: Choice) -> Stage:
    """The stage source; mirrors are no input, since they do not change what the tree is."""
    job = _job(settings.source, layout, choice.torch)
    return Stage(
        name="source",
        room="source",
        doc="PyTorch's own tree, as it is now",
        job=job,
        inputs=_inputs(job, settings.source),
        leaves=(layout.manifest("source"),),
        asks="always",
    )


def _job(source: Source, layout: Layout, release: str) -> SourceJob:
    kind = kind_of(source)
    state = layout.build / "src"
    location = location_of(source, kind, layout.root)
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
        manifest=layout.manifest("source"),
        log=layout.logs / "source.log",
        others=layout.build.parent,
        release=release,
    )


def kind_of(source: Source) -> Kind:
    """The kind that is used when several are set."""
    if source.path:
        return "path"
    return "tarball" if source.tarball else "git"


def location_of(source: Source, kind: Kind, root: PurePath) -> str:
    """The URL as it is, or a path made absolute, taken from the checkout."""
    match kind:
        case "path":
            return str(root / (source.path or ""))
        case "tarball":
            tarball = source.tarball or ""
            return tarball if "://" in tarball else str(root / tarball)
        case "git":
            return source.git or ""


def _inputs(job: SourceJob, source: Source) -> dict[str, Json]:
    inputs: dict[str, Json] = {
        "recipe": RECIPE,
        "kind": job.kind,
        "location": job.location,
        "submodules": job.submodules,
        "patches": plain(source.patches),
    }
    match job.kind:
        case "git":
            inputs["ref"] = job.ref
        case "tarball":
            inputs["sha256"] = job.sha256
        case "path":
            pass
    return inputs
