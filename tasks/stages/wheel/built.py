"""A wheel, or the C++ libraries, out of the build folder.

The local version names CUDA, archs and the commit of the last build whose installed content
changed: a commit that only touches documents makes a wheel with the same content, which is thrown
away, and the old one keeps its name.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.core.digest import canonical, sha256_text
from tasks.core.model import Artifact
from tasks.stages.compile.job import Compiled
from tasks.stages.source.job import SourceTree
from tasks.stages.wheel import installed, installing, lastgood, libraries, packing
from tasks.stages.wheel.installing import Fresh
from tasks.stages.wheel.job import BuiltJob, Surface, Wheel
from tasks.stages.wheel.lastgood import Content
from tasks.stages.wheel.made import made_of, version_of
from tasks.stages.wheel.packing import Packed
from tasks.stages.wheel.surface import surface
from tasks.system import files, manifests
from tasks.system.clock import now
from tasks.system.python import environments, pythons
from tasks.system.python.packages import Packages
from tasks.system.voice import say
from tasks.wheels.files import distribution, wheelfile
from tasks.wheels.linking.linkage import of_toolkit

VERSION_FILES = ("torch/version.py", "torch/_version.py")


def run(job: BuiltJob, deps: Deps) -> tuple[Wheel, Surface]:
    """Make it, check it, and where it holds something new look at its libraries, install it and
    import it.
    """
    compiled = manifests.read(job.compiled, Compiled)
    if compiled.backend == "cmake":
        return _libraries(job, deps, compiled)
    Packages(deps.python, environments.find_uv(), job.log).install_locked(job.locked)
    made, began = made_of(job, deps), now()
    before = lastgood.read(job)
    known = lastgood.wheel_of(job, before) if before else None
    packed = packing.pack(job, compiled, made, deps, known)
    content = _content(packed)
    artifact = _same(job, deps, content, before)
    if artifact is None:
        found_in = libraries.look(
            job, deps, packed.wheel, packed.recorded, packed.portable.promised
        )
        if job.cuda and not job.by_packages and of_toolkit(found_in):
            say("wheel.cuda: packages makes one for machines that have a driver and no toolkit")
        artifact = installing.install(job, deps, Fresh(packed.wheel, content, made, began), before)
        manifests.publish(job.libraries, found_in)
    found = installed.torch_of(deps.python)
    say(f"torch {found.version} ({artifact.name}, sha256 {artifact.sha256[:12]}…)")
    release = found.version.partition("+")[0]
    torch = Wheel(found.version, release, found.cuda, found.folder, deps.python, "wheel", artifact)
    return torch, surface(found, deps, job.reading)


def _content(packed: Packed) -> str:
    """What would be installed, with the packages that it brings along."""
    content = wheelfile.content_digest(packed.recorded, VERSION_FILES)
    requires = packed.portable.requires
    return sha256_text(canonical([content, *requires])) if requires else content


def _same(job: BuiltJob, deps: Deps, content: str, last: Content | None) -> Artifact | None:
    """The wheel that is installed, where the new one differs in nothing but the commit in its
    name.
    """
    if last is None or not Path(job.libraries).is_file():
        return None
    if (last.digest, last.identity, last.asked) != (content, deps.identity, lastgood.asked(job)):
        return None
    found = pythons.interpreter(deps.python).torch
    if found is None or not last.artifact.name.startswith(f"torch-{found.version}-"):
        return None  # a person's pip took it away, or put another one there
    if not distribution.is_whole(Path(found.folder).parent, "torch"):
        return None
    say(f"the same content as {last.artifact.name}: kept")
    return last.artifact


def _libraries(job: BuiltJob, deps: Deps, compiled: Compiled) -> tuple[Wheel, Surface]:
    """An install prefix for find_package(Torch), and an archive of it."""
    files.remove_owned(job.prefix)
    prefix = files.own(job.prefix)
    packing.run(job, compiled, prefix, {})
    version = version_of(job, manifests.read(job.source, SourceTree))
    archive = _archive(job, prefix, version)
    say(f"{prefix} and {archive}")
    known = files.artifact(archive)
    release = version.partition("+")[0]
    torch = Wheel(
        version, release, job.cuda, str(prefix), deps.python, "libtorch", known, str(prefix)
    )
    digest = sha256_text(canonical(compiled.products))
    standard = job.reading.cxx_standard
    return torch, Surface(release, job.cuda, "", digest, digest, None, standard, deps.identity)


def _archive(job: BuiltJob, prefix: Path, version: str) -> Path:
    house = Path(job.wheelhouse)
    house.mkdir(parents=True, exist_ok=True)
    form = "zip" if prefix.drive else "gztar"
    name = str(Path(job.landing).with_name(f"libtorch-{version}"))
    made = Path(shutil.make_archive(name, form, prefix.parent, prefix.name))
    return made.replace(house / made.name)
