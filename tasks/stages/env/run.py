"""Install what the tree asks for, resolve the environments, and have them written down."""

from __future__ import annotations

from pathlib import Path

from tasks.compiler_cache import distributed_compilation_io as distribute
from tasks.core.deps_model import CompilerCache, DepsManifest
from tasks.core.errors import TorchyardError
from tasks.stages.env.cache_launchers import build_cache_environment
from tasks.stages.env.environment_scripts_io import write_scripts, write_wrappers
from tasks.stages.env.environment_variables import resolve_environments, resolve_runtime_environment
from tasks.stages.env.model import CacheEnvironment, Environment, EnvJob
from tasks.stages.source.model import SourceTree
from tasks.system import environments, manifests
from tasks.system.package_installer import InstallOptions, PackageInstaller

_REQUIREMENT_FILES = ("requirements.txt", "requirements-build.txt")


def run(job: EnvJob) -> tuple[Environment, Environment, CacheEnvironment]:
    """The environment of source builds, that of extensions, and what caches their compilers; the
    scripts hold the first, and the wrappers that of programs that run.
    """
    deps, cache = (
        manifests.read_manifest(job.deps, DepsManifest),
        manifests.read_manifest(job.cache, CompilerCache),
    )
    tree = manifests.read_manifest(job.source, SourceTree).tree if job.source else ""
    if job.distribute:
        distribute.write_wrapper_script(job.distribute)
    full, extension = resolve_environments(job, deps, cache, tree)
    if tree:
        _install_requirements(job, deps, Path(tree))
    write_scripts(job, full)
    write_wrappers(job, resolve_runtime_environment(job, deps))
    return full, extension, build_cache_environment(job, deps, cache)


def _install_requirements(job: EnvJob, deps: DepsManifest, tree: Path) -> None:
    wanted = [path for name in _REQUIREMENT_FILES if (path := tree / name).is_file()]
    if not wanted:
        return
    pins = deps.toolkit.pins if deps.toolkit else ()
    into = PackageInstaller(deps.python, environments.find_uv(), job.log)
    into.install_requirements(
        (), InstallOptions(pins, files=tuple(wanted)), "install the tree's requirements"
    )


def preview_environment(job: EnvJob) -> Environment | None:
    """That of source builds; None where the stages before have not run yet."""
    try:
        deps, cache = (
            manifests.read_manifest(job.deps, DepsManifest),
            manifests.read_manifest(job.cache, CompilerCache),
        )
        tree = manifests.read_manifest(job.source, SourceTree).tree if job.source else ""
    except TorchyardError:
        return None
    return resolve_environments(job, deps, cache, tree)[0]
