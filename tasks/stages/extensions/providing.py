"""What an extension asks for beside torch: to be built, or to be imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import TorchyardError
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.variables import (
    format_forced_header,
    locate_build_requirements,
    locate_forced_header,
)
from tasks.system import files
from tasks.system.python import environments
from tasks.system.python.packages import InstallOptions, PackageInstaller
from tasks.system.voice import print_warning, show_progress
from tasks.wheels.files import requirements

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
    have = requirements.list_installed_packages(deps.python, beside) if others else {}
    return requirements.find_missing_requirements(others, have)


def _exclude_managed(asked: Iterable[str]) -> Iterator[str]:
    return (
        one for one in asked if canonicalize_name(Requirement(one).name) not in _MANAGED_PACKAGES
    )


def _pin_installed(deps: DepsManifest) -> InstallOptions:
    """Nothing that is there moves: torch, the toolkit, and what another is just built with."""
    have = requirements.list_installed_packages(deps.python)
    return InstallOptions(tuple(f"{name}=={version}" for name, version in sorted(have.items())))
