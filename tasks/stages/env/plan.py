"""Settings, choice and knowledge → the env stage. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from tasks.core.digest import plain
from tasks.core.errors import KnowledgeError, SettingsError
from tasks.core.model import Json, Layout, Stage
from tasks.core.resolution import Choice
from tasks.knowledge import Knowledge
from tasks.knowledge.grammar import cmake_architectures, for_extension, for_torch_cmake
from tasks.settings.schema import Settings
from tasks.settings.workers import asked
from tasks.stages.env.job import ArchLists, EnvJob
from tasks.stages.env.launchers import of_caches
from tasks.stages.env.writable import require_writable

RECIPE = 4


def plan(settings: Settings, layout: Layout, choice: Choice, knowledge: Knowledge) -> Stage:
    """The stage that resolves the environment and writes it down for people, too.

    Raises `SettingsError` where a torch that is to be built cannot be built for the targets. The
    arch lists of build.env are judged by `tasks.planning.grammar`.
    """
    require_writable(settings, choice.system)
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
        variables=_named(settings.build.env, choice),
        runtime=_runtime(settings, choice),
        caching=settings.build.cache,
        cache_size=settings.build.cache_size,
        distribute=_distribute(settings, layout, choice),
        venv=layout.venv,
        deps=layout.manifest("deps"),
        cache=layout.manifest("cache"),
        source=layout.manifest("source") if choice.strategy == "source" else None,
        scripts=_files(layout, choice, "env"),
        wrappers=_files(layout, choice, "run"),
        templates=layout.templates,
        log=layout.logs / "env.log",
    )
    return Stage(
        name="env",
        room="env",
        doc="the build's variables: env.* sets them in a shell, run starts a program",
        job=job,
        inputs={"recipe": RECIPE, **_inputs(job)},
        leaves=tuple(layout.manifest(name) for name in ("env", "extension-env", "cache-env")),
        reads=tuple(path for path in (job.deps, job.cache, job.source) if path),
        also=(*job.scripts, *job.wrappers, *_command(layout, choice)),
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
    """What is compiled with, and what programs run with, which reaches no other stage. Flags and
    variables count only where torch itself is built.
    """
    names = ["system", "strategy", "cuda", "torch", "venv", "ptx", "arch_lists", "runtime"]
    if job.strategy == "source":
        names += ["build_type", "blas", "flags", "variables"]
    names += ["distribute"] * bool(job.distribute)
    return {
        "targets": [str(arch) for arch in job.targets],
        "cache": [job.caching, job.cache_size, plain(of_caches(job.variables))],
        **{n: plain(getattr(job, n)) for n in names},
    }


def _distribute(settings: Settings, layout: Layout, choice: Choice) -> str:
    """Return the path of the compiler wrapper script, "" if nothing is distributed."""
    kind = settings.build.distribute
    if kind != "off" and choice.system == "windows":
        raise SettingsError(
            f"{kind} hands nothing on from Windows",
            where="build.distribute",
            todo="set build.distribute: off",
        )
    return asked(kind, settings.build.hosts, layout.build).script


def _runtime(settings: Settings, choice: Choice) -> dict[str, str]:
    blocking = {"CUDA_LAUNCH_BLOCKING": "1"} if settings.runtime.launch_blocking else {}
    return {**blocking, **_named(settings.runtime.env, choice)}


def _named(variables: Mapping[str, str], choice: Choice) -> dict[str, str]:
    """On Windows names are compared without case; Python has them in capitals."""
    windows = choice.system == "windows"
    return {name.upper() if windows else name: value for name, value in variables.items()}


def _files(layout: Layout, choice: Choice, stem: str) -> tuple[PurePath, ...]:
    """Windows gets none for sh: its shells that read one hold PATH in another form."""
    shell = "bat" if choice.system == "windows" else "sh"
    return tuple(layout.build / f"{stem}.{kind}" for kind in (shell, "ps1"))


def _command(layout: Layout, choice: Choice) -> tuple[PurePath, ...]:
    """`run`, which on Windows PATHEXT makes of run.bat."""
    return () if choice.system == "windows" else (layout.build / "run",)
