"""Plan the stage env, and check that every variable can be written in the shells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from tasks.core import shell_quoting
from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import KnowledgeError, SettingsError, TorchyardError
from tasks.core.model import Json, Layout, Stage, System
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.knowledge.arch_lists import (
    format_cmake_archs,
    format_extension_archs,
    format_torch_cmake_archs,
)
from tasks.settings.compile_workers import build_distribution_settings
from tasks.settings.schema import Settings
from tasks.stages.env.cache_launchers import select_cache_settings
from tasks.stages.env.model import ArchLists, EnvJob


def require_writable_variables(settings: Settings, system: System) -> None:
    """Raise `SettingsError`, with the key, for the first variable that a shell cannot assign.

    The shells are those of `system`.
    """
    for section, variables in _list_user_variables(settings):
        _require_distinct_names(section, variables, system)
        _require_unreserved_names(section, variables)
        for name, value in variables.items():
            try:
                _check_assignable(system, name, value)
            except TorchyardError as error:
                key = f"{section}.{name}"
                raise SettingsError(error.message, location=key, hint=error.hint) from error


def _list_user_variables(settings: Settings) -> Iterator[tuple[str, Mapping[str, str]]]:
    flags = settings.build.flags.items()
    yield "build.flags", {name: value for name, value in flags if isinstance(value, str)}
    yield "build.env", settings.build.env
    yield "runtime.env", settings.runtime.env


def _require_unreserved_names(section: str, variables: Mapping[str, str]) -> None:
    """Reject names that the scripts use to save the variables they change."""
    for name in variables:
        if name.lower().startswith("_torchyard"):
            raise SettingsError(
                f"{name} is a name that the environment scripts use for themselves",
                location=f"{section}.{name}",
                hint="choose one that does not begin with _torchyard",
            )


def _check_assignable(system: System, name: str, value: str) -> None:
    if system == "windows":
        shell_quoting.format_cmd_assignment(name, value)
        shell_quoting.format_cmd_assignment(name, value, delayed=True)
    else:
        shell_quoting.format_posix_assignment(name, value)
    shell_quoting.format_powershell_assignment(name, value)


def _require_distinct_names(section: str, variables: Mapping[str, str], system: System) -> None:
    """Reject names that differ only by case: Windows treats them as one variable."""
    seen: dict[str, str] = {}
    for name in variables if system == "windows" else ():
        if duplicate := seen.get(name.upper()):
            raise SettingsError(
                f"{duplicate} and {name} are one variable on Windows",
                location=f"{section}.{name}",
                hint="take one of them out",
            )
        seen[name.upper()] = name


RECIPE = 4


def plan(settings: Settings, layout: Layout, choice: Resolution, knowledge: Knowledge) -> Stage:
    """Return the stage that resolves the environment and writes its manifests and scripts.

    Raises `SettingsError` if torch cannot be built for the targets. The arch lists in build.env are
    checked by `tasks.planning.target_resolution`.
    """
    require_writable_variables(settings, choice.system)
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
        runtime=_build_runtime_variables(settings, choice),
        caching=settings.build.cache,
        cache_size=settings.build.cache_size,
        distribute=_resolve_wrapper_script(settings, layout, choice),
        venv=layout.venv,
        deps=layout.compute_manifest_path("deps"),
        cache=layout.compute_manifest_path("cache"),
        source=layout.compute_manifest_path("source") if choice.strategy == "source" else None,
        scripts=_list_script_files(layout, choice, "env"),
        wrappers=_list_script_files(layout, choice, "run"),
        templates=layout.templates,
        log=layout.logs / "env.log",
    )
    return Stage(
        name="env",
        kind="env",
        doc="the build's variables: env.* sets them in a shell, run starts a program",
        job=job,
        fingerprint={"recipe": RECIPE, **_build_env_fingerprint(job)},
        outputs=tuple(
            layout.compute_manifest_path(name) for name in ("env", "extension-env", "cache-env")
        ),
        inputs=tuple(path for path in (job.deps, job.cache, job.source) if path),
        extra_outputs=(*job.scripts, *job.wrappers, *_list_run_command(layout, choice)),
    )


def _build_arch_lists(choice: Resolution, knowledge: Knowledge) -> ArchLists:
    if not choice.targets:
        return ArchLists()
    try:
        cmake = format_cmake_archs(choice.targets, choice.ptx)
    except KnowledgeError as error:
        raise SettingsError(error.message, location="target.ptx", hint=error.hint) from error
    return ArchLists(
        _format_torch_archs(choice, knowledge), _format_extension_archs(choice, knowledge), cmake
    )


def _format_torch_archs(choice: Resolution, knowledge: Knowledge) -> str:
    if choice.strategy != "source":
        return ""
    try:
        return format_torch_cmake_archs(knowledge, choice.torch, choice.targets, choice.ptx)
    except KnowledgeError as error:
        raise SettingsError(error.message, location="torch.version", hint=error.hint) from error


def _format_extension_archs(choice: Resolution, knowledge: Knowledge) -> str:
    """Return the arch list for extensions.

    If this torch cannot build extensions for the targets, the list is one that it rejects with an
    error. The stage of an extension reports that earlier. With an empty list, a manual build would
    be for whatever card is present.
    """
    try:
        return format_extension_archs(knowledge, choice.torch, choice.targets, choice.ptx)
    except KnowledgeError:
        return ";".join(map(str, sorted(set(choice.targets))))


def _build_env_fingerprint(job: EnvJob) -> dict[str, Json]:
    """Return the fingerprint: values for compilations and for running programs.

    The runtime values affect no other stage. Flags and variables are included only if torch is
    built.
    """
    names = ["system", "strategy", "cuda", "torch", "venv", "ptx", "arch_lists", "runtime"]
    if job.strategy == "source":
        names += ["build_type", "blas", "flags", "variables"]
    names += ["distribute"] * bool(job.distribute)
    return {
        "targets": [str(arch) for arch in job.targets],
        "cache": [
            job.caching,
            job.cache_size,
            convert_to_json(select_cache_settings(job.variables)),
        ],
        **{n: convert_to_json(getattr(job, n)) for n in names},
    }


def _resolve_wrapper_script(settings: Settings, layout: Layout, choice: Resolution) -> str:
    """Return the path of the compiler wrapper script, "" if nothing is distributed."""
    kind = settings.build.distribute
    if kind != "off" and choice.system == "windows":
        raise SettingsError(
            f"{kind} hands nothing on from Windows",
            location="build.distribute",
            hint="set build.distribute: off",
        )
    return build_distribution_settings(kind, settings.build.hosts, layout.build).script


def _build_runtime_variables(settings: Settings, choice: Resolution) -> dict[str, str]:
    blocking = {"CUDA_LAUNCH_BLOCKING": "1"} if settings.runtime.launch_blocking else {}
    return {**blocking, **_normalize_names(settings.runtime.env, choice)}


def _normalize_names(variables: Mapping[str, str], choice: Resolution) -> dict[str, str]:
    """Return the variables with upper-case names on Windows, which ignores case."""
    windows = choice.system == "windows"
    return {name.upper() if windows else name: value for name, value in variables.items()}


def _list_script_files(layout: Layout, choice: Resolution, stem: str) -> tuple[PurePath, ...]:
    """Return the script files; no sh on Windows, whose sh programs use another format of PATH."""
    shell = "bat" if choice.system == "windows" else "sh"
    return tuple(layout.build / f"{stem}.{kind}" for kind in (shell, "ps1"))


def _list_run_command(layout: Layout, choice: Resolution) -> tuple[PurePath, ...]:
    """Return the link `run`; on Windows PATHEXT resolves `run` to run.bat."""
    return () if choice.system == "windows" else (layout.build / "run",)
