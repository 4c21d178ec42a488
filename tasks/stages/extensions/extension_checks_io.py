"""Check the paths in an extension's settings against the files of the checkout."""

from __future__ import annotations

from pathlib import Path

from tasks.core.errors import SettingsError
from tasks.settings.schema import Extension, Settings

_PROJECT_FILES = ("setup.py", "pyproject.toml")


def check_extensions(settings: Settings, root: Path) -> None:
    """Raise `SettingsError` for a path without a project, or a missing smoke script or patch."""
    for index, extension in enumerate(settings.extensions):
        key = f"extensions.{index} ({extension.name})"
        if extension.path:
            _require_project(extension, root, key)
        if extension.smoke and not (root / extension.smoke.script).is_file():
            raise SettingsError(
                f"there is no file {extension.smoke.script}",
                location=f"{key}.smoke.script",
                hint="name a Python file, relative to the checkout",
            )
        for patch in extension.patches:
            if not (root / patch).is_file():
                raise SettingsError(
                    f'there is no patch "{patch}"',
                    location=f"{key}.patches",
                    hint=f"looked at {root / patch}",
                )


def _require_project(extension: Extension, root: Path, key: str) -> None:
    folder = root / (extension.path or "") / (extension.subdirectory or "")
    if not folder.is_dir():
        raise SettingsError(
            f"there is no folder {folder}", location=f"{key}.path", hint="correct the path"
        )
    if not any((folder / name).is_file() for name in _PROJECT_FILES):
        raise SettingsError(
            f"{folder} has no setup.py or pyproject.toml",
            location=f"{key}.path",
            hint="name the folder of the project itself, or set subdirectory",
        )
