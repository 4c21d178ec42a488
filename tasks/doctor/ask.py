"""What has to be looked at for a profile: places, programs, hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tasks.core.deps_model import Limits
from tasks.doctor.host_facts import Asked, Wanted
from tasks.doctor.network import INDEX, TREE
from tasks.doctor.programs import deps_job
from tasks.knowledge.room import EVERYWHERE
from tasks.settings import workers
from tasks.system.network.mirrors import mirrored, mirrored_index

if TYPE_CHECKING:
    from pathlib import PurePath

    from tasks.core.model import Host, Layout
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile
    from tasks.stages.source.job import SourceJob


def ask(root: PurePath, host: Host, profile: Profile | None) -> Asked:
    """Where to look; of a profile that does not open only what is true of any."""
    if profile is None:
        return Asked(root, host, tuple((place, root) for place in EVERYWHERE[:-1]))
    job = deps_job(profile)
    extensions = [stage.job for stage in profile.plan.of("extensions")]
    layout, build = profile.layout, profile.loaded.settings.build
    return Asked(
        root=root,
        host=host,
        places=tuple(_places(profile)),
        build=layout.build,
        venv=layout.venv,
        torch=_torch(profile),
        begun=tuple(_begun(profile)),
        into=profile.loaded.settings.install.into or "",
        installed=layout.manifest("install"),
        cc=job.cc if job else None,
        cxx=job.cxx if job else None,
        limits=job.limits if job else Limits(),
        toolkit_home=profile.choice.toolkit.home,
        urls=tuple(_urls(profile)),
        distributions=tuple(one.name for one in extensions),
        sources=tuple((one.name, one.original) for one in extensions),
        own=tuple(_own(profile)),
        checkouts=tuple(_checkouts(profile)),
        workers=workers.asked(build.distribute, build.hosts, layout.build),
    )


def _source(profile: Profile) -> SourceJob | None:
    job: SourceJob | None = next((stage.job for stage in profile.plan.of("source")), None)
    return job


def _own(profile: Profile) -> Iterator[tuple[str, PurePath, PurePath]]:
    for stage in profile.plan.of("extensions"):
        if stage.job.kind == "path":
            folder = type(profile.layout.build)(stage.job.location)
            yield stage.job.name, folder, folder / stage.job.subdirectory


def _checkouts(profile: Profile) -> Iterator[tuple[str, PurePath]]:
    """Yield the setting and the folder of every source that the user keeps in a folder."""
    source = _source(profile)
    if source and source.kind == "path":
        yield "source.path", source.tree
    yield from ((f"extensions ({name}).path", folder) for name, folder, _ in _own(profile))


def _torch(profile: Profile) -> PurePath | None:
    """Of strategy existing, where the interpreter has it."""
    found = profile.choice.python.torch
    if profile.choice.strategy != "existing" or not found:
        return None
    return type(profile.layout.build)(found.folder)


def _places(profile: Profile) -> Iterator[tuple[str, PurePath]]:
    """A tree of a person's own is built in: what is large is there then."""
    source = _source(profile)
    tree = source.tree if source and source.kind == "path" else profile.layout.build
    yield from places(profile.layout, tree)


def places(layout: Layout, tree: PurePath) -> Iterator[tuple[str, PurePath]]:
    """Where a build puts things in the checkout, or in `tree`."""
    yield "build", tree
    yield "environment", layout.build
    yield "wheels", layout.wheelhouse


def _begun(profile: Profile) -> Iterator[PurePath]:
    """Files that say that most of the room is taken already."""
    if source := _source(profile):
        yield source.tree / "build" / "CMakeCache.txt"
    else:
        yield profile.layout.manifest("wheel")


def _urls(profile: Profile) -> Iterator[Wanted]:
    if profile.loaded.settings.offline:
        return
    mirrors = profile.held.mirrors if profile.held else {}
    yield replace(_index(_default(profile.knowledge), mirrors), usual=True)
    if profile.choice.index:
        yield _index(profile.choice.index, mirrors)
    source = _source(profile)
    if source and source.kind == "git":
        yield Wanted(TREE, mirrored(source.location, source.mirrors))
    for stage in profile.plan.of("extensions"):
        if stage.job.kind == "git":
            url = mirrored(stage.job.location, stage.job.mirrors)
            yield Wanted(stage.job.name, url, stage.job.optional)


def _index(url: str, mirrors: Mapping[str, str]) -> Wanted:
    place = mirrored_index(url, mirrors)
    return Wanted(INDEX, place, instead_of="" if place == url else url)


def _default(knowledge: Knowledge) -> str:
    return str(knowledge.pytorch_notes["indexes"]["pypi"])
