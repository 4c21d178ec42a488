"""Plan the `compile` stage."""

from tasks.core.canonical_json import convert_to_json
from tasks.core.model import Layout, Stage
from tasks.core.resolution import Resolution
from tasks.settings.compile_workers import build_distribution_settings
from tasks.settings.schema import Settings
from tasks.stages.compile.model import CompileJob

RECIPE = 2


def plan(settings: Settings, layout: Layout, choice: Resolution) -> Stage:
    """Return the `compile` stage. The number of jobs is not in the fingerprint of the stage."""
    build = settings.build
    job = CompileJob(
        layout=layout,
        backend=build.backend,
        type=build.type,
        target=build.target,
        jobs=None if build.jobs == "auto" else build.jobs,
        build=layout.build / "compile",
        runs=layout.build / "records" / "compile.jsonl",
        log=layout.logs / "compile.log",
        cache_remote=build.cache_remote or "",
        workers=build_distribution_settings(build.distribute, build.hosts, layout.build),
        jobs_exact=build.jobs_exact,
    )
    return Stage(
        name="compile",
        kind="compile",
        doc=f"compile PyTorch: {f'CMake target {job.target}' if job.target else 'everything'}",
        job=job,
        fingerprint={
            "recipe": RECIPE,
            "type": build.type,
            "flags": convert_to_json(build.flags),
            "env": convert_to_json(build.env),
            "target": build.target,
            "backend": build.backend,
            "archs": [str(arch) for arch in choice.targets],
        },
        outputs=(layout.compute_manifest_path("compile"),),
        inputs=tuple(map(layout.compute_manifest_path, ("source", "deps", "env"))),
    )
