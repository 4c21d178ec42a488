"""Query the user's environment through its interpreter."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath

import packaging
from packaging.utils import canonicalize_name

from tasks.core.errors import CommandFailedError, TorchyardError
from tasks.core.model import Command
from tasks.stages.install import environment_report_io
from tasks.stages.install.target_interpreter_io import SETTING_KEY
from tasks.system import manifests, shell

_QUERY_TIMEOUT = 120.0  # seconds: there may be thousands of packages on a cold disk


@dataclass(frozen=True)
class Distribution:
    """An installed package. `requires` is its Requires-Dist, `installer` is "pip" or "conda"."""

    name: str
    version: str
    installer: str
    requires: tuple[str, ...]


@dataclass(frozen=True)
class EnvironmentInfo:
    """The interpreter's report on its environment. `tags` are the accepted wheel tags, best first.

    `managed` is the path of EXTERNALLY-MANAGED, `user_torch` the path of a torch in the user's
    site-packages; each is "" if missing.
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
    """The environment of the interpreter `python`. `prefix` contains no links."""

    python: str
    info: EnvironmentInfo

    @property
    def prefix(self) -> Path:
        """Return the root folder of the environment."""
        return Path(self.info.prefix)

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """Return the site-packages folders relative to the prefix. One outside is an error."""
        return tuple({self._resolve_below(p): 0 for p in (self.info.platlib, self.info.purelib)})

    def list_links(self) -> Mapping[str, str]:
        """Return the links below the prefix that lead to site-packages, such as `lib64` → `lib`.

        The result maps the path of a link to the target of the link, both relative to the prefix.
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
            raise TorchyardError(
                f"the packages of {self.python} are in {folder}, outside of {self.prefix}",
                location=SETTING_KEY,
                hint=f"set {SETTING_KEY} to the Python of a venv or of a conda environment",
            )
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
        raise TorchyardError(
            f"{python} did not print its installed packages as JSON", location=location
        ) from error
    return TargetEnvironment(str(python), info)
