"""Find the project of a folder, and the folders of the user that all projects share."""

import os
import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tasks.core.errors import SettingsError
from tasks.core.project import OUTPUT_FOLDER, PROJECT_FILE, USER_SETTINGS_NAME, Project

CACHE_VARIABLE, CONFIG_VARIABLE = "TORCHYARD_CACHE_DIR", "TORCHYARD_CONFIG_DIR"
_PROJECT_MARKS = (OUTPUT_FOLDER, ".git")
_CHECKOUT_FILES = ("dodo.py", "tasks/cli/session.py")


def find_project(folder: Path, code: Path, environ: Mapping[str, str] = os.environ) -> Project:
    """Return the project that `folder` belongs to.

    It is the nearest folder with a torchyard.yaml, else the nearest git work tree or folder with a
    `.torchyard` below the home folder, else `folder` itself. `code` is the folder of the running
    torchyard: if it is a checkout that contains `folder`, the checkout is the project. Raises
    `SettingsError` if there is no such folder.
    """
    if not folder.is_dir():
        hint = "write the path of an existing folder after -C"
        raise SettingsError("this folder does not exist", location=str(folder), hint=hint)
    here = folder.resolve()
    folders = (here, *here.parents)
    named = (one for one in folders if (one / PROJECT_FILE).is_file())
    if root := next(named, None):
        return _create_project(root, code, environ)
    if code in folders and is_checkout(code):
        return open_checkout(code, environ)
    # The home folder can have both for other reasons: it is not the project of all its folders
    below_home = [one for one in folders if one == here or not _is_home_or_above(one)]
    marked = (one for one in below_home if any((one / name).exists() for name in _PROJECT_MARKS))
    return _create_project(next(marked, here), code, environ)


def _is_home_or_above(folder: Path) -> bool:
    try:
        return Path.home().is_relative_to(folder)
    except RuntimeError:  # a user without a home folder
        return False


def _create_project(root: Path, code: Path, environ: Mapping[str, str]) -> Project:
    cache = find_cache_folder(environ) or root / OUTPUT_FOLDER / "cache"
    project = Project.of_folder(root, code, cache, find_user_settings(environ))
    return replace(project, machine=platform.node())


def open_checkout(root: Path, environ: Mapping[str, str] = os.environ) -> Project:
    """Return the project of a checkout of torchyard."""
    cache, user_settings = find_cache_folder(environ), find_user_settings(environ)
    return replace(Project.of_checkout(root, cache, user_settings), machine=platform.node())


def is_checkout(folder: Path) -> bool:
    """Return True if the folder is a checkout of torchyard."""
    return all((folder / name).is_file() for name in _CHECKOUT_FILES)


def find_cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the user's cache folder: TORCHYARD_CACHE_DIR, else that of the platform.

    Returns None for a user without a home folder.
    """
    if folder := environ.get(CACHE_VARIABLE):
        return Path(folder).expanduser().absolute()
    import platformdirs  # noqa: PLC0415 - not needed if the variable is set

    try:
        return platformdirs.user_cache_path("torchyard", appauthor=False)
    except RuntimeError:
        return None


def find_user_settings(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the user's settings for all projects, which may not exist.

    The file is config.yaml in TORCHYARD_CONFIG_DIR, else in the platform's folder for settings.
    Returns None for a user without a home folder.
    """
    if folder := environ.get(CONFIG_VARIABLE):
        return Path(folder).expanduser().absolute() / USER_SETTINGS_NAME
    import platformdirs  # noqa: PLC0415 - not needed if the variable is set

    try:
        return platformdirs.user_config_path("torchyard", appauthor=False) / USER_SETTINGS_NAME
    except RuntimeError:
        return None
