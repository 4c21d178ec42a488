"""An extension's wheel, into the environment of its torch: what it asks for first, then tried, then
installed. One at a time: an environment has one hand at work in it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError, TorchyardError
from tasks.core.model import Artifact, Command
from tasks.stages.extensions.extension_environment_io import (
    format_forced_header,
    locate_build_requirements,
    locate_forced_header,
    read_extension_environment,
)
from tasks.stages.extensions.model import ExtensionJob
from tasks.system import environments, files
from tasks.system.output import print_line, print_warning, show_progress
from tasks.system.package_installer import InstallOptions, PackageInstaller
from tasks.wheels import wheel_requirements_io, wheelhouse_io

_MANAGED_PACKAGES = {
    "torch",
    "triton",
}  # these come from this build, and are never fetched for an extension


def install_build_requirements(job: ExtensionJob, deps: DepsManifest) -> None:
    """What its build imports (`requires`), in a folder of its own that goes before all else: others
    are built at the same time, and may want another version. Raises `FetchError` and the like:
    without it nothing can be built.
    """
    files.create_owned_folder(job.work)
    if job.includes:
        files.write_atomic(locate_forced_header(job), format_forced_header(job.includes))
    folder = locate_build_requirements(job)
    files.remove_owned(folder)
    overlay = PurePath(deps.overlay) if deps.overlay else None
    missing = _find_missing(job.requires, deps, overlay)
    if not missing:
        return
    show_progress(f"installing {', '.join(missing)}")
    into = PackageInstaller(deps.python, environments.find_uv(), job.log, folder)
    into.install_locked(job.locked_requires)
    pins = deps.toolkit.pins if deps.toolkit else ()
    options = () if job.isolated else ("--no-build-isolation",)
    into.install_requirements(
        missing,
        InstallOptions(pins, options=options),
        f"install what the build of {job.name} imports",
    )
    if (folder / "torch").exists():
        files.remove_owned(folder)
        raise TorchyardError(
            f"{', '.join(missing)} brings a torch, which {job.name} would be built against",
            location=f"extensions ({job.name}).requires",
            hint="take it out of requires; what is built against this torch goes into extensions "
            "or companions, and into after",
        )


def install_runtime_requirements(
    job: ExtensionJob, deps: DepsManifest, asked: Iterable[str]
) -> None:
    """What its metadata asks for: nothing into a person's own environment, which is told."""
    if deps.overlay is None:
        PackageInstaller(deps.python, environments.find_uv(), job.log).install_locked(job.locked)
    missing = _find_missing(asked, deps, None)
    if not missing:
        return
    named = ", ".join(missing)
    if deps.overlay is not None:
        print_warning(f"{job.name} asks for {named}, which {deps.python} lacks")
        return
    show_progress(f"installing {named}")
    into = PackageInstaller(deps.python, environments.find_uv(), job.log)
    try:
        into.install_requirements(
            missing, _pin_installed(deps), f"install what {job.name} asks for"
        )
    except TorchyardError as error:  # an old pin perhaps, without which it works
        print_warning(f"{job.name} asks for {named}, which was not to be had: {error.message}")


def _find_missing(
    asked: Iterable[str], deps: DepsManifest, beside: PurePath | None
) -> tuple[str, ...]:
    others = tuple(_exclude_managed(asked))
    have = wheel_requirements_io.list_installed_packages(deps.python, beside) if others else {}
    return wheel_requirements_io.find_missing_requirements(others, have)


def _exclude_managed(asked: Iterable[str]) -> Iterator[str]:
    return (
        one for one in asked if canonicalize_name(Requirement(one).name) not in _MANAGED_PACKAGES
    )


def _pin_installed(deps: DepsManifest) -> InstallOptions:
    """Nothing that is there moves: torch, the toolkit, and what another is just built with."""
    have = wheel_requirements_io.list_installed_packages(deps.python)
    return InstallOptions(tuple(f"{name}=={version}" for name, version in sorted(have.items())))


_INSTALL_LOCK = threading.Lock()


def prepare_build(job: ExtensionJob, deps: DepsManifest) -> None:
    """What its build imports."""
    with _INSTALL_LOCK:
        install_build_requirements(job, deps)


def install_extension(
    job: ExtensionJob, deps: DepsManifest, wheel: Path, unpacked: Path
) -> Artifact:
    """Keep it and install it where it imports. `BadArtifactError` where it does not: the one that
    was there before is there still.
    """
    into = PackageInstaller(deps.python, environments.find_uv(), job.log)
    with _INSTALL_LOCK:
        install_runtime_requirements(
            job, deps, wheel_requirements_io.read_wheel_requirements(wheel, deps.python_version)
        )
        _require_import(job, deps, unpacked)
        show_progress("installing")
        kept, artifact = wheelhouse_io.store_wheel(wheel, job.wheelhouse, job.name, job.location)
        into.install_wheel(kept, InstallOptions(options=("--no-deps",)))
    return artifact


def _require_import(job: ExtensionJob, deps: DepsManifest, unpacked: Path) -> None:
    """Its modules, from the wheel itself, before it takes the place of one that works."""
    if not job.imports:
        return
    show_progress(f"importing {', '.join(job.imports)}")
    env = dict(read_extension_environment(job))
    folders = [unpacked, *unpacked.glob("*.data/p*lib")]
    before = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
    env["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *before])
    command = Command((), env, f"import {job.name}", cwd=unpacked, log=job.log)
    # torch first: its libraries are found by nobody else
    found = environments.try_import(deps.python, f"import torch, {', '.join(job.imports)}", command)
    if found.needs_driver:
        print_line(f"{job.name} imports only where there is a card: {found.problem}")
    elif found.error:
        raise BadArtifactError(
            f"{job.name} was built and does not import: {found.problem}",
            location=found.error.location,
            hint="that log has the whole traceback. What was installed before is there still",
        )
