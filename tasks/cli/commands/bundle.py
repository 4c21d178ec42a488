"""`doit bundle`: everything that this profile is built of, in one folder or archive, for a machine
without a network (`offline: PATH`). torchyard itself and what belongs to the checkout (settings,
patches, sources in its folders) is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from tasks import __version__
from tasks.core.errors import BuildError, redact
from tasks.core.formatting.size import size
from tasks.lock.builder import Finished
from tasks.lock.bundle import packing, repositories
from tasks.lock.bundle.collecting import Shelf
from tasks.lock.bundle.manifest import SCHEMA, WHEELS, Bundle
from tasks.lock.bundle.repositories import Wanted
from tasks.lock.difference import differences
from tasks.lock.profile import Subject
from tasks.lock.section import Profile, keeping
from tasks.stages.extensions.job import Built, ExtensionJob
from tasks.stages.source.job import SourceJob, SourceTree
from tasks.stages.wheel.job import Wheel
from tasks.system import files, manifests
from tasks.system.voice import show, tick, warn


def run(subject: Subject, dest: str = "") -> None:
    """Collect it at `dest`. Raises `BuildError` where there is no finished build, or the lock holds
    another one.
    """
    if not dest:
        raise BuildError(
            "nobody said where the bundle goes", todo="doit bundle --dest FOLDER, or FILE.tar"
        )
    place = (subject.root / Path(dest).expanduser()).absolute()
    finished = Finished(subject.of_build())
    section = _section(finished, subject)
    folder = packing.begun(place)
    with files.lock(finished.layout.build):
        bundle = _collect(finished, section, folder, subject.name)
        whole = packing.finish(folder, place, bundle)
    _tell(place, whole)


def _section(finished: Finished, subject: Subject) -> Profile:
    """What was built, which has to be what is locked."""
    for name, why in finished.left_out.items():
        means = "it is not in the bundle, and will not be there offline"
        warn(f"{name} is optional and was not built ({why}): {means}")
    built = finished.section()
    held = finished.profile.held
    locked = held.section if held else None
    now = keeping(built, locked, finished.left_out)
    if locked and (told := list(differences(locked, now))):
        raise BuildError(
            f"what was built is not what torchyard.lock holds: {told[0]}",
            todo="doit build takes what is locked, doit lock locks what was built; "
            f"doit lock --check profile={subject.name} tells all of it",
        )
    return built


def _collect(finished: Finished, section: Profile, folder: Path, profile: str) -> Bundle:
    log = finished.layout.logs / "bundle.log"
    clones = [*_tree(finished), *_clones(finished.extensions)]
    for one in clones:
        tick(f"bundling {redact(one.url)}")
        repositories.put(one, folder / "git" / repositories.name_of(one.url), log)
    tick("fetching the packages")
    _packages(finished, section, folder / WHEELS)
    return Bundle(
        schema=SCHEMA,
        torchyard=__version__,
        profile=profile,
        python=section.python,
        platform=section.platform,
        repositories={redact(one.url): f"git/{repositories.name_of(one.url)}" for one in clones},
        archives=dict(_archives(finished, folder)),
    )


def _tree(finished: Finished) -> Iterator[Wanted]:
    for stage in finished.profile.plan.stages:
        match stage.job:
            case SourceJob(kind="git") as job:
                yield from repositories.wanted(job.location, Path(job.tree), job.ref)
            case SourceJob(kind="path") as job:
                warn(f"the tree {job.location} is your own, and not in the bundle")


def _clones(extensions: Iterable[ExtensionJob]) -> Iterator[Wanted]:
    for job in extensions:
        if job.kind == "git":
            yield from repositories.wanted(job.location, Path(job.clone), job.ref)


def _packages(finished: Finished, section: Profile, wheels: Path) -> None:
    layout = finished.layout
    wheels.mkdir(exist_ok=True)
    shelf = Shelf(
        wheels, finished.deps.python, layout.build / "locking", layout.logs / "bundle.log"
    )
    made = {"": section.torch, **section.extensions}
    for file, sha256 in _here(finished):
        shelf.copy(file, sha256)
    shelf.download(section.torch.packages, finished.choice.index)
    others = (one for name, one in made.items() if name)
    rest = (part for one in others for part in (one.requires, one.packages))
    for packages in (section.packages, section.toolkit, *rest):
        shelf.download(packages)
    locked = [section.packages, section.toolkit, *(one.requires for one in made.values())]
    locked += [one.packages for one in made.values()]
    digests = {digest for group in locked for found in group.values() for digest in found}
    shelf.keep_only(digests | {one.sha256 for one in made.values()})


def _here(finished: Finished) -> Iterator[tuple[Path, str]]:
    """The wheels and sdists that the build kept, with their digests."""
    layout = finished.layout
    if finished.choice.strategy == "prebuilt":
        wheel = manifests.read(layout.manifest("wheel"), Wheel)
        if wheel.artifact:
            yield Path(layout.wheelhouse) / wheel.artifact.name, wheel.artifact.sha256
    for job in finished.extensions:
        source = manifests.read(job.manifest, Built).source
        if job.kind == "wheel":
            yield Path(layout.wheelhouse) / source["wheel"], source["sha256"]
        elif job.kind == "sdist":
            yield Path(job.work) / "sdist" / source["sdist"], source["sha256"]


def _archives(finished: Finished, folder: Path) -> Iterator[tuple[str, str]]:
    """A tarball that came from a URL; one of the checkout's own is there already."""
    for stage in finished.profile.plan.stages:
        job = stage.job
        if isinstance(job, SourceJob) and job.kind == "tarball" and "://" in job.location:
            name = PurePosixPath(urlsplit(job.location).path).name
            (folder / "sources").mkdir(exist_ok=True)
            digest = manifests.read(job.manifest, SourceTree).digest
            shelf = Shelf(folder / "sources", "", job.state, job.log)
            shelf.copy(Path(job.state) / "downloads" / name, digest)
            yield redact(job.location), f"sources/{name}"


def _tell(place: Path, bundle: Bundle) -> None:
    mib = sum(packed.size for packed in bundle.files.values()) // 2**20
    wheels = sum(name.startswith(f"{WHEELS}/") for name in bundle.files)
    git = len(bundle.repositories)
    show(
        f"{place}: {wheels} packages, {git} repositor{'y' if git == 1 else 'ies'}, {size(mib)}, "
        f"for Python {bundle.python} on {bundle.platform}"
    )
    show(
        f"to build from it: offline: {place} in config/local.yaml, or TORCHYARD__OFFLINE={place}, "
        "as the path is there; torchyard.lock and the settings in config/ are not in it: bring them"
    )
