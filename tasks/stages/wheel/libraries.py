"""What the libraries of a built wheel need, looked at before it replaces what is installed.

They are read out of the wheel, one at a time, and not in the build folder: the wheel is what is
installed, CMake rewrites RPATH on the way into it, and the tree keeps libraries of earlier builds.
They are unpacked for that, since a reader seeks, and going back in a packed file means unpacking it
from its beginning. Programs in torch/bin are left out: an import starts none of them.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.core.deps_model import Deps
from tasks.core.errors import BuildError
from tasks.stages.compile.job import Compiled
from tasks.stages.env.job import Environment
from tasks.stages.wheel.job import BuiltJob
from tasks.system import files, manifests, shell
from tasks.system.python import environments
from tasks.system.voice import say, tick, warn
from tasks.wheels.binaries import elf, loader
from tasks.wheels.files import wheelfile
from tasks.wheels.linking.linkage import bound, judge, summary
from tasks.wheels.linking.loading import Loaded, Need, Search, load, order
from tasks.wheels.linking.values import Linkage, Linkages, Origin, WheelLibraries

_READER = 1  # raised where elf.read comes to find more in a library


def look(
    job: BuiltJob,
    deps: Deps,
    wheel: Path,
    recorded: Mapping[str, str],
    promised: Collection[str] = (),
) -> WheelLibraries:
    """What wheel-libraries.json is to say; `BadArtifactError` where a library is nowhere here.
    `promised` are files below site-packages that the install of the wheel brings.

    Windows and macOS have formats of their own, which are not read: the file is then empty.
    """
    tick("looking at what its libraries need")
    held = linkages(job, wheel, recorded, job.linkages)
    found = WheelLibraries(wheel.name, {})
    if held:
        site = environments.site_packages(deps.python)
        own = [n for n in needs(job, deps, held, site, promised) if n.library in held]
        found = judge(wheel, held, own, _owner(job, deps, held, site))
        for warning in bound(found):
            warn(warning)
        say(summary(found))
    return found


def linkages(
    job: BuiltJob, wheel: Path, recorded: Mapping[str, str], kept: PurePath
) -> dict[str, Linkage]:
    """Each ELF library of a wheel whose members are `recorded`, by its name there; those that the
    last wheel held in the same bytes, by the file `kept`, are not read again.
    """
    known = _known(kept)
    found: dict[str, Linkage | None] = {}
    folder = files.own(Path(job.landing) / "libraries")
    with zipfile.ZipFile(wheel) as archive:
        for name in wheelfile.libraries(recorded):
            digest = recorded[name]
            if digest and digest in known:
                found[name] = known[digest]
                continue
            unpacked = Path(archive.extract(name, folder))
            found[name] = elf.read(unpacked)
            unpacked.unlink()  # a whole torch holds gigabytes of them
    read = {recorded[name]: linkage for name, linkage in found.items()}
    manifests.publish(kept, Linkages(_READER, read))
    return {name: linkage for name, linkage in found.items() if linkage}


def _known(kept: PurePath) -> Mapping[str, Linkage | None]:
    try:
        before = manifests.read(kept, Linkages)
    except BuildError:
        return {}
    return before.libraries if before.reader == _READER else {}


def needs(
    job: BuiltJob,
    deps: Deps,
    held: Mapping[str, Linkage],
    site: Path,
    promised: Collection[str] = (),
) -> list[Need]:
    """What the libraries need, and get once the wheel is installed in `site`; theirs by their names
    in the wheel, and what all that comes in through them needs, by its place.
    """
    named = {str(site / name): name for name in order(held)}
    python = os.path.realpath(deps.python)  # the loader's $ORIGIN of a program follows links
    by = Loaded(python, elf.read(Path(python)) or Linkage(""))
    libraries = [by, *(Loaded(place, held[name], by) for place, name in named.items())]
    search = _search(job, held, site, {str(site / place) for place in promised})
    found = load(libraries, search)
    return [replace(need, library=named.get(need.library, need.library)) for need in found]


def _search(
    job: BuiltJob, held: Mapping[str, Linkage], site: Path, promised: Collection[str]
) -> Search:
    """The environment is that of the import, and of validate. torch/__init__.py itself looks into
    NVIDIA's packages where the loader finds nothing.
    """
    env = manifests.read(job.env, Environment).over(shell.host_env())
    packages = sorted(str(folder) for folder in site.glob("nvidia/*/lib"))
    return Search(
        path=tuple(folder for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder),
        cache=loader.cache(env),
        folders=(*loader.folders(), *packages),
        look=_look(held, site, promised),
    )


def _look(
    held: Mapping[str, Linkage], site: Path, promised: Collection[str]
) -> Callable[[str], Linkage | None]:
    """What lies at a place once the wheel is installed; the torch that is there now goes."""
    machine = next((one.machine for one in held.values()), "")
    ours = {str(site / name): linkage for name, linkage in held.items()}
    folders = tuple(f"{folder}/" for folder in _folders(held, site))

    def look(place: str) -> Linkage | None:
        if place in ours or place.startswith(folders):
            return ours.get(place)
        try:
            return elf.read(Path(place))
        except OSError:
            return Linkage(machine) if place in promised else None

    return look


def _folders(held: Mapping[str, Linkage], site: Path) -> list[Path]:
    """torch and functorch."""
    return sorted({site / PurePath(name).parts[0] for name in held})


def _owner(
    job: BuiltJob, deps: Deps, held: Mapping[str, Linkage], site: Path
) -> Callable[[str], Origin]:
    """Who has a place: the first of these whose folder, with all links followed, has it in it."""
    home = deps.toolkit.home if deps.toolkit else "/usr"
    places: list[tuple[Origin, PurePath]] = [
        *(("wheel", folder) for folder in _folders(held, site)),
        ("toolkit", site / "nvidia"),
        *((("toolkit", Path(home)),) if home != "/usr" else ()),  # there all is the system's
        ("environment", Path(deps.scripts).parent),
        ("build", job.build),
        ("build", Path(manifests.read(job.compiled, Compiled).tree)),
    ]
    owners = [(of, PurePath(os.path.realpath(folder))) for of, folder in places]

    def owner(place: str) -> Origin:
        real = PurePath(os.path.realpath(place))
        return next((of for of, folder in owners if real.is_relative_to(folder)), "system")

    return owner
