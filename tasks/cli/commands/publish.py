"""`doit publish`: put the wheels of this profile on a static package index for pip and uv."""

from collections.abc import Iterator
from pathlib import Path

from tasks.core.errors import BadArtifactError, TorchyardError
from tasks.core.text_formatting import format_size
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.wheel.model import Wheel
from tasks.system import files, manifests
from tasks.system.output import print_report
from tasks.wheels import package_index_io
from tasks.wheels.index_pages import IndexFile, select_retained


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    subject: SelectedProfile,
    dest: str = "",
    check: bool = False,
    yank: str = "",
    because: str = "",
    unyank: str = "",
) -> None:
    """Publish the wheels. `check`, `yank` and `unyank` select another action instead."""
    profile = subject.require_profile()
    options = profile.loaded.settings.publish
    destination = dest or options.dest
    if not destination:
        kinds = "a folder, user@host:path, or a command with {index}"
        hint = f"run doit publish --dest DEST; DEST is {kinds}"
        message, location = "no destination for the index is set", "publish.dest"
        raise TorchyardError(message, location=location, hint=hint)
    is_local = package_index_io.is_local_index(destination)
    # an index elsewhere is written to a local copy, which is uploaded afterwards
    index = Path(subject.project.outputs, "build", "index")
    index = (subject.root / destination).absolute() if is_local else index
    if check:
        _check_index(index, profile, options.keep)
        return
    files.create_owned_folder(index)
    with files.lock_folder(index):
        _publish_wheels(index, profile, yank or unyank, "" if unyank else because or "yanked")
    if not is_local:
        package_index_io.upload_index(destination, index, profile.layout.logs / "publish.log")
        print_report(f"uploaded to {destination}")


def _check_index(index: Path, profile: Profile, newest: int | None) -> None:
    if not (index / "simple").is_dir():
        message = "there is no index in this folder"
        raise TorchyardError(message, location=str(index), hint="to create an index: doit publish")
    templates = profile.layout.project.templates / "index"
    if problems := list(package_index_io.find_index_problems(index, templates, newest)):
        message = "the files of the index do not match the index pages: " + "\n  ".join(problems)
        hint = "remove the files with wrong content, then write the pages again: doit publish"
        raise BadArtifactError(message, location=str(index), hint=hint)
    indexed = package_index_io.read_indexed_files(index)
    size = format_size(sum(file.size for file in indexed.values()) // 2**20)
    print_report(f"{len(indexed)} wheels, {size}: all match the pages of the index")
    for note in filter(None, map(_format_yanked_note, indexed.values())):
        print_report(note)


def _format_yanked_note(file: IndexFile) -> str:
    undo = f"undo: doit publish --unyank {file.filename}"
    return f"{file.filename}, yanked: {file.yanked}; {undo}" if file.yanked else ""


def _publish_wheels(index: Path, profile: Profile, yanked: str, because: str) -> None:
    """Publish the built wheels, or yank the wheel `yanked`; if `because` is "", unyank it."""
    indexed = package_index_io.read_indexed_files(index)
    if yanked:
        indexed = package_index_io.yank_file(indexed, yanked, because)
        note = f"yanked {yanked}: pip installs it only if its exact version is requested"
        print_report(note if because else f"no longer yanked: {yanked}; pip can select it again")
    else:
        for wheel in _list_built_wheels(profile):
            verb = "already published" if wheel.name in indexed else "published"
            indexed.setdefault(wheel.name, package_index_io.add_wheel(index, wheel))
            print_report(f"{verb}: {_format_yanked_note(indexed[wheel.name]) or wheel.name}")
    retained = select_retained(indexed.values(), profile.loaded.settings.publish.keep)
    for filename in sorted(indexed.keys() - {file.filename for file in retained}):
        print_report(f"removed from the index: {filename}, older than publish.keep allows")
    package_index_io.write_index(index, profile.layout.project.templates / "index", retained)
    print_report(f"{index / 'simple'} has {len(retained)} wheels")


def _list_built_wheels(profile: Profile) -> Iterator[Path]:
    """Yield the path of each built wheel. Raises `BadArtifactError` if a wheel has changed."""
    kinds: dict[str, type[Wheel] | type[BuiltExtension]]
    kinds = {"wheel": Wheel, "extensions": BuiltExtension}
    built = [
        manifests.read_manifest(stage.outputs[0], kinds[stage.kind])
        for stage in profile.plan.stages
        if stage.kind in kinds and Path(stage.outputs[0]).is_file()
    ]
    artifacts = [one.artifact for one in built if one.artifact]
    if not artifacts:
        message, hint = "there is no wheel to publish", "build it: doit build"
        raise TorchyardError(message, location=str(profile.layout.build), hint=hint)
    for artifact in artifacts:
        path = Path(profile.layout.wheelhouse) / artifact.name
        if not path.is_file() or files.read_artifact(path) != artifact:
            message, hint = "this wheel changed after the build", "build it again: doit build"
            raise BadArtifactError(message, location=str(path), hint=hint)
        yield path
