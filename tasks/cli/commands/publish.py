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
    options = profile.loaded.settings.publish
    destination = dest or options.dest
    if not destination:
        raise TorchyardError(
            "nobody said where the index is",
            location="publish.dest",
            hint="doit publish --dest FOLDER, or user@host:path, or a command with {index} in it",
        )
    index = _resolve_index_folder(subject, destination)
    if check:
        _check_index(index, profile, options.keep)
        return
    files.create_owned_folder(index)
    with files.lock_folder(index):
        _publish_wheels(index, profile, yank or unyank, "" if unyank else because or "yanked")
    if not package_index_io.is_local_index(destination):
        package_index_io.upload_index(destination, index, profile.layout.logs / "publish.log")
        print_report(f"sent to {destination}")


def _resolve_index_folder(subject: SelectedProfile, place: str) -> Path:
    """Return the folder to write the index to: the target, or one that is uploaded afterwards."""
    if package_index_io.is_local_index(place):
        return (subject.root / place).absolute()
    return subject.root / "build" / "index"


def _check_index(index: Path, profile: Profile, newest: int | None) -> None:
    if not (index / "simple").is_dir():
        raise TorchyardError("there is no index", location=str(index), hint="doit publish")
    problems = list(
        package_index_io.find_index_problems(index, profile.layout.templates / "index", newest)
    )
    if problems:
        raise BadArtifactError(
            f"the index is not what it says: {problems[0]}"
            + "".join(f"\n  {problem}" for problem in problems[1:]),
            location=str(index),
            hint="doit publish writes the pages again; a file with other bytes is to be removed "
            "by hand first",
        )
    indexed = package_index_io.read_indexed_files(index)
    total = sum(file.size for file in indexed.values())
    print_report(
        f"{len(indexed)} wheels, {format_size(total // 2**20)}: all of it is what the pages say"
    )
    for file in indexed.values():
        if file.yanked:
            print_report(f"{file.filename}{_format_yanked_note(file)}")


def _format_yanked_note(file: IndexFile) -> str:
    return f", yanked: {file.yanked}; --unyank takes that back" if file.yanked else ""


def _publish_wheels(index: Path, profile: Profile, judged: str, because: str) -> None:
    indexed = package_index_io.read_indexed_files(index)
    if judged:
        indexed = package_index_io.yank_file(indexed, judged, because)
        effect = "only who asks for exactly it gets it" if because else "for everybody again"
        print_report(f"{'yanked' if because else 'no longer yanked'} {judged}: {effect}")
    else:
        for wheel in _list_built_wheels(profile):
            is_new = wheel.name not in indexed
            entry = package_index_io.add_wheel(index, wheel)
            indexed[wheel.name] = entry if is_new else indexed[wheel.name]
            print_report(
                f"{'published' if is_new else 'is there'} "
                f"{wheel.name}{_format_yanked_note(indexed[wheel.name])}"
            )
    retained = select_retained(indexed.values(), profile.loaded.settings.publish.keep)
    for filename in sorted(indexed.keys() - {file.filename for file in retained}):
        print_report(f"leaves {filename}: older than what publish.keep says")
    package_index_io.write_index(index, profile.layout.templates / "index", retained)
    print_report(f"{len(retained)} wheels are on {index / 'simple'}")


def _list_built_wheels(profile: Profile) -> Iterator[Path]:
    """Yield the wheels of this profile in the wheelhouse.

    Raises `BadArtifactError` for one that is missing or changed.
    """
    artifacts = list(_list_artifacts(profile))
    if not artifacts:
        raise TorchyardError(
            "there is no wheel to publish", location=str(profile.layout.build), hint="doit build"
        )
    for artifact in artifacts:
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
        manifest_type: type[Wheel] | type[BuiltExtension] = (
            Wheel if stage.kind == "wheel" else BuiltExtension
        )
        if artifact := manifests.read_manifest(stage.outputs[0], manifest_type).artifact:
            yield artifact
