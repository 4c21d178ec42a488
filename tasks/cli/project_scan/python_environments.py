"""Find the Python environments of a project: its venvs, conda's, and the active one."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tasks.cli.project_scan.setup_files import read_small_file
from tasks.core.errors import TorchyardError
from tasks.stages.install.target_interpreter_io import find_python_in
from tasks.system import interpreters

_VENV_NAMES = (".venv", "venv", "env")
_CONDA_FOLDERS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba")
_ACTIVE_VARIABLES, _ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX"), "active environment"


@dataclass(frozen=True)
class FoundEnvironment:
    """An environment. `python` is the path of its Python as it is written in the settings.

    `reason` says why it may be that of the project. `description` has its Python and its torch.
    `is_proposed` is True if the project names it or contains it: an active environment elsewhere is
    only shown, because an install into it replaces its torch.
    """

    python: str
    reason: str
    description: str
    is_proposed: bool = True

    def __str__(self) -> str:
        return f"{self.python}: {self.reason}, {self.description}"


def find_environments(
    root: Path, conda_name: str, running: Path, environ: Mapping[str, str] = os.environ
) -> tuple[FoundEnvironment, ...]:
    """Return the environments that can be those of the project, the most likely first.

    `conda_name` is the name of its conda environment, "" if it has none. The environment `running`,
    which torchyard runs from, and the base environment of conda are omitted.
    """
    candidates = [*_list_candidates(root, conda_name, environ)]
    active = {Path(value).resolve() for name in _ACTIVE_VARIABLES if (value := environ.get(name))}
    candidates.sort(key=lambda one: one[0].resolve() not in active)  # the active one first
    found: dict[Path, FoundEnvironment] = {}
    for folder, reason in candidates:
        place = folder.resolve()
        if place in found or place == running.resolve() or (folder / "condabin").is_dir():
            continue
        if environment := _describe_environment(root, folder, reason, is_active=place in active):
            found[place] = environment
    return tuple(found.values())


def _list_candidates(
    root: Path, conda_name: str, environ: Mapping[str, str]
) -> Iterator[tuple[Path, str]]:
    for name in _VENV_NAMES:
        is_environment = any((root / name / mark).exists() for mark in ("pyvenv.cfg", "conda-meta"))
        if is_environment:
            yield root / name, "environment in this project"
    if conda_name and Path(conda_name).name == conda_name:
        for folder in _list_conda_environments(conda_name, environ):
            yield folder, "conda environment named in environment.yml"
    for variable in _ACTIVE_VARIABLES:
        if folder_name := environ.get(variable):
            yield Path(folder_name), _ACTIVE


def _list_conda_environments(name: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders of conda environments with this name."""
    home = Path.home()
    roots = [home / folder for folder in _CONDA_FOLDERS]
    if program := environ.get("CONDA_EXE"):
        roots.insert(0, Path(program).parent.parent)
    if mamba := environ.get("MAMBA_ROOT_PREFIX"):
        roots.insert(0, Path(mamba))
    folders = [root / "envs" / name for root in roots]
    listed = map(Path, read_small_file(home / ".conda" / "environments.txt").splitlines())
    folders += [home / ".conda" / "envs" / name, *(one for one in listed if one.name == name)]
    return (folder for folder in dict.fromkeys(folders) if (folder / "conda-meta").is_dir())


def _describe_environment(
    root: Path, folder: Path, reason: str, *, is_active: bool
) -> FoundEnvironment | None:
    """Return the environment in a folder, or None if there is no Python."""
    if (python := find_python_in(folder)) is None:
        return None
    description = ""
    with suppress(TorchyardError, OSError, UnicodeDecodeError):
        interpreter = interpreters.read_interpreter(str(python.absolute()))
        description = f"Python {interpreter.version}"
        description += f", torch {interpreter.torch.version}" if interpreter.torch else ""
    is_proposed = reason != _ACTIVE
    reason = f"active {reason}" if is_active and is_proposed else reason
    return FoundEnvironment(shorten_path(python, root), reason, description, is_proposed)


def shorten_path(path: Path, root: Path) -> str:
    """Return a path relative to the project `root` or to `~`; an absolute path for other folders.

    Links are not resolved, because a venv's Python is a link.
    """
    path = Path(os.path.normpath(root / path))
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else shorten_home(path)


def shorten_home(path: Path) -> str:
    """Return an absolute path, with `~` for the home folder."""
    home = Path.home()
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)
