"""Plan the `source` stage from the first of source.path, source.tarball, source.git that is set."""

from tasks.core.canonical_json import convert_to_json
from tasks.core.model import Json, Layout, Stage
from tasks.core.resolution import Resolution
from tasks.settings.schema import Settings
from tasks.stages.source.model import SourceJob, SourceKind

RECIPE = 1


def plan(settings: Settings, layout: Layout, choice: Resolution) -> Stage:
    """Return the `source` stage. Its fingerprint does not depend on mirrors."""
    source, state = settings.source, layout.build / "src"
    kind: SourceKind = "path" if source.path else "tarball" if source.tarball else "git"
    location = source.path or source.tarball or source.git or ""
    if kind == "path" or (kind == "tarball" and "://" not in location):
        location = str(layout.root / location)
    job = SourceJob(
        kind=kind,
        location=location,
        ref=f"v{choice.torch}" if source.ref == "auto" else source.ref,
        submodules=source.submodules,
        sha256=source.sha256,
        patches=tuple(layout.root / patch for patch in source.patches),
        mirrors=source.mirrors,
        tree=layout.root / location if kind == "path" else state / "pytorch",
        state=state,
        manifest=layout.compute_manifest_path("source"),
        log=layout.logs / "source.log",
        others=layout.build.parent,
        cache=layout.project.cache,
        release=choice.torch,
    )
    kind_inputs: dict[str, Json] = {}
    if kind != "path":
        kind_inputs = {"ref": job.ref} if kind == "git" else {"sha256": job.sha256}
    return Stage(
        name="source",
        kind="source",
        doc="PyTorch's source tree in its current state",
        job=job,
        fingerprint={
            "recipe": RECIPE,
            "kind": job.kind,
            "location": job.location,
            "submodules": job.submodules,
            "patches": convert_to_json(source.patches),
            **kind_inputs,
        },
        outputs=(job.manifest,),
        uptodate_check="always",
    )
