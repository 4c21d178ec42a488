"""`doit bundle`: copy everything that this profile is built from to one folder or archive.

The checkout itself (torchyard, settings, patches, sources inside the checkout) is not included.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from tasks import __version__
from tasks.core.errors import TorchyardError, redact_secrets
from tasks.core.text_formatting import format_size
from tasks.lock import bundle_archive_io
from tasks.lock.bundle_archive_io import WHEELS_FOLDER, Bundle, BundledCommit, PackageCollector
from tasks.lock.lock_builder_io import FinishedBuild
from tasks.lock.lock_file import LockSection, compare_sections, merge_kept_extensions
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.source.model import SourceJob, SourceTree
from tasks.stages.wheel.model import Wheel
from tasks.system import files, manifests
from tasks.system.output import print_report, print_warning, show_progress


def run(subject: SelectedProfile, dest: str = "") -> None:
    """Write the bundle to `dest`, a folder or a FILE.tar.

    Raises `TorchyardError` if no build is finished, or if the build differs from torchyard.lock.
    """
    if not dest:
        hint = "name a folder or FILE.tar: doit bundle --dest PATH"
        raise TorchyardError("no destination for the bundle is set", hint=hint)
    place = (subject.root / Path(dest).expanduser()).absolute()
    finished = FinishedBuild(subject.require_profile())
    section = _read_built_section(finished, subject)
    folder = bundle_archive_io.prepare_bundle_folder(place)
    with files.lock_folder(finished.layout.build):
        collected = _collect_bundle(finished, section, folder, subject.name)
        bundle = bundle_archive_io.finish_bundle(folder, place, collected)
    mib = sum(packed.size for packed in bundle.files.values()) // 2**20
    wheels = sum(name.startswith(f"{WHEELS_FOLDER}/") for name in bundle.files)
    git = len(bundle.repositories)
    print_report(
        f"{place}: {wheels} packages, {git} repositor{'y' if git == 1 else 'ies'}, "
        f"{format_size(mib)}, for Python {bundle.python} on {bundle.platform}\n"
        "copy the bundle, torchyard.lock and config/ to the other machine; on that machine, set "
        "offline: PATH in config/local.yaml, where PATH is the copy of the bundle"
    )


def _read_built_section(finished: FinishedBuild, subject: SelectedProfile) -> LockSection:
    """Return the build's lock section. Raises `TorchyardError` if torchyard.lock does not match."""
    for name, reason in finished.left_out.items():
        consequence = "the bundle lacks this extension, which cannot be built offline"
        print_warning(f"{name} is optional and was not built ({reason}): {consequence}")
    built = finished.build_section()
    pinned = finished.profile.pinned_plan
    locked = pinned.section if pinned else None
    merged = merge_kept_extensions(built, locked, finished.left_out)
    if locked and (differences := list(compare_sections(locked, merged))):
        message = f"the build differs from torchyard.lock: {differences[0]}"
        hint = "to build what is locked: doit build; to lock this build: doit lock; "
        hint += f"to list all differences: doit lock --check profile={subject.name}"
        raise TorchyardError(message, hint=hint)
    return built


def _collect_bundle(
    finished: FinishedBuild, section: LockSection, folder: Path, profile: str
) -> Bundle:
    log, repositories = finished.layout.logs / "bundle.log", {}
    for one in _list_repositories(finished):
        show_progress(f"bundling {redact_secrets(one.url)}")
        path = f"git/{bundle_archive_io.build_repository_name(one.url)}"
        bundle_archive_io.store_commit(one, folder / path, log)
        repositories[redact_secrets(one.url)] = path
    show_progress("downloading the packages")
    _collect_packages(finished, section, folder / WHEELS_FOLDER)
    return Bundle(
        schema=bundle_archive_io.BUNDLE_SCHEMA,
        torchyard=__version__,
        profile=profile,
        python=section.python,
        release=section.release,
        platform=section.platform,
        repositories=repositories,
        archives=dict(_collect_archives(finished, folder)),
    )


def _list_repositories(finished: FinishedBuild) -> Iterator[BundledCommit]:
    for stage in finished.profile.plan.stages:
        match stage.job:
            case SourceJob(kind="git") as job:
                yield from bundle_archive_io.list_commits(job.location, Path(job.tree), job.ref)
            case SourceJob(kind="path", location=location):
                advice = "copy the source tree to the other machine"
                print_warning(f"the bundle does not contain your source tree {location}; {advice}")
    for one in finished.extensions:
        if one.kind == "git":
            yield from bundle_archive_io.list_commits(one.location, Path(one.clone), one.ref)


def _collect_packages(finished: FinishedBuild, section: LockSection, wheels: Path) -> None:
    layout, log = finished.layout, finished.layout.logs / "bundle.log"
    wheels.mkdir(exist_ok=True)
    collector = PackageCollector(wheels, finished.deps.python, layout.build / "locking", log)
    for file, sha256 in _list_kept_files(finished):
        collector.copy_file(file, sha256)
    collector.download_packages(section.torch.packages, finished.choice.index)
    components = (*section.extensions.values(), section.torch)
    groups = [section.packages, section.toolkit]
    groups += [group for one in components for group in (one.requires, one.packages)]
    for packages in groups[:-2]:
        collector.download_packages(packages)
    digests = {one for group in groups for file_digests in group.values() for one in file_digests}
    collector.remove_unlisted(digests | {one.sha256 for one in components})


def _list_kept_files(finished: FinishedBuild) -> Iterator[tuple[Path, str]]:
    """Yield the path and the SHA-256 digest of each wheel and sdist that the build kept."""
    layout = finished.layout
    if finished.choice.strategy == "prebuilt":
        wheel = manifests.read_manifest(layout.compute_manifest_path("wheel"), Wheel)
        if wheel.artifact:
            yield Path(layout.wheelhouse) / wheel.artifact.name, wheel.artifact.sha256
    for job in finished.extensions:
        source = manifests.read_manifest(job.manifest, BuiltExtension).source
        if job.kind == "wheel":
            yield Path(layout.wheelhouse) / source["wheel"], source["sha256"]
        elif job.kind == "sdist":
            yield Path(job.work) / "sdist" / source["sdist"], source["sha256"]


def _collect_archives(finished: FinishedBuild, folder: Path) -> Iterator[tuple[str, str]]:
    """Copy the source tarballs to `folder`, and yield the URL and new path of each."""
    for stage in finished.profile.plan.stages:
        job = stage.job
        if isinstance(job, SourceJob) and job.kind == "tarball" and "://" in job.location:
            name = PurePosixPath(urlsplit(job.location).path).name
            (folder / "sources").mkdir(exist_ok=True)
            digest = manifests.read_manifest(job.manifest, SourceTree).digest
            collector = PackageCollector(folder / "sources", "", job.state, job.log)
            collector.copy_file(Path(job.state) / "downloads" / name, digest)
            yield redact_secrets(job.location), f"sources/{name}"
