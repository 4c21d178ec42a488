"""A wheel, or the C++ libraries, out of the build folder.

The local version names CUDA, archs and the commit of the last build whose installed content
changed: a commit that only touches documents makes a wheel with the same content, which is thrown
away, and the old one keeps its name.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tasks.digest import canonical, sha256_text
from tasks.effects import environments, files, manifests, pythons, wheelfile, wheelhouse
from tasks.effects.packages import Extra, Packages
from tasks.effects.voice import say
from tasks.errors import BuildError
from tasks.model import Artifact
from tasks.stages.compile.job import Compiled
from tasks.stages.deps.job import Deps
from tasks.stages.source.job import SourceTree
from tasks.stages.wheel import imported, installed, libraries, packing
from tasks.stages.wheel.job import BuiltJob, Surface, Wheel

VERSION_FILES = ("torch/version.py", "torch/_version.py")


@dataclass(frozen=True)
class Content:
    """What was last installed, and imported: the digest of the wheel's content without its version,
    and the wheel that has it. `asked` is its version without the commit.
    """

    digest: str
    artifact: Artifact
    identity: str
    asked: str = ""


def run(job: BuiltJob, deps: Deps) -> tuple[Wheel, Surface]:
    """Make it, check it, and where it holds something new look at its libraries, install it and
    import it.
    """
    compiled = manifests.read(job.compiled, Compiled)
    if compiled.backend == "cmake":
        return _libraries(job, deps, compiled)
    version = version_of(job, manifests.read(job.source, SourceTree))
    before = _last_good(job)
    known = Path(job.wheelhouse) / before.artifact.name if before else None
    wheel, recorded = packing.pack(job, compiled, version, deps.python_version, known)
    content = wheelfile.content_digest(recorded, VERSION_FILES)
    artifact = _same(job, deps, content, before)
    if artifact is None:
        found_in = libraries.look(job, deps, wheel, recorded)
        artifact = _install(job, deps, wheel, content, before)
        manifests.publish(job.libraries, found_in)
    found = installed.torch_of(deps.python)
    say(f"torch {found.version} ({artifact.name}, sha256 {artifact.sha256[:12]}…)")
    release = found.version.partition("+")[0]
    torch = Wheel(found.version, release, found.cuda, found.folder, deps.python, "wheel", artifact)
    return torch, installed.surface(found, deps)


def version_of(job: BuiltJob, tree: SourceTree) -> str:
    """`2.6.0+cu130.sm120.g1a2b3c4`, with `.d` and six digits of the edits where the tree is
    dirty.
    """
    if job.local is None:
        return job.release
    if job.local_is_whole:
        return f"{job.release}+{job.local}"
    source = f"g{tree.commit[:7]}" if tree.commit else f"t{tree.digest[:7]}"
    dirty = f".d{sha256_text(tree.edits)[:6]}" if tree.edits else ""
    return f"{job.release}+{job.local}.{source}{dirty}"


def _same(job: BuiltJob, deps: Deps, content: str, last: Content | None) -> Artifact | None:
    """The wheel that is installed, where the new one differs in nothing but the commit in its
    name.
    """
    if last is None or not Path(job.libraries).is_file():
        return None
    if (last.digest, last.identity, last.asked) != (content, deps.identity, _asked(job)):
        return None
    found = pythons.interpreter(deps.python).torch
    if found is None or not last.artifact.name.startswith(f"torch-{found.version}-"):
        return None  # a person's pip took it away, or put another one there
    say(f"the same content as {last.artifact.name}: kept")
    return last.artifact


def _asked(job: BuiltJob) -> str:
    return f"{job.release}+{job.local}"


def _install(
    job: BuiltJob, deps: Deps, wheel: Path, content: str, before: Content | None
) -> Artifact:
    """Only a wheel that imports goes where other profiles, and other people, take wheels from. One
    that does not gives way to the one before it.
    """
    manifests.withdraw(job.content, job.libraries)
    into = Packages(deps.python, environments.find_uv(), job.log)
    pins = Extra(deps.toolkit.pins if deps.toolkit else ())
    into.install_wheel(wheel, pins)
    try:
        imported.require(job, deps.python, installed.torch_of(deps.python).version)
    except BuildError:
        if before:
            into.install_wheel(Path(job.wheelhouse) / before.artifact.name, pins)
            manifests.publish(job.content, before)
            say(f"installed again instead: {before.artifact.name}")
        raise
    _, artifact = wheelhouse.keep(
        wheel, job.wheelhouse, f"torch {job.release} as built", str(job.compiled)
    )
    manifests.publish(job.content, Content(content, artifact, deps.identity, _asked(job)))
    return artifact


def _last_good(job: BuiltJob) -> Content | None:
    """What was installed before, where its wheel is still what it was."""
    try:
        last = manifests.read(job.content, Content)
    except BuildError:
        return None
    place = Path(job.wheelhouse) / last.artifact.name
    return last if place.is_file() and files.artifact(place) == last.artifact else None


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
    return torch, Surface(release, job.cuda, "", digest, digest, deps.identity)


def _archive(job: BuiltJob, prefix: Path, version: str) -> Path:
    house = Path(job.wheelhouse)
    house.mkdir(parents=True, exist_ok=True)
    form = "zip" if prefix.drive else "gztar"
    name = str(Path(job.landing).with_name(f"libtorch-{version}"))
    made = Path(shutil.make_archive(name, form, prefix.parent, prefix.name))
    return made.replace(house / made.name)
