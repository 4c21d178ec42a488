"""Read, verify and create bundles, and make the jobs of a plan fetch from a bundle."""

import contextlib
import re
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from tasks.core.canonical_json import compute_text_sha256
from tasks.core.errors import BadArtifactError, NotOwnedError, SettingsError, redact_secrets
from tasks.core.model import LockedPackages, Plan
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.install.target_environment_io import link_or_copy
from tasks.stages.source.model import SourceJob
from tasks.system import files, manifests, shell
from tasks.system.git import checkout_state
from tasks.system.git.checkout_state import capture_git_output
from tasks.system.git.git_command import build_git_command
from tasks.system.network import archive, index_client, network_access, package_indexes
from tasks.system.output import show_progress
from tasks.system.package_installer import format_hashed_requirements

BUNDLE_SCHEMA = 1
MANIFEST_NAME = "bundle.json"
WHEELS_FOLDER = "wheels"  # wheels and sdists, in the layout that pip and uv search
_CREATE_HINT = "create it on a machine with a network: doit bundle --dest PATH"
_COPY_HINT = "copy the bundle again, or create it again: doit bundle"


@dataclass(frozen=True)
class BundledFile:
    """The digest and the size of a bundled file."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Bundle:
    """The manifest bundle.json.

    `release` is the torch that torch.version: auto means. `repositories` and `archives` map URLs,
    without credentials, to paths of git repositories and source archives in the bundle. `files`
    maps the path of each file to its digest and size.
    """

    schema: int
    torchyard: str
    profile: str
    python: str
    platform: str
    release: str = ""
    repositories: Mapping[str, str] = field(default_factory=dict)
    archives: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, BundledFile] = field(default_factory=dict)


@dataclass(frozen=True)
class VerifiedFiles:
    """The verified files of a bundle. `stamps` maps "PATH SHA256" to size and modification time."""

    manifest: str = ""
    stamps: dict[str, str] = field(default_factory=dict)


def read_bundle(place: Path) -> Bundle:
    """Return the manifest of a bundle (a folder or a tar). Raises `SettingsError` if unreadable."""
    try:
        bundle = manifests.parse_json(_read_manifest(place), Bundle)
    except (OSError, KeyError, tarfile.TarError, ValueError) as error:
        message, hint = f"{place} does not exist", "correct the path"
        if place.exists():
            message = f"there is no bundle in {place}"
            hint = f"set offline to a tar or to a folder with {MANIFEST_NAME}"
        hint = f"{hint}; or {_CREATE_HINT}"
        raise SettingsError(message, location="offline", hint=hint) from error
    names = [*bundle.files, *bundle.repositories.values(), *bundle.archives.values()]
    paths = map(PurePosixPath, names)
    unsafe = [p for p in paths if p.is_absolute() or ".." in p.parts or {"\\", ":"} & {*str(p)}]
    if bundle.schema == BUNDLE_SCHEMA and not unsafe:
        return bundle
    message = f"this torchyard cannot read the format of the bundle {place}"
    raise SettingsError(message, location="offline", hint=_CREATE_HINT)


def require_complete_bundle(place: Path, bundle: Bundle) -> None:
    """Raise `SettingsError` if the bundle is a truncated tar, shorter than its listed files."""
    size, minimum = place.stat().st_size, sum(one.size for one in bundle.files.values())
    if place.is_file() and size < minimum:
        message = f"the bundle {place} is truncated: it has only {size} of at least {minimum} bytes"
        hint = f"copy the bundle again; or {_CREATE_HINT}"
        raise SettingsError(message, location="offline", hint=hint)


def _read_manifest(place: Path) -> bytes:
    if place.is_dir():
        return (place / MANIFEST_NAME).read_bytes()
    with tarfile.open(place, "r:") as tar:
        member = tar.next()
        if member and member.name == MANIFEST_NAME and (stream := tar.extractfile(member)):
            return stream.read()
        raise KeyError(MANIFEST_NAME)


def redirect_plan(plan: Plan, bundle: Bundle, folder: PurePath) -> Plan:
    """Return the plan with jobs that fetch from the unpacked bundle in `folder`."""
    paths = {**bundle.repositories, **bundle.archives}
    mirrors = {url: str(folder / path) for url, path in paths.items()}
    stages = []
    for stage in plan.stages:
        job: Any = stage.job
        if isinstance(job, SourceJob | ExtensionJob):
            mirror = mirrors.get(redact_secrets(job.location))
            own = {job.location: mirror} if mirror else {}  # with the credentials of the settings
            job = replace(job, mirrors={**job.mirrors, **mirrors, **own})
        stages.append(replace(stage, job=job))
    return replace(plan, stages=tuple(stages))


def resolve_bundle_folder(place: Path, build: PurePath) -> Path:
    """Return the folder of the unpacked bundle: `place`, or for a tar a folder in `build`."""
    return place if place.is_dir() else Path(build) / "offline"


def activate_bundle(place: Path, bundle: Bundle, build: PurePath) -> None:
    """Unpack and verify the bundle, then use it instead of the network in this process.

    Raises `BadArtifactError` for the first missing, changed or unlisted file.
    """
    folder = resolve_bundle_folder(place, build)
    record_path = Path(build) / "offline.json"
    if folder != place and not (folder.is_dir() and _try_read_bundle(folder) == bundle):
        files.remove_owned(folder)
        show_progress(f"unpacking {place.name}")
        try:
            archive.extract_archive(place, folder)
        except BadArtifactError as error:
            error.hint = _COPY_HINT
            raise
    _require_listed(place, bundle, folder)
    show_progress("verifying the bundle")
    wheels = files.create_owned_folder(Path(build) / "offline-wheels")
    previous = VerifiedFiles()
    if record_path.is_file():
        previous = manifests.read_manifest(record_path, VerifiedFiles)
    paths = {name: folder / name for name in bundle.files}
    paths |= _collect_wheels(paths, wheels)
    stamps = dict(_verify_files(bundle, folder, paths, previous.stamps))
    manifests.write_manifest(record_path, VerifiedFiles(str(place), stamps))
    network_access.start_offline_mode(wheels)


def _try_read_bundle(place: Path) -> Bundle | None:
    with contextlib.suppress(SettingsError):
        return read_bundle(place)
    return None


def _require_listed(place: Path, bundle: Bundle, folder: Path) -> None:
    """Raise `BadArtifactError` if the bundle has a link, or a file that its manifest lacks."""
    listed_names = {*bundle.files, MANIFEST_NAME, files.TAG}
    paths = (path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir())
    for path in paths:
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or name not in listed_names:
            if folder != place:
                files.remove_owned(folder)  # so that a corrected tar is unpacked again
            message = f"{name} is in the bundle, but {MANIFEST_NAME} does not list it as a file"
            hint = _COPY_HINT if folder != place else f"remove {path}, or {_COPY_HINT}"
            raise BadArtifactError(message, location=str(place), hint=hint)


def _collect_wheels(paths: Mapping[str, Path], dest: Path) -> dict[str, Path]:
    """Link or copy the wheels and sdists in `paths` into `dest`, and return their new paths.

    The keys of both mappings are paths in the bundle. Other files in `dest` are removed, since pip
    and uv install whatever they find in a folder.
    """
    names = {n: PurePosixPath(n) for n in paths}
    folder = PurePosixPath(WHEELS_FOLDER)
    wheels = {n: dest / path.name for n, path in names.items() if path.parent == folder}
    for path in dest.iterdir():
        if path not in wheels.values():
            files.remove_owned(path)
    for name, path in wheels.items():
        source = paths[name]
        if not source.is_file():
            raise _build_bundle_error(source, "is missing")
        if path.is_file() and _format_file_stamp(path) == _format_file_stamp(source):
            continue
        link_or_copy(source, path)
    return wheels


def _format_file_stamp(path: Path) -> str:
    """Return the size and modification time of a file as text."""
    stat = path.stat()
    return f"{stat.st_size} {stat.st_mtime_ns}"


def _verify_files(
    bundle: Bundle, folder: Path, paths: Mapping[str, Path], before: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Verify the bundled files, and yield the items of `VerifiedFiles.stamps`.

    `before` has the stamps of the last run. A file with an unchanged stamp is not read again.
    """
    for name, bundled_file in bundle.files.items():
        path = paths[name]
        key = f"{path} {bundled_file.sha256}"
        if not path.is_file():
            raise _build_bundle_error(path, "is missing")
        stamp = _format_file_stamp(path)
        if before.get(key) != stamp and files.read_artifact(path).sha256 != bundled_file.sha256:
            if path != folder / name:
                path.unlink()  # so that the file of a corrected bundle is copied again
            what = f"does not match its sha256 {bundled_file.sha256}"
            raise _build_bundle_error(folder / name, what)
        yield key, stamp


def _build_bundle_error(path: Path, what: str) -> BadArtifactError:
    message = f"{path.name} of the bundle {what}"
    return BadArtifactError(message, location=str(path), hint=_COPY_HINT)


_TAR_SUFFIX = ".tar"


def prepare_bundle_folder(dest: Path) -> Path:
    """Create the folder of a new bundle. Raises `NotOwnedError` if `dest` has the user's files."""
    is_tar = dest.suffix == _TAR_SUFFIX
    if dest.exists() and not (_try_read_bundle(dest) and (is_tar or files.is_marked(dest))):
        message = "this path exists and is not a bundle that torchyard created"
        hint = "choose another path for --dest"
        raise NotOwnedError(message, location=str(dest), hint=hint)
    folder = files.create_owned_folder(dest.with_name(f"{dest.name}.part{'s' * is_tar}"))
    files.mark_owned(folder)
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    return folder


def finish_bundle(folder: Path, dest: Path, bundle: Bundle) -> Bundle:
    """Write the manifest for the files in `folder`. Move the folder, or a tar of it, to `dest`."""
    bundled_files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.name not in (files.TAG, MANIFEST_NAME):
            artifact = files.read_artifact(path)
            bundled_file = BundledFile(artifact.sha256, artifact.size)
            bundled_files[path.relative_to(folder).as_posix()] = bundled_file
    finished_bundle = replace(bundle, files=bundled_files)
    manifests.write_manifest(folder / MANIFEST_NAME, finished_bundle)
    obsolete = folder
    if dest.suffix == _TAR_SUFFIX:
        partial_tar = dest.with_name(f"{dest.name}.part")
        # The manifest is the first member: it is read without searching the tar
        with tarfile.open(partial_tar, "w") as tar:
            for name in (MANIFEST_NAME, *sorted(bundled_files)):
                tar.add(folder / name, name, recursive=False, filter=_normalize_member)
        files.replace_path(partial_tar, dest)
    else:
        obsolete = dest.with_name(f"{dest.name}.old")
        files.remove_owned(obsolete)
        if dest.exists():
            dest.rename(obsolete)
        folder.rename(dest)
    files.remove_owned(obsolete)
    return finished_bundle


def _normalize_member(member: tarfile.TarInfo) -> tarfile.TarInfo:
    owner: dict[str, Any] = {"uid": 0, "gid": 0, "uname": "", "gname": ""}
    return member.replace(mtime=0, mode=0o644, **owner, deep=False)


@dataclass(frozen=True)
class PackageCollector:
    """A collector of a bundle's wheels and sdists in `folder`. The program `python` runs pip."""

    folder: Path
    python: str
    scratch: PurePath
    log: PurePath

    def copy_file(self, file: Path, sha256: str) -> None:
        """Copy a local file. Raises `BadArtifactError` if the file is missing or was changed."""
        target = self.folder / file.name
        if target.is_file() and files.read_artifact(target).sha256 == sha256:
            return
        if not file.is_file() or files.read_artifact(file).sha256 != sha256:
            message = f"{file.name} changed or was removed after the build"
            hint = "run: doit clean, doit build, then the same command again"
            raise BadArtifactError(message, location=str(file), hint=hint)
        partial_file = target.with_name(f"{target.name}.part")
        shutil.copyfile(file, partial_file)
        files.replace_path(partial_file, target)

    def download_packages(self, locked: LockedPackages, index: str = "") -> None:
        """Download the locked packages that `folder` lacks. `index` is an additional index."""
        if not locked:
            return
        requirements_file = self.scratch / "bundle.txt"
        files.write_atomic(requirements_file, format_hashed_requirements(locked))
        command = (
            *(self.python, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"),
            *("--require-hashes", "--progress-bar", "off", "-d", str(self.folder)),
            *package_indexes.build_extra_index_options(index),
            *("-r", str(requirements_file)),
        )
        index_client.run_index_client(command, "fetch the packages", self.log)

    def remove_unlisted(self, digests: set[str]) -> None:
        """Remove each file in `folder` whose sha256 is not in `digests`."""
        for path in self.folder.iterdir():
            if files.read_artifact(path).sha256 not in digests:
                path.unlink()


_UNNEEDED_FILES = ("hooks", "info", "description", "FETCH_HEAD", "branches", "logs", "ORIG_HEAD")


@dataclass(frozen=True)
class BundledCommit:
    """A commit of the repository `url`, checked out in `tree`. `ref` is the requested ref."""

    url: str
    tree: Path
    commit: str
    ref: str = ""


def list_commits(url: str, tree: Path, ref: str) -> Iterator[BundledCommit]:
    """Yield the checked-out commits of a clone and its submodules."""
    state = checkout_state.read_git_state(tree)
    yield BundledCommit(url, tree, state.commit, ref)
    for path, commit in state.submodules.items():
        inner = tree / path
        origin = capture_git_output(inner, "config", "--get", "remote.origin.url").strip()
        yield BundledCommit(origin, inner, commit)


def build_repository_name(url: str) -> str:
    """Return the folder name for a repository: `NAME-DIGEST.git`, with a digest of the URL."""
    base_name = re.sub(r"[^A-Za-z0-9.-]+", "-", url.rstrip("/").rpartition("/")[2]).strip("-.")
    digest = compute_text_sha256(redact_secrets(url))[:10]
    return f"{base_name.removesuffix('.git') or 'repository'}-{digest}.git"


def store_commit(one: BundledCommit, bare: Path, log: PurePath) -> None:
    """Store a commit in the bare repository `bare`. Create the repository if it is missing."""

    def run_git(*argv: str) -> None:
        what = f"bundle {redact_secrets(one.url)}"
        shell.run_command(build_git_command(*argv, what=what, at=bare, log=log, local=True))

    bare.mkdir(parents=True, exist_ok=True)
    run_git("init", "--quiet", "--bare")
    run_git("config", "uploadpack.allowAnySHA1InWant", "true")
    config = ("-c", "fetch.unpackLimit=1", "-c", "uploadpack.allowAnySHA1InWant=true")
    fetch = ("fetch", "--quiet", "--no-tags", "--depth", "1", "--")
    run_git(*config, *fetch, one.tree.absolute().as_uri(), one.commit)
    run_git("update-ref", f"refs/heads/torchyard/{one.commit}", one.commit)
    if one.ref and one.ref != "HEAD" and not one.commit.startswith(one.ref):
        for kind in ("heads", "tags"):  # the ref may be a branch or a tag
            run_git("update-ref", f"refs/{kind}/{one.ref}", one.commit)
    run_git("symbolic-ref", "HEAD", f"refs/heads/torchyard/{one.commit}")
    for name in _UNNEEDED_FILES:
        files.remove_owned(bare / name)
