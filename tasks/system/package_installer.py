"""Install packages into a Python environment with uv, or with pip if uv cannot run."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from tasks.core.errors import MissingToolError, TorchyardError
from tasks.core.model import LockedPackages
from tasks.system import files
from tasks.system.environments import InstalledPackage
from tasks.system.network import index_client, package_indexes
from tasks.system.output import print_warning

# `pip download` runs the setup.py of an sdist to read its name and version
# (github.com/pypa/pip/issues/1884). This replacement takes both from the requirement.
_PIP_WITHOUT_SETUP = """
import pathlib, sys
from pip._internal.req.req_install import InstallRequirement

def prepare_metadata(self, *_, **__):
    (pin,) = self.req.specifier
    name = self.req.name.replace("-", "_")
    folder = pathlib.Path(self.source_dir, f"{name}-{pin.version}.dist-info")
    folder.mkdir()
    fields = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {pin.version}\\n"
    (folder / "METADATA").write_text(fields)
    self.metadata_directory = str(folder)

InstallRequirement.prepare_metadata = prepare_metadata
from pip._internal.cli.main import main
sys.exit(main())
"""


@dataclass(frozen=True)
class DownloadRequest:
    """A wheel or sdist to download into the folder `landing` for the interpreter `python`.

    `index` is a URL or a folder of wheels; an empty string means the default index. The
    `requirement` of an sdist must pin a version ("name==1.0").
    """

    python: str
    requirement: str
    index: str
    landing: PurePath
    log: PurePath
    sdist: bool = False


@dataclass(frozen=True)
class InstallOptions:
    """Options of an install. `index` is an extra index or "", `files` are requirements files."""

    constraints: tuple[str, ...] = ()
    index: str = ""
    files: tuple[PurePath, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class PackageInstaller:
    """An installer of packages for `python`: uv, or pip if `uv` is `None`."""

    python: str
    uv: str | None
    log: PurePath
    target: PurePath | None = None

    def install_requirements(
        self, requirements: Sequence[str], extra: InstallOptions = InstallOptions(), what: str = ""
    ) -> None:
        """Install requirements (names or wheel paths) that no installed package satisfies."""
        if extra.constraints:
            text = "".join(f"{pin}\n" for pin in extra.constraints)
            files.write_atomic(self.log.with_name("constraints.txt"), text)
        argv = self.build_install_argv(requirements, extra)
        what = what or f"install {', '.join(requirements) or 'requirements'}"
        index_client.run_index_client(argv, what, self.log)

    def install_locked(self, locked: LockedPackages, index: str = "") -> None:
        """Install the locked packages; raise `BadArtifactError` if a file's digest differs."""
        if not locked:
            return
        requirements_file = self.log.with_name(f"{PurePath(self.log).stem}-locked.txt")
        files.write_atomic(requirements_file, format_hashed_requirements(locked))
        options = ("--require-hashes", "--no-deps")
        extra = InstallOptions(index=index, files=(requirements_file,), options=options)
        self.install_requirements((), extra, "install the packages of torchyard.lock")

    def build_install_argv(
        self, requirements: Sequence[str], extra: InstallOptions = InstallOptions()
    ) -> tuple[str, ...]:
        """Return the install command of uv or pip, with `--find-links` if the index is a folder."""
        pip = (self.python, "-m", "pip", "install", "--disable-pip-version-check")
        uv = (self.uv or "uv", "pip", "install", "--python", self.python, "--no-progress")
        return (
            *(uv if self.uv else pip),
            *(("--target", str(self.target)) if self.target else ()),
            *(("-c", str(self.log.with_name("constraints.txt"))) if extra.constraints else ()),
            *package_indexes.build_extra_index_options(extra.index),
            *extra.options,
            *(part for path in extra.files for part in ("-r", str(path))),
            *requirements,
        )

    def install_wheel(self, wheel: PurePath, extra: InstallOptions = InstallOptions()) -> None:
        """Install a wheel file, even if another build of the same version is installed."""
        what, requirements = f"install {wheel.name}", [str(wheel)]
        if self.uv:
            reinstall = ("--reinstall-package", wheel.name.partition("-")[0])
            extra = replace(extra, options=(*extra.options, *reinstall))
        self.install_requirements(requirements, extra, what)
        if not self.uv:
            extra = InstallOptions(options=("--force-reinstall", "--no-deps"))
            self.install_requirements(requirements, extra, what)


def format_hashed_requirements(locked: LockedPackages) -> str:
    """Return the text of a requirements file with a `--hash` option for every digest."""
    lines = (" --hash=sha256:".join((pin, *locked[pin])) for pin in sorted(locked))
    return "".join(f"{line}\n" for line in lines)


def download_distribution(job: DownloadRequest) -> Path:
    """Download a wheel or sdist without requirements, and without running its code."""
    files.remove_owned(job.landing)
    files.create_owned_folder(job.landing)
    index_client.run_index_client(build_download_argv(job), f"fetch {job.requirement}", job.log)
    return next(path for path in Path(job.landing).iterdir() if path.name != files.TAG)


def build_download_argv(job: DownloadRequest) -> tuple[str, ...]:
    """Return the `pip download` command, with `--find-links` if the index is a folder."""
    form = ("--no-binary=:all:", "--no-build-isolation") if job.sdist else ("--only-binary=:all:",)
    pip = ("-c", _PIP_WITHOUT_SETUP) if job.sdist else ("-m", "pip")
    argv = (job.python, *pip, "download", "--no-deps", *form, "--progress-bar", "off")
    index = package_indexes.build_only_index_options(job.index)
    return (*argv, "-d", str(job.landing), *index, job.requirement)


@dataclass(frozen=True)
class DigestLister:
    """A reader of package digests from an index. uv writes temporary files to `folder`."""

    uv: str | None
    python: str
    folder: PurePath
    log: PurePath

    def find_digests(self, packages: Iterable[InstalledPackage], index: str = "") -> LockedPackages:
        """Look up the sha256 digests of packages in `index` and in the default index."""
        requested = {package.name: package for package in packages}
        if not requested:
            return {}
        if not self.uv:
            hint = "install uv next to doit: pip install uv"
            message = "uv is not installed; it is required to read the sha256 of packages"
            raise MissingToolError(message, hint=hint)
        pins_file, lock_file = self.folder / "pins.txt", self.folder / "pylock.toml"
        files.write_atomic(pins_file, "".join(f"{package.pin}\n" for package in requested.values()))
        argv = (self.uv, "pip", "compile", "--quiet", "--no-deps", "--no-header", "--python")
        output = ("--format", "pylock.toml", "--output-file", str(lock_file), "--upgrade")
        index_options = package_indexes.build_extra_index_options(index)
        command = (*argv, self.python, *output, *index_options, str(pins_file))
        index_client.run_index_client(command, "ask the index for digests", self.log)
        document = tomllib.loads(Path(lock_file).read_text(encoding="utf-8"))
        rows = document.get("packages", ())
        listed: dict[str, Mapping[str, Any]] = {canonicalize_name(row["name"]): row for row in rows}
        digests = {n: _select_digests(requested[n], listed.get(n, {})) for n in sorted(requested)}
        return {requested[name].pin: digests[name] for name in digests}


def _select_digests(installed: InstalledPackage, listed: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the digests of the compatible wheels, else of the sdist, else of the other wheels."""
    wheels = list(listed.get("wheels", ()))
    sdists = [listed["sdist"]] if "sdist" in listed else []
    compatible = [wheel for wheel in wheels if installed.tags & _parse_wheel_tags(wheel)]
    if sdists and not compatible:
        print_warning(
            f"{installed.pin} was built from an sdist: the lock does not pin the build tools of "
            "this package, so another build of it can differ"
        )
    hashes = (artifact.get("hashes", {}) for artifact in compatible or sdists or wheels)
    digests = {entry["sha256"] for entry in hashes if "sha256" in entry}
    if not digests:
        hint = "ask the owner of the index for sha256 digests, or set lock: false"
        raise TorchyardError(f"the index lists no sha256 for {installed.pin}", hint=hint)
    return tuple(sorted(digests))


def _parse_wheel_tags(wheel: Mapping[str, Any]) -> frozenset[str]:
    location = wheel.get("url") or wheel.get("path", "")
    name = wheel.get("name") or PurePosixPath(unquote(urlsplit(str(location)).path)).name
    try:
        return frozenset(map(str, parse_wheel_filename(name)[3]))
    except InvalidWheelFilename:
        return frozenset()
