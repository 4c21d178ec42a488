"""Query the user's environment through its interpreter, and list, compare and replace its files.

A file is replaced by a rename, never overwritten in place, because it may be mapped or shared.
"""

import contextlib
import glob
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath, PurePosixPath

import packaging
from packaging.utils import canonicalize_name

from tasks.core.errors import CommandFailedError, TorchyardError
from tasks.core.model import Command
from tasks.stages.install import environment_report_io
from tasks.stages.install.install_journal_io import BackupFile, InstalledFile
from tasks.stages.install.target_interpreter_io import SETTING_KEY
from tasks.system import files, manifests, shell
from tasks.wheels import wheel_record

TEMPORARY_NAME = ".torchyard-part"  # a fixed name, so that it is found after a SIGKILL
_QUERY_TIMEOUT = 120.0  # seconds: there may be thousands of packages on a cold disk


@dataclass(frozen=True)
class Distribution:
    """An installed package. `installer` is the program that installed it, such as "conda"."""

    name: str
    version: str
    installer: str
    requires: tuple[str, ...]


@dataclass(frozen=True)
class EnvironmentInfo:
    """The interpreter's report on its environment. `tags` are the accepted wheel tags, best first.

    `managed` is the path of EXTERNALLY-MANAGED. `user_torch` is the path of a torch that
    pip installed with `--user`. A missing path is "".
    """

    version: str
    tags: tuple[str, ...]
    markers: Mapping[str, str]
    prefix: str
    purelib: str
    platlib: str
    scripts: str
    managed: str
    user_torch: str
    distributions: tuple[Distribution, ...]


@dataclass(frozen=True)
class TargetEnvironment:
    """The environment of the interpreter `python`, described by `info`."""

    python: str
    info: EnvironmentInfo

    @property
    def prefix(self) -> Path:
        """Return the root folder of the environment, with symbolic links resolved."""
        return Path(self.info.prefix)

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """Return the site-packages folders relative to the prefix. Fails for folders outside it."""
        return tuple({self._resolve_below(p): 0 for p in (self.info.platlib, self.info.purelib)})

    def list_links(self) -> Mapping[str, str]:
        """Return the links below the prefix that lead to site-packages, such as `lib64` → `lib`.

        The paths and targets of the links are relative to the prefix.
        """
        links: dict[str, str] = {}
        for folder in map(Path, (self.info.platlib, self.info.purelib)):
            for path in (folder, *folder.parents):
                link = Path(os.path.realpath(path.parent), path.name)
                if path.is_symlink() and link.is_relative_to(self.prefix):
                    links[link.relative_to(self.prefix).as_posix()] = self._resolve_below(str(path))
        return links

    def _resolve_below(self, folder: str) -> str:
        real = Path(os.path.realpath(folder))
        if not real.is_relative_to(self.prefix):
            message = f"the packages of {self.python} are in {folder}, outside of {self.prefix}"
            hint = f"set {SETTING_KEY} to the Python of a venv or of a conda environment"
            raise TorchyardError(message, location=SETTING_KEY, hint=hint)
        return real.relative_to(self.prefix).as_posix()

    def list_versions(self) -> dict[str, str]:
        """Return the versions of the installed distributions by normalized name."""
        named = (one for one in self.info.distributions if one.name)
        return {canonicalize_name(one.name): one.version for one in named}


def query_environment(python: PurePath) -> TargetEnvironment:
    """Run the interpreter once, without writing anything, and return its environment."""
    script, location = environment_report_io.__file__, f"{SETTING_KEY} ({python})"
    argv = (str(python), "-B", script, str(Path(packaging.__file__).parent.parent))
    step_name = "list the installed packages"
    command = Command(argv, shell.build_host_env(), step_name, timeout=_QUERY_TIMEOUT)
    try:
        output = shell.capture_output(command)
    except CommandFailedError as error:
        error.location = location
        raise
    prefix = environment_report_io.OUTPUT_PREFIX
    report = next((line for line in output.splitlines() if line.startswith(prefix)), "")
    try:
        info = manifests.parse_json(report.removeprefix(prefix), EnvironmentInfo)
    except ValueError as error:
        message = f"{python} did not print its installed packages as JSON"
        raise TorchyardError(message, location=location) from error
    return TargetEnvironment(str(python), info)


def read_link(link: Path) -> str:
    """Return the target of a link as text, because a Path would drop a leading "./"."""
    return os.readlink(link)  # noqa: PTH115


def is_installed_file(path: Path, placed: InstalledFile | None) -> bool:
    """Return True if `path` is still the installed file `placed`; False if `placed` is `None`."""
    if placed is None or not os.path.lexists(path):
        return False
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size != placed.size:
        return False
    has_same_time = status.st_mtime_ns == placed.mtime_ns
    return has_same_time or files.read_artifact(path).sha256 == placed.sha256


def is_original_file(path: Path, backup: BackupFile, store: Path | None = None) -> bool:
    """Return True if `path` has the content recorded in `backup`. The copy `store` is optional."""
    if backup.link or path.is_symlink():
        return path.is_symlink() and read_link(path) == backup.link
    if not path.is_file():
        return False
    if store and store.is_file() and path.samefile(store):
        return True
    if store and store.is_file() and path.stat().st_size != store.stat().st_size:
        return False
    return files.read_artifact(path).sha256 == backup.sha256


def link_or_copy(source: Path, target: Path) -> None:
    """Hard-link a file or, if this fails, copy it. A symbolic link stays a link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if source.is_symlink():
        target.symlink_to(read_link(source))
        return
    files.link_or_copy(source, target)


def replace_file(source: Path, target: Path) -> None:
    """Replace `target` with a hard link to `source`, or with a copy if hard-linking fails."""
    part = target.with_name(TEMPORARY_NAME)
    link_or_copy(source, part)
    files.replace_path(part, target)
    part.unlink(missing_ok=True)  # a rename between two hard links of one file does nothing


def list_bytecode(path: Path) -> Iterator[Path]:
    """Yield the bytecode files of a Python source file."""
    if path.suffix == ".py":
        yield from path.parent.glob(f"__pycache__/{glob.escape(path.stem)}.*.pyc")


def remove_empty_folders(prefix: Path, folders: Iterable[str]) -> None:
    """Remove leftover temporary files from `folders`, then each folder that is empty."""
    for name in sorted(folders, key=lambda name: name.count("/"), reverse=True):
        (prefix / name / TEMPORARY_NAME).unlink(missing_ok=True)
        for folder in (prefix / name / "__pycache__", prefix / name):
            with contextlib.suppress(OSError):  # not empty or missing
                folder.rmdir()


def list_parents(paths: Iterable[str]) -> set[str]:
    """Return all parent folders of relative paths."""
    folders = {path.rpartition("/")[0] for path in paths}
    return {str(p) for folder in folders for p in PurePosixPath(folder, "_").parents} - {"."}


@dataclass(frozen=True)
class StagedPackages:
    """The unpacked packages. All paths are relative to the prefix.

    `versions` maps normalized package names to versions, `records` maps them to paths of RECORD.
    `placed` maps paths to the unpacked files.
    """

    versions: Mapping[str, str]
    records: Mapping[str, str]
    placed: Mapping[str, InstalledFile]


def prepare_staging(staged: Path, links: Mapping[str, str]) -> None:
    """Create `staged` with the links of the environment, so that the same relative paths work."""
    staged.mkdir(parents=True)
    for link, folder in links.items():
        (staged / folder).mkdir(parents=True, exist_ok=True)
        place = staged / link
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(staged / folder, place.parent), target_is_directory=True)


def read_staging(staged: Path, sites: Iterable[str]) -> StagedPackages:
    """Return the packages in the site-packages folders `sites` of `staged`."""
    versions: dict[str, str] = {}
    records: dict[str, str] = {}
    placed: dict[str, InstalledFile] = {}
    infos = (info for site in sites for info in sorted((staged / site).glob("*.dist-info")))
    for info in infos:
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        owner = canonicalize_name(name)
        versions[owner] = version
        records[owner] = (info / "RECORD").relative_to(staged).as_posix()
        for row in wheel_record.parse_record((info / "RECORD").read_text(encoding="utf-8")):
            path = _resolve_below_prefix(staged, info.parent, row.path)
            if path is None or not (staged / path).is_file():
                message = f"the RECORD of {owner} lists {row.path}, but this file is missing"
                hint = "build or download this wheel again: its RECORD is wrong"
                raise TorchyardError(message, location=str(info / "RECORD"), hint=hint)
            file, digest = staged / path, wheel_record.convert_to_hex(row.digest)
            digest = digest or files.read_artifact(file).sha256
            status = file.lstat()
            placed[path] = InstalledFile(owner, digest, status.st_size, status.st_mtime_ns)
    return StagedPackages(versions, records, placed)


def _resolve_below_prefix(prefix: Path, site: Path, name: str) -> str | None:
    """Return `site`/`name` relative to `prefix`, or None if it is outside of `prefix`."""
    path = Path(os.path.normpath(site / name))
    return path.relative_to(prefix).as_posix() if path.is_relative_to(prefix) else None


_INFO_SUFFIXES = (".dist-info", ".egg-info", ".egg-link", ".egg")


@dataclass(frozen=True)
class InstalledDistribution:
    """An installed distribution, possibly with the metadata of several versions.

    `infos` are the metadata paths: .dist-info folders, or .egg-info and egg files. `version` lists
    all versions. `listed` has conda's file lists for metadata paths without RECORD.
    """

    name: str
    version: str
    infos: tuple[Path, ...]
    listed: Mapping[Path, tuple[str, ...]]

    @property
    def unrecorded_infos(self) -> tuple[Path, ...]:
        """Return the metadata paths with neither a RECORD nor a file list of conda."""
        unlisted = (info for info in self.infos if info not in self.listed)
        return tuple(info for info in unlisted if not (info / "RECORD").is_file())

    @property
    def record_digest(self) -> str:
        """Return the sha256 of RECORD, or "" if it is missing or `infos` has several paths."""
        return compute_record_digest(self.infos[0] / "RECORD") if len(self.infos) == 1 else ""


def compute_record_digest(record: Path) -> str:
    """Return the sha256 of a RECORD, or "" if the file is missing."""
    return files.read_artifact(record).sha256 if record.is_file() else ""


def find_distributions(
    prefix: Path, sites: Iterable[str], names: Iterable[str]
) -> Mapping[str, InstalledDistribution]:
    """Return the installed distributions whose normalized names are in `names`, by name."""
    requested, infos_by_name = set(names), dict[str, list[Path]]()
    for info, name in (one for site in sites for one in list_site_infos(prefix / site)):
        if name in requested:
            infos_by_name.setdefault(name, []).append(info)
    distributions = {}
    for name, infos in infos_by_name.items():
        unrecorded = (info for info in infos if not (info / "RECORD").is_file())
        listed = {info: paths for info in unrecorded if (paths := _list_conda_files(prefix, info))}
        stems = ["" if info.suffix == ".egg-link" else info.stem for info in infos]
        versions = [stem.partition("-")[2].partition("-")[0] or "?" for stem in stems]
        version = ", ".join(dict.fromkeys(versions))
        distributions[name] = InstalledDistribution(name, version, tuple(infos), listed)
    return distributions


def _list_conda_files(prefix: Path, info: Path) -> tuple[str, ...]:
    """Return the files of the conda package that contains `info`, or () if there is none.

    https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html
    """
    beginning = info.relative_to(prefix).as_posix()
    for meta in sorted((prefix / "conda-meta").glob("*.json")):
        try:
            files = json.loads(meta.read_text(encoding="utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if any(path == beginning or path.startswith(f"{beginning}/") for path in files):
            return tuple(path for path in files if ".." not in path.split("/"))
    return ()


def list_site_infos(site: Path) -> Iterator[tuple[Path, str]]:
    """Yield the metadata path and the normalized name of each distribution in `site`."""
    for info in sorted(site.iterdir()) if site.is_dir() else ():
        if info.suffix in _INFO_SUFFIXES:
            name = info.stem if info.suffix == ".egg-link" else info.stem.partition("-")[0]
            yield info, canonicalize_name(name)


def list_distribution_files(prefix: Path, one: InstalledDistribution) -> Iterator[str]:
    """Yield all files of the distribution `one`, including bytecode, relative to `prefix`."""
    for info in one.infos:
        record = info / "RECORD"
        text = record.read_text(encoding="utf-8") if record.is_file() else ""
        rows = wheel_record.parse_record(text)
        recorded = (_resolve_below_prefix(prefix, info.parent, row.path) for row in rows)
        listed = (*one.listed.get(info, ()), *filter(None, recorded))
        paths = (*(prefix / name for name in listed), *info.rglob("*"))
        for path in (path for path in paths if path.name != TEMPORARY_NAME):
            for file in (path, *list_bytecode(path)):
                if file.is_symlink() or file.is_file():
                    yield file.relative_to(prefix).as_posix()
