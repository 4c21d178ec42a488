"""Settings, choice and knowledge → the env stage. Pure."""

from __future__ import annotations

from pathlib import PurePath

from tasks.choice import Choice
from tasks.digest import plain
from tasks.errors import KnowledgeError, SettingsError
from tasks.knowledge import Knowledge
from tasks.knowledge.grammar import cmake_architectures, for_extension, for_torch_cmake
from tasks.model import Json, Layout, Stage
from tasks.settings.schema import Settings
from tasks.stages.env.job import ArchLists, EnvJob
from tasks.stages.env.launchers import of_caches

RECIPE = 2


def plan(settings: Settings, layout: Layout, choice: Choice, knowledge: Knowledge) -> Stage:
    """The stage that resolves the environment and writes it down for people, too.

    Raises `SettingsError` where a torch that is to be built cannot be built for the targets. The
    arch lists of build.env are judged by `decide_grammar`.
    """
    job = EnvJob(
        profile=layout.profile,
        system=choice.system,
        strategy=choice.strategy,
        cuda=choice.cuda,
        torch=choice.torch,
        targets=choice.targets,
        ptx=choice.ptx,
        arch_lists=_arch_lists(choice, knowledge),
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


def _arch_lists(choice: Choice, knowledge: Knowledge) -> ArchLists:
    if not choice.targets:
        return ArchLists()
    try:
        cmake = cmake_architectures(choice.targets, choice.ptx)
    except KnowledgeError as error:
        raise SettingsError(error.what, where="target.ptx", todo=error.todo) from error
    return ArchLists(_torch_list(choice, knowledge), _extension_list(choice, knowledge), cmake)


def _torch_list(choice: Choice, knowledge: Knowledge) -> str:
    if choice.strategy != "source":
        return ""
    try:
        return for_torch_cmake(knowledge, choice.torch, choice.targets, choice.ptx)
    except KnowledgeError as error:
        raise SettingsError(error.what, where="torch.version", todo=error.todo) from error


def _extension_list(choice: Choice, knowledge: Knowledge) -> str:
    """Where this torch builds no extensions for the targets, a list that it refuses aloud.

    The stage of an extension says so sooner. Without a list, what a person builds by hand would be
    for whatever card is there.
    """
    try:
        return for_extension(knowledge, choice.torch, choice.targets, choice.ptx)
    except KnowledgeError:
        return ";".join(map(str, sorted(set(choice.targets))))


def _inputs(job: EnvJob) -> dict[str, Json]:
    """What is compiled with. Flags and variables count only where torch itself is built."""
    names = ["system", "strategy", "cuda", "torch", "venv", "ptx", "arch_lists"]
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
