"""Settings and choice → the env stage. Pure."""

from __future__ import annotations

from pathlib import PurePath

from tasks.choice import Choice
from tasks.digest import plain
from tasks.model import Json, Layout, Stage
from tasks.settings.schema import Settings
from tasks.stages.env.job import EnvJob
from tasks.stages.env.launchers import of_caches

RECIPE = 2


def plan(settings: Settings, layout: Layout, choice: Choice) -> Stage:
    """The stage that resolves the environment and writes it down for people, too."""
    job = EnvJob(
        profile=layout.profile,
        system=choice.system,
        strategy=choice.strategy,
        cuda=choice.cuda,
        torch=choice.torch,
        targets=choice.targets,
        ptx=choice.ptx,
        build_type=settings.build.type,
        blas=settings.build.blas,
        flags=settings.build.flags,
        variables=settings.build.env,
        caching=settings.build.cache,
        cache_size=settings.build.cache_size,
        venv=layout.venv,
        deps=layout.manifest("deps"),
        cache=layout.manifest("cache"),
        source=layout.manifest("source") if choice.strategy == "source" else None,
        scripts=_scripts(layout, choice),
        templates=layout.templates,
        log=layout.logs / "env.log",
    )
    return Stage(
        name="env",
        room="env",
        doc="resolve the build environment; env.sh and env.ps1 give it to a shell",
        job=job,
        inputs={"recipe": RECIPE, **_inputs(job)},
        leaves=tuple(layout.manifest(name) for name in ("env", "extension-env", "cache-env")),
        reads=tuple(path for path in (job.deps, job.cache, job.source) if path),
        also=job.scripts,
    )


def _inputs(job: EnvJob) -> dict[str, Json]:
    """What is compiled with. Flags and variables count only where torch itself is built."""
    names = ["system", "strategy", "cuda", "torch", "venv", "ptx"]
    if job.strategy == "source":
        names += ["build_type", "blas", "flags", "variables"]
    return {
        "targets": [str(arch) for arch in job.targets],
        "cache": [job.caching, job.cache_size, plain(of_caches(job.variables))],
        **{n: plain(getattr(job, n)) for n in names},
    }


def _scripts(layout: Layout, choice: Choice) -> tuple[PurePath, ...]:
    """Windows gets no env.sh: its shells that read one hold PATH in another form."""
    names = ("env.ps1",) if choice.system == "windows" else ("env.sh", "env.ps1")
    return tuple(layout.build / name for name in names)
