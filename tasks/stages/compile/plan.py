"""What is compiled, with which switches. Pure."""

from __future__ import annotations

from tasks.core.digest import plain
from tasks.core.model import Json, Layout, Stage
from tasks.core.resolution import Choice
from tasks.settings.build import Build
from tasks.settings.schema import Settings
from tasks.settings.workers import asked
from tasks.stages.compile.job import CompileJob

RECIPE = 2


def plan(settings: Settings, layout: Layout, choice: Choice) -> Stage:
    """The stage compile; how many jobs run at once is no input, since the outcome is the same."""
    job = _job(settings.build, layout)
    what = f"CMake target {job.target}" if job.target else "everything"
    return Stage(
        name="compile",
        room="compile",
        doc=f"compile PyTorch: {what}",
        job=job,
        inputs=_inputs(settings.build, choice),
        leaves=(layout.manifest("compile"),),
        reads=(job.source, job.deps, job.environment),
    )


def _job(build: Build, layout: Layout) -> CompileJob:
    return CompileJob(
        backend=build.backend,
        type=build.type,
        target=build.target,
        jobs=None if build.jobs == "auto" else build.jobs,
        build=layout.build / "compile",
        source=layout.manifest("source"),
        deps=layout.manifest("deps"),
        environment=layout.manifest("env"),
        knowledge=layout.config / "knowledge",
        runs=layout.build / "records" / "compile.jsonl",
        pool=layout.pool,
        cache=layout.manifest("cache"),
        manifest=layout.manifest("compile"),
        log=layout.logs / "compile.log",
        cache_remote=build.cache_remote or "",
        workers=asked(build.distribute, build.hosts, layout.build),
        jobs_exact=build.jobs_exact,
    )


def _inputs(build: Build, choice: Choice) -> dict[str, Json]:
    return {
        "recipe": RECIPE,
        "type": build.type,
        "flags": plain(build.flags),
        "env": plain(build.env),
        "target": build.target,
        "backend": build.backend,
        "archs": [str(arch) for arch in choice.targets],
    }
