"""Plan the stage env, and check that each shell can assign every variable."""

from collections.abc import Mapping

from tasks.core import shell_quoting
from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import KnowledgeError, SettingsError, TorchyardError
from tasks.core.model import Json, Layout, Stage, System
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.knowledge.arch_lists import (
    format_cmake_archs,
    format_torch_archs,
)
from tasks.settings.compile_workers import build_distribution_settings
from tasks.settings.schema import Settings
from tasks.stages.env.cache_launchers import select_cache_settings
from tasks.stages.env.model import ArchLists, EnvJob

RECIPE = 4
_RESERVED_PREFIX = "_torchyard"  # of names under which the scripts save the old values


def plan(settings: Settings, layout: Layout, choice: Resolution, knowledge: Knowledge) -> Stage:
    """Return the stage that resolves the environment and writes its manifests and scripts.

    Raises `SettingsError` if torch cannot be built for the targets. The arch lists in build.env are
    checked by `tasks.planning.target_resolution`.
    """
    _require_writable_variables(settings, choice.system)
    is_windows, build = choice.system == "windows", layout.build
    blocking = {"CUDA_LAUNCH_BLOCKING": "1"} if settings.runtime.launch_blocking else {}
    # no sh script on Windows: sh programs there use another format of PATH
    shells = ("bat" if is_windows else "sh", "ps1")
    job = EnvJob(
        profile=layout.profile,
        system=choice.system,
        strategy=choice.strategy,
        cuda=choice.cuda,
        torch=choice.torch,
        targets=choice.targets,
        ptx=choice.ptx,
        arch_lists=_build_arch_lists(choice, knowledge),
        build_type=settings.build.type,
        blas=settings.build.blas,
        flags=settings.build.flags,
        variables=_normalize_names(settings.build.env, choice),
        runtime={**blocking, **_normalize_names(settings.runtime.env, choice)},
        caching=settings.build.cache,
        cache_size=settings.build.cache_size,
        distribute=_resolve_wrapper_script(settings, layout, choice),
        venv=layout.venv,
        deps=layout.compute_manifest_path("deps"),
        cache=layout.compute_manifest_path("cache"),
        source=layout.compute_manifest_path("source") if choice.strategy == "source" else None,
        scripts=tuple(build / f"env.{shell}" for shell in shells),
        wrappers=tuple(build / f"run.{shell}" for shell in shells),
        templates=layout.templates,
        log=layout.logs / "env.log",
    )
    return Stage(
        name="env",
        kind="env",
        doc="the build's variables: env.* sets them in a shell, run starts a program",
        job=job,
        fingerprint=_build_env_fingerprint(job),
        outputs=tuple(
            layout.compute_manifest_path(name) for name in ("env", "extension-env", "cache-env")
        ),
        inputs=tuple(path for path in (job.deps, job.cache, job.source) if path),
        # on Windows PATHEXT resolves `run` to run.bat
        extra_outputs=(*job.scripts, *job.wrappers, *(() if is_windows else (build / "run",))),
    )


def _require_writable_variables(settings: Settings, system: System) -> None:
    """Raise `SettingsError` with the key of the first variable that a shell cannot assign."""
    flags = {n: value for n, value in settings.build.flags.items() if isinstance(value, str)}
    sections = {
        "build.flags": flags,
        "build.env": settings.build.env,
        "runtime.env": settings.runtime.env,
    }
    for section, variables in sections.items():
        _require_distinct_names(section, variables, system)
        for name, value in variables.items():
            location = f"{section}.{name}"
            if name.lower().startswith(_RESERVED_PREFIX):
                raise SettingsError(
                    f"the environment scripts reserve variable names such as {name}",
                    location=location,
                    hint=f"choose a name that does not begin with {_RESERVED_PREFIX}",
                )
            try:
                _check_assignable(system, name, value)
            except TorchyardError as error:
                raise SettingsError(error.message, location=location, hint=error.hint) from error


def _check_assignable(system: System, name: str, value: str) -> None:
    if system == "windows":
        shell_quoting.format_cmd_assignment(name, value)
        shell_quoting.format_cmd_assignment(name, value, delayed=True)
    else:
        shell_quoting.format_posix_assignment(name, value)
    shell_quoting.format_powershell_assignment(name, value)


def _require_distinct_names(section: str, variables: Mapping[str, str], system: System) -> None:
    """Raise `SettingsError` for names that differ only by case on Windows, which ignores case."""
    seen: dict[str, str] = {}
    for name in variables if system == "windows" else ():
        if duplicate := seen.get(name.upper()):
            raise SettingsError(
                f"{duplicate} and {name} are the same variable on Windows",
                location=f"{section}.{name}",
                hint="remove one of them",
            )
        seen[name.upper()] = name


def _build_arch_lists(choice: Resolution, knowledge: Knowledge) -> ArchLists:
    targets, ptx, torch, key = choice.targets, choice.ptx, "", "target.ptx"
    if not targets:
        return ArchLists()
    try:
        cmake, key = format_cmake_archs(targets, ptx), "torch.version"
        if choice.strategy == "source":
            torch = format_torch_archs(knowledge, choice.torch, targets, ptx, cmake=True)
    except KnowledgeError as error:
        raise SettingsError(error.message, location=key, hint=error.hint) from error
    try:
        extensions = format_torch_archs(knowledge, choice.torch, targets, ptx)
    except KnowledgeError:
        # the stage of an extension reports this error. Here, the list is one that torch rejects:
        # with an empty list, a manual build would target the GPU of this machine
        extensions = ";".join(map(str, sorted(set(targets))))
    return ArchLists(torch, extensions, cmake)


def _build_env_fingerprint(job: EnvJob) -> dict[str, Json]:
    """Return the fingerprint of the stage; build.flags and build.env count if torch is built."""
    names = ["system", "strategy", "cuda", "torch", "venv", "ptx", "arch_lists", "runtime"]
    if job.strategy == "source":
        names += ["build_type", "blas", "flags", "variables"]
    names += ["distribute"] * bool(job.distribute)
    settings = convert_to_json(select_cache_settings(job.variables))
    return {
        "recipe": RECIPE,
        "targets": [str(arch) for arch in job.targets],
        "cache": [job.caching, job.cache_size, settings],
        **{n: convert_to_json(getattr(job, n)) for n in names},
    }


def _resolve_wrapper_script(settings: Settings, layout: Layout, choice: Resolution) -> str:
    """Return the path of the wrapper script for distributed compilation, or "" without it."""
    kind = settings.build.distribute
    if kind != "off" and choice.system == "windows":
        raise SettingsError(
            f"{kind} cannot distribute compilations from Windows",
            location="build.distribute",
            hint="set build.distribute: off",
        )
    return build_distribution_settings(kind, settings.build.hosts, layout.build).script


def _normalize_names(variables: Mapping[str, str], choice: Resolution) -> dict[str, str]:
    """Return the variables, with upper-case names on Windows, where case is ignored."""
    if choice.system != "windows":
        return dict(variables)
    return {name.upper(): value for name, value in variables.items()}
