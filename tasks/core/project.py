"""Define a project: the folder that settings and outputs belong to.

There are two kinds. A user's project has torchyard.yaml, and everything that is built is in
`.torchyard`. A checkout of torchyard is its own project: its settings are in `config`, and its
outputs in `build` and `wheelhouse`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

PROJECT_FILE, PROJECT_LOCAL_FILE = "torchyard.yaml", "torchyard.local.yaml"
CHECKOUT_LOCAL_FILE = "config/local.yaml"
OUTPUT_FOLDER = ".torchyard"
LOCK_NAME = "torchyard.lock"
BUILT_IN_PROFILE = "quickstart"  # the default where no torchyard.yaml exists
USER_SETTINGS_NAME = "config.yaml"
# At the start of a path in the settings: the folder with the built-in config and templates
BUILT_IN_PREFIX = "{torchyard}/"


@dataclass(frozen=True)
class Project:
    """The folders of a project.

    Relative paths in the settings start at `root`. `code` has the built-in `config` and
    `templates`. `outputs` has everything that is built. `cache` is shared by all projects of the
    user. `user_settings` is the file with the user's settings for all projects, if there is one.
    `machine` is the name of this machine: others may use the same cache over a network.
    """

    root: PurePath
    code: PurePath
    outputs: PurePath
    cache: PurePath
    user_settings: PurePath | None = None
    machine: str = ""

    @classmethod
    def of_checkout(
        cls, root: PurePath, cache: PurePath | None = None, user_settings: PurePath | None = None
    ) -> Project:
        """Return the project of a checkout. By default, its cache is in its build folder."""
        return cls(root, root, root, cache or root / "build", user_settings)

    @classmethod
    def of_folder(
        cls,
        root: PurePath,
        code: PurePath,
        cache: PurePath,
        user_settings: PurePath | None = None,
    ) -> Project:
        """Return the project of a user's folder."""
        return cls(root, code, root / OUTPUT_FOLDER, cache, user_settings)

    @property
    def is_checkout(self) -> bool:
        """Return True if this is a checkout of torchyard."""
        return self.root == self.outputs

    @property
    def jobserver(self) -> PurePath:
        """Return the folder of the jobserver, which all builds of the user on a machine share."""
        return self.cache / ".jobs" / self.machine

    @property
    def config(self) -> PurePath:
        """Return the folder with the built-in settings, profiles and knowledge."""
        return self.code / "config"

    @property
    def knowledge(self) -> PurePath:
        """Return the folder with the facts about GPUs, releases, extensions and failures."""
        return self.config / "knowledge"

    @property
    def templates(self) -> PurePath:
        """Return the folder with the Jinja templates and the smoke extension."""
        return self.code / "templates"

    @property
    def settings_file(self) -> PurePath:
        """Return the file with the user's settings for this project."""
        return self.root / self.settings_name

    @property
    def settings_name(self) -> str:
        """Return the name of `settings_file` in messages."""
        return CHECKOUT_LOCAL_FILE if self.is_checkout else PROJECT_FILE

    @property
    def lock_file(self) -> PurePath:
        """Return the path of torchyard.lock."""
        return self.root / LOCK_NAME

    def resolve_path(self, path: str) -> PurePath:
        """Return the absolute path of a path in the settings."""
        if path.startswith(BUILT_IN_PREFIX):
            return self.code / path.removeprefix(BUILT_IN_PREFIX)
        return self.root / path

    def identify_location(self, location: str) -> str:
        """Return an absolute path without the folder of torchyard, which changes in an update.

        Any other location is returned unchanged.
        """
        if self.is_checkout or not PurePath(location).is_relative_to(self.code):
            return location
        return BUILT_IN_PREFIX + PurePath(location).relative_to(self.code).as_posix()

    def compute_build_folder(self, profile: str) -> PurePath:
        """Return the build folder of a profile or of a matrix entry (`NAME@ENTRY`)."""
        return self.outputs / "build" / profile.replace("@", ".")  # @ is special in package tools
