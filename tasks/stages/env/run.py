"""Run the `env` stage: install the tree's requirements, resolve and write the environments."""

from dataclasses import replace
from itertools import groupby
from pathlib import Path, PurePath

from tasks.compiler_cache import distributed_compilation_io as distribute
from tasks.core.deps_model import CompilerCache, DepsManifest
from tasks.core.errors import TorchyardError
from tasks.stages.env.cache_launchers import build_cache_environment
from tasks.stages.env.environment_variables import (
    MAX_JOBS_REASON,
    resolve_environments,
    resolve_runtime_environment,
)
from tasks.stages.env.model import CacheEnvironment, Environment, EnvJob
from tasks.stages.source.model import SourceTree
from tasks.system import environments, files, manifests
from tasks.system.hardware import capacity
from tasks.system.jinja_templates import render_template
from tasks.system.package_installer import InstallOptions, PackageInstaller

_REQUIREMENT_FILES = ("requirements.txt", "requirements-build.txt")


def run(job: EnvJob) -> tuple[Environment, Environment, CacheEnvironment]:
    """Install the tree's requirements, write the scripts, and return the three manifests."""
    deps, cache, tree = _read_inputs(job)
    if job.distribute:
        distribute.write_wrapper_script(job.distribute)
    build_environment, extension = resolve_environments(job, deps, cache, tree)
    paths = [Path(tree, name) for name in _REQUIREMENT_FILES if tree]
    if requirement_files := tuple(path for path in paths if path.is_file()):
        options = InstallOptions(deps.toolkit.pins if deps.toolkit else (), files=requirement_files)
        installer = PackageInstaller(deps.python, environments.find_uv(), job.log)
        installer.install_requirements((), options, "install the tree's requirements")
    write_scripts(job, build_environment)
    write_wrappers(job, resolve_runtime_environment(job, deps))
    return build_environment, extension, build_cache_environment(job, deps, cache)


def preview_environment(job: EnvJob) -> Environment | None:
    """Return the environment of the build, or None if an earlier stage has not run yet."""
    try:
        deps, cache, tree = _read_inputs(job)
    except TorchyardError:
        return None
    return resolve_environments(job, deps, cache, tree)[0]


def _read_inputs(job: EnvJob) -> tuple[DepsManifest, CompilerCache, str]:
    """Return the input manifests, and the path of the PyTorch tree ("" if torch is not built)."""
    deps = manifests.read_manifest(job.deps, DepsManifest)
    cache = manifests.read_manifest(job.cache, CompilerCache)
    tree = manifests.read_manifest(job.source, SourceTree).tree if job.source else ""
    return deps, cache, tree


def write_scripts(job: EnvJob, environment: Environment) -> None:
    """Write the script env.* of each shell. The scripts always set MAX_JOBS."""
    if "MAX_JOBS" not in environment.set:
        environment = replace(
            environment,
            set={**environment.set, "MAX_JOBS": str(capacity.compute_safe_jobs())},
            unset=tuple(name for name in environment.unset if name != "MAX_JOBS"),
            why={**environment.why, "MAX_JOBS": MAX_JOBS_REASON},
        )
    for script in job.scripts:
        files.write_atomic(script, render_script(job, script, environment), 0o644)


def write_wrappers(job: EnvJob, environment: Environment) -> None:
    """Write the wrapper script run.* of each shell, and a symbolic link `run` to run.sh."""
    for script in job.wrappers:
        mode = 0o755 if script.suffix == ".sh" else 0o644
        files.write_atomic(script, render_script(job, script, environment), mode)
        if script.suffix == ".sh":
            files.replace_symlink(script.with_suffix(""), script.name)


def render_script(job: EnvJob, script: PurePath, environment: Environment) -> str:
    """Return the content of a script, with the byte order mark or line ends for the shell."""
    explicit_names = {*environment.set, *environment.unset}
    reasons = {name: environment.why.get(name, "") for name in environment.names}
    unset = sorted(environment.unset, key=lambda name: (reasons[name], name))
    plain = [text for pair in environment.set.items() for text in pair]
    texts = [*plain, *environment.defaults.values(), *reasons.values(), job.profile]
    folders = [folder for row in environment.prepend.values() for folder in row]
    values = {
        "profile": job.profile,
        "names": environment.names,
        "set": list(environment.set.items()),
        "defaults": [(n, v) for n, v in environment.defaults.items() if n not in explicit_names],
        "unset": [(reason, list(row)) for reason, row in groupby(unset, key=lambda n: reasons[n])],
        "prepend": list(environment.prepend.items()),
        "separator": environment.separator,
        "why": reasons,
        "ascii": "".join([*texts, *folders]).isascii(),
    }
    text = render_template(job.templates / f"{script.name}.j2", values)
    if script.suffix == ".ps1":
        # Windows PowerShell 5.1 reads a script as UTF-8 only with this byte order mark
        return "\ufeff" + text
    # goto and call of cmd find labels only with CRLF line ends
    return text.replace("\n", "\r\n") if script.suffix == ".bat" else text
