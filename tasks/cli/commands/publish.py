"""`doit publish`: the wheels of this profile onto a static package index, that pip and uv take by
its URL from behind any web server. `--check` reads all of it and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.core.errors import BadArtifactError, BuildError
from tasks.core.formatting.size import size
from tasks.core.model import Artifact
from tasks.lock.profile import Profile, Subject
from tasks.stages.extensions.job import Built
from tasks.stages.wheel.job import Wheel
from tasks.system import files, manifests
from tasks.system.voice import show
from tasks.wheels.index import sending, shelf, verified
from tasks.wheels.index.pages import File
from tasks.wheels.index.retention import kept


def run(  # noqa: PLR0913, PLR0917 - an option each
    subject: Subject,
    dest: str = "",
    check: bool = False,
    yank: str = "",
    because: str = "",
    unyank: str = "",
) -> None:
    """Publish, check, yank or take that back. Raises `BuildError` with all that is wrong."""
    profile = subject.of_build()
    asked = profile.loaded.settings.publish
    place = dest or asked.dest
    if not place:
        raise BuildError(
            "nobody said where the index is",
            where="publish.dest",
            todo="doit publish --dest FOLDER, or user@host:path, or a command with {index} in it",
        )
    index = _index(subject, place)
    if check:
        _check(index, profile, asked.keep)
        return
    files.own(index)
    with files.lock(index):
        _publish(index, profile, yank or unyank, "" if unyank else because or "yanked")
    if not sending.is_folder(place):
        sending.send(place, index, profile.layout.logs / "publish.log")
        show(f"sent to {place}")


def _index(subject: Subject, place: str) -> Path:
    """Where it is written: there, or here to be sent."""
    if sending.is_folder(place):
        return (subject.root / place).absolute()
    return subject.root / "build" / "index"


def _check(index: Path, profile: Profile, newest: int | None) -> None:
    if not (index / "simple").is_dir():
        raise BuildError("there is no index", where=str(index), todo="doit publish")
    found = list(verified.problems(index, profile.layout.templates / "index", newest))
    if found:
        raise BadArtifactError(
            f"the index is not what it says: {found[0]}"
            + "".join(f"\n  {problem}" for problem in found[1:]),
            where=str(index),
            todo="doit publish writes the pages again; a file with other bytes is to be removed "
            "by hand first",
        )
    named = shelf.listed(index)
    total = sum(file.size for file in named.values())
    show(f"{len(named)} wheels, {size(total // 2**20)}: all of it is what the pages say")
    for file in named.values():
        if file.yanked:
            show(f"{file.filename}{_yanked(file)}")


def _yanked(file: File) -> str:
    return f", yanked: {file.yanked}; --unyank takes that back" if file.yanked else ""


def _publish(index: Path, profile: Profile, judged: str, because: str) -> None:
    named = shelf.listed(index)
    if judged:
        named = shelf.yank(named, judged, because)
        told = "only who asks for exactly it gets it" if because else "for everybody again"
        show(f"{'yanked' if because else 'no longer yanked'} {judged}: {told}")
    else:
        for wheel in _wheels(profile):
            new = wheel.name not in named
            entry = shelf.add(index, wheel)
            named[wheel.name] = entry if new else named[wheel.name]
            show(f"{'published' if new else 'is there'} {wheel.name}{_yanked(named[wheel.name])}")
    staying = kept(named.values(), profile.loaded.settings.publish.keep)
    for filename in sorted(named.keys() - {file.filename for file in staying}):
        show(f"leaves {filename}: older than what publish.keep says")
    shelf.write(index, profile.layout.templates / "index", staying)
    show(f"{len(staying)} wheels are on {index / 'simple'}")


def _wheels(profile: Profile) -> Iterator[Path]:
    """What the stages of this profile left in the wheelhouse, whole."""
    found = list(_artifacts(profile))
    if not found:
        raise BuildError(
            "there is no wheel to publish", where=str(profile.layout.build), todo="doit build"
        )
    for artifact in found:
        path = Path(profile.layout.wheelhouse) / artifact.name
        if not path.is_file() or files.artifact(path) != artifact:
            raise BadArtifactError(
                "this wheel is not what was built", where=str(path), todo="doit build"
            )
        yield path


def _artifacts(profile: Profile) -> Iterator[Artifact]:
    for stage in profile.plan.stages:
        if stage.room not in ("wheel", "extensions") or not Path(stage.leaves[0]).is_file():
            continue
        made: type[Wheel] | type[Built] = Wheel if stage.room == "wheel" else Built
        if artifact := manifests.read(stage.leaves[0], made).artifact:
            yield artifact
