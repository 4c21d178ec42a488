"""Plan the `env` stage, and check that each shell can assign every variable."""

from collections.abc import Mapping

from tasks.core import shell_quoting
from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import KnowledgeError, SettingsError, TorchyardError
from tasks.core.model import Layout, Stage, System
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge, arch_lists
from tasks.settings.compile_workers import build_distribution_settings
from tasks.settings.schema import Settings
from tasks.stages.env.cache_launchers import select_cache_settings
from tasks.stages.env.model import ArchLists, EnvJob

RECIPE = 4
_RESERVED_PREFIX = "_torchyard"  # the scripts save old values in variables with this prefix


def plan(settings: Settings, layout: Layout, choice: Resolution, knowledge: Knowledge) -> Stage:
    """Return the `env` stage. Raises `SettingsError` if torch cannot be built for the targets."""
    _require_writable_variables(settings, choice.system)
    is_windows, build = choice.system == "windows", layout.build
    distributor = settings.build.distribute
    if distributor != "off" and is_windows:
        raise SettingsError(
            f"{distributor} cannot distribute compilations from Windows",
            location="build.distribute",
            hint="set build.distribute: off",
        )
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
        distribute=build_distribution_settings(distributor, settings.build.hosts, build).script,
        venv=layout.venv,
        deps=layout.compute_manifest_path("deps"),
        cache=layout.compute_manifest_path("cache"),
        source=layout.compute_manifest_path("source") if choice.strategy == "source" else None,
        scripts=tuple(build / f"env.{shell}" for shell in shells),
        wrappers=tuple(build / f"run.{shell}" for shell in shells),
        templates=layout.project.templates,
        log=layout.logs / "env.log",
    )
    names = ["system", "strategy", "cuda", "torch", "venv", "ptx", "arch_lists", "runtime"]
    if job.strategy == "source":
        names += ["build_type", "blas", "flags", "variables"]
    names += ["distribute"] * bool(job.distribute)
    cache_settings = convert_to_json(select_cache_settings(job.variables))
    return Stage(
        name="env",
        kind="env",
        doc="the build's variables: env.* sets them in a shell, run starts a program",
        job=job,
        fingerprint={
            "recipe": RECIPE,
            "targets": [str(arch) for arch in job.targets],
            "cache": [job.caching, job.cache_size, cache_settings],
            **{name: convert_to_json(getattr(job, name)) for name in names},
        },
        outputs=tuple(
            layout.compute_manifest_path(name) for name in ("env", "extension-env", "cache-env")
        ),
        inputs=tuple(path for path in (job.deps, job.cache, job.source) if path),
        # on Windows PATHEXT resolves `run` to run.bat
        extra_outputs=(*job.scripts, *job.wrappers, *(() if is_windows else (build / "run",))),
    )


def _require_writable_variables(settings: Settings, system: System) -> None:
    """Raise `SettingsError` for a variable that is set twice or that a shell cannot assign."""
    flags = {n: value for n, value in settings.build.flags.items() if isinstance(value, str)}
    sections = {
        "build.flags": flags,
        "build.env": settings.build.env,
        "runtime.env": settings.runtime.env,
    }
    for section, variables in sections.items():
        seen: dict[str, str] = {}
        for name, value in variables.items():
            location = f"{section}.{name}"
            if (other := seen.setdefault(name.upper(), name)) != name and system == "windows":
                message = f"{other} and {name} are the same variable on Windows"
                raise SettingsError(message, location=location, hint="remove one of them")
            try:
                _require_assignable(system, name, value)
            except TorchyardError as error:
                raise SettingsError(error.message, location=location, hint=error.hint) from error


def _require_assignable(system: System, name: str, value: str) -> None:
    if name.lower().startswith(_RESERVED_PREFIX):
        raise TorchyardError(
            f"the environment scripts reserve variable names such as {name}",
            hint=f"choose a name that does not begin with {_RESERVED_PREFIX}",
        )
    if system == "windows":
        shell_quoting.format_cmd_assignment(name, value)
        shell_quoting.format_cmd_assignment(name, value, delayed=True)
    else:
        shell_quoting.format_posix_assignment(name, value)
    shell_quoting.format_powershell_assignment(name, value)


def _build_arch_lists(choice: Resolution, knowledge: Knowledge) -> ArchLists:
    targets, ptx, torch, key = choice.targets, choice.ptx, "", "target.ptx"
    if not targets:
        return ArchLists()
    try:
        cmake, key = arch_lists.format_cmake_archs(targets, ptx), "torch.version"
        if choice.strategy == "source":
            torch = arch_lists.format_torch_archs(knowledge, choice.torch, targets, ptx, cmake=True)
    except KnowledgeError as error:
        raise SettingsError(error.message, location=key, hint=error.hint) from error
    try:
        extensions = arch_lists.format_torch_archs(knowledge, choice.torch, targets, ptx)
    except KnowledgeError:
        # the stage of an extension reports this error. Write a list that torch rejects: with an
        # empty list, a manual build would target the GPU of this machine
        extensions = ";".join(map(str, sorted(set(targets))))
    return ArchLists(torch, extensions, cmake)


def _normalize_names(variables: Mapping[str, str], choice: Resolution) -> dict[str, str]:
    """Return the variables, with upper-case names on Windows, where case is ignored."""
    is_windows = choice.system == "windows"
    return {name.upper() if is_windows else name: value for name, value in variables.items()}
