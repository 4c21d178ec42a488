"""`doit publish`: put the wheels of this profile on a static package index.

pip and uv can use it by its URL behind any web server. `--check` reads the whole index and changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.core.errors import BadArtifactError, TorchyardError
from tasks.core.model import Artifact
from tasks.core.text_formatting import format_size
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.wheel.model import Wheel
from tasks.system import files, manifests
from tasks.system.output import print_report
from tasks.wheels import package_index_io
from tasks.wheels.index_pages import IndexFile, select_retained


def run(  # noqa: PLR0913, PLR0917 - an option each
    subject: SelectedProfile,
    dest: str = "",
    check: bool = False,
    yank: str = "",
    because: str = "",
    unyank: str = "",
) -> None:
    """Publish, check, yank or unyank. Raises `TorchyardError` that lists all problems."""
    profile = subject.require_profile()
    asked = profile.loaded.settings.publish
    place = dest or asked.dest
    if not place:
        raise TorchyardError(
            "nobody said where the index is",
            location="publish.dest",
            hint="doit publish --dest FOLDER, or user@host:path, or a command with {index} in it",
        )
    index = _resolve_index_folder(subject, place)
    if check:
        _check_index(index, profile, asked.keep)
        return
    files.create_owned_folder(index)
    with files.lock_folder(index):
        _publish_wheels(index, profile, yank or unyank, "" if unyank else because or "yanked")
    if not package_index_io.is_local_index(place):
        package_index_io.upload_index(place, index, profile.layout.logs / "publish.log")
        print_report(f"sent to {place}")


def _resolve_index_folder(subject: SelectedProfile, place: str) -> Path:
    """Return the folder to write the index to: the target, or one that is uploaded afterwards."""
    if package_index_io.is_local_index(place):
        return (subject.root / place).absolute()
    return subject.root / "build" / "index"


def _check_index(index: Path, profile: Profile, newest: int | None) -> None:
    if not (index / "simple").is_dir():
        raise TorchyardError("there is no index", location=str(index), hint="doit publish")
    found = list(
        package_index_io.find_index_problems(index, profile.layout.templates / "index", newest)
    )
    if found:
        raise BadArtifactError(
            f"the index is not what it says: {found[0]}"
            + "".join(f"\n  {problem}" for problem in found[1:]),
            location=str(index),
            hint="doit publish writes the pages again; a file with other bytes is to be removed "
            "by hand first",
        )
    named = package_index_io.read_indexed_files(index)
    total = sum(file.size for file in named.values())
    print_report(
        f"{len(named)} wheels, {format_size(total // 2**20)}: all of it is what the pages say"
    )
    for file in named.values():
        if file.yanked:
            print_report(f"{file.filename}{_format_yanked_note(file)}")


def _format_yanked_note(file: IndexFile) -> str:
    return f", yanked: {file.yanked}; --unyank takes that back" if file.yanked else ""


def _publish_wheels(index: Path, profile: Profile, judged: str, because: str) -> None:
    named = package_index_io.read_indexed_files(index)
    if judged:
        named = package_index_io.yank_file(named, judged, because)
        told = "only who asks for exactly it gets it" if because else "for everybody again"
        print_report(f"{'yanked' if because else 'no longer yanked'} {judged}: {told}")
    else:
        for wheel in _list_built_wheels(profile):
            new = wheel.name not in named
            entry = package_index_io.add_wheel(index, wheel)
            named[wheel.name] = entry if new else named[wheel.name]
            print_report(
                f"{'published' if new else 'is there'} "
                f"{wheel.name}{_format_yanked_note(named[wheel.name])}"
            )
    staying = select_retained(named.values(), profile.loaded.settings.publish.keep)
    for filename in sorted(named.keys() - {file.filename for file in staying}):
        print_report(f"leaves {filename}: older than what publish.keep says")
    package_index_io.write_index(index, profile.layout.templates / "index", staying)
    print_report(f"{len(staying)} wheels are on {index / 'simple'}")


def _list_built_wheels(profile: Profile) -> Iterator[Path]:
    """Yield the wheels of this profile in the wheelhouse.

    Raises `BadArtifactError` for one that is missing or changed.
    """
    found = list(_list_artifacts(profile))
    if not found:
        raise TorchyardError(
            "there is no wheel to publish", location=str(profile.layout.build), hint="doit build"
        )
    for artifact in found:
        path = Path(profile.layout.wheelhouse) / artifact.name
        if not path.is_file() or files.read_artifact(path) != artifact:
            raise BadArtifactError(
                "this wheel is not what was built", location=str(path), hint="doit build"
            )
        yield path


def _list_artifacts(profile: Profile) -> Iterator[Artifact]:
    for stage in profile.plan.stages:
        if stage.kind not in ("wheel", "extensions") or not Path(stage.outputs[0]).is_file():
            continue
        made: type[Wheel] | type[BuiltExtension] = (
            Wheel if stage.kind == "wheel" else BuiltExtension
        )
        if artifact := manifests.read_manifest(stage.outputs[0], made).artifact:
            yield artifact
