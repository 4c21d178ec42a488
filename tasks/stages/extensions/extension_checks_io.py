"""Check the paths in an extension's settings against the files of the project."""

from pathlib import Path

from tasks.core.errors import SettingsError
from tasks.core.project import Project
from tasks.settings.schema import Settings


def check_extensions(settings: Settings, project: Project) -> None:
    """Raise `SettingsError` for a path without a project, or a missing smoke script or patch."""
    for index, extension in enumerate(settings.extensions):
        place, hint = f"extensions.{index} ({extension.name})", "correct the path"
        folder = Path(project.resolve_path(extension.path or ""), extension.subdirectory or "")
        if extension.path and not folder.is_dir():
            message = f"the folder {folder} does not exist"
            raise SettingsError(message, location=f"{place}.path", hint=hint)
        project_files = (folder / name for name in ("setup.py", "pyproject.toml"))
        if extension.path and not any(file.is_file() for file in project_files):
            message = f"{folder} has no setup.py or pyproject.toml"
            hint = "set the folder of the project, or set subdirectory"
            raise SettingsError(message, location=f"{place}.path", hint=hint)
        script = project.resolve_path(extension.smoke.script) if extension.smoke else None
        if extension.smoke and script and not Path(script).is_file():
            message = f"the script {extension.smoke.script} does not exist"
            hint = f"set the path of a Python file, relative to {project.root}"
            raise SettingsError(message, location=f"{place}.smoke.script", hint=hint)
        patches = (Path(project.root, patch) for patch in extension.patches)
        for patch in (patch for patch in patches if not patch.is_file()):
            message = f"the patch {patch} does not exist"
            raise SettingsError(message, location=f"{place}.patches", hint=hint)
