"""Write the builds of a profile for other machines: GitHub Actions, Slurm, or a Docker image."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks import __version__
from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.project import (
    BUILT_IN_PREFIX,
    CHECKOUT_LOCAL_FILE,
    LOCK_NAME,
    OUTPUT_FOLDER,
    PROJECT_FILE,
    PROJECT_LOCAL_FILE,
    Project,
)
from tasks.knowledge.versions import parse_major_minor
from tasks.planning.profile_plan import build_layout
from tasks.settings import values
from tasks.settings.layers_io import load_settings
from tasks.settings.loaded_settings import LoadedSettings
from tasks.settings.matrix_entries import expand_matrix
from tasks.settings.schema import Settings
from tasks.settings.setting_errors import ENV_PREFIX
from tasks.system.files import write_user_file
from tasks.system.jinja_templates import render_template
from tasks.system.output import print_report, print_warning

_GENERATED_MARK = " matrix --workflow "  # in the first lines of each template
_TEMPLATES = {"github": "github.yml.j2", "slurm": "slurm.sh.j2", "docker": "Dockerfile.j2"}
# What has only the files of the project, in messages
_OTHER_MACHINES = {"github": "a GitHub runner", "docker": "an image"}
_MAX_GITHUB_JOBS = 256  # jobs per matrix (docs.github.com, "Usage limits")
_RUNNER_PYTHON = "3.12"  # a Python version that torchyard supports
_OLDEST_PYTHON = (3, 11)  # requires-python in pyproject.toml
_DOCKER_PATH = re.compile(r"[\w.@+-][\w.@+/-]*")  # COPY reads other characters as a pattern
_DOCKER_IGNORED = (".git", OUTPUT_FOLDER, ".venv", "**/__pycache__", PROJECT_LOCAL_FILE)


@dataclass(frozen=True)
class WorkflowEntry:
    """A build of a workflow: its name, its profile (NAME or NAME@ENTRY), and the Python for it."""

    name: str
    profile: str
    python: str


@dataclass(frozen=True)
class _DockerImage:
    """An image: its build arguments for `docker build` (each with a space), and its tag."""

    name: str
    python: str
    arguments: str
    tag: str


def write_workflow(project: Project, profile: str, kind: str, out: str) -> None:
    """Write the workflow for `kind` (github, slurm or docker) to `out`; print it if `out` is ""."""
    if kind not in _TEMPLATES:
        message, hint = f'there is no workflow "{kind}"', f"choose {', '.join(_TEMPLATES)}"
        raise TorchyardError(message, location="--workflow", hint=hint)
    loaded = load_settings(project, profile, os.environ)
    if not re.fullmatch(values.NAME_PATTERN.strip("^$"), profile):
        message = f'the profile name "{profile}" is not allowed in a workflow'
        hint = f"rename the profile: {values.PATTERN_HINTS[values.NAME_PATTERN]}"
        location = "config/profiles" if project.is_checkout else PROJECT_FILE
        raise TorchyardError(message, location=location, hint=hint)
    entries = _list_entries(project, profile, kind, loaded.settings)
    machine = _OTHER_MACHINES.get(kind)
    for warning in _list_warnings(project, loaded, machine) if machine else ():
        # a comment in printed output, which may be redirected to the file
        if out:
            print_warning(warning)
        else:
            print_report(f"# warning: {warning}")
    wheelhouse = build_layout(project, profile, loaded.settings).wheelhouse
    template_values = {
        "profile": profile,
        "program": "doit" if project.is_checkout else "torchyard",
        "is_checkout": project.is_checkout,
        "version": __version__,
        "root": str(project.root),
        "wheelhouse": _shorten_path(project, wheelhouse),
        "cells": entries,
        "overrides": _list_overrides(loaded.settings),
        **(
            _build_docker_values(project, profile, loaded.settings, entries)
            if kind == "docker"
            else {}
        ),
    }
    text = render_template(Path(project.templates) / "matrix" / _TEMPLATES[kind], template_values)
    if not out:
        print_report(text.rstrip("\n"))
        return
    _require_generated_file(Path(out))
    write_user_file(Path(out), text)
    print_report(f"wrote {out}: {_format_count(len(entries))}")
    if kind == "docker":
        _write_docker_ignore(Path(project.root, ".dockerignore"))  # of the build context


def _format_count(builds: int) -> str:
    return "1 build" if builds == 1 else f"{builds} builds"


def _list_entries(
    project: Project, profile: str, kind: str, settings: Settings
) -> list[WorkflowEntry]:
    """Return the builds of a workflow: the matrix entries, or in a project the profile itself."""
    names = list(expand_matrix(settings.matrix))
    too_many = kind == "github" and len(names) > _MAX_GITHUB_JOBS
    if too_many or (project.is_checkout and not names):
        allowed = f"a workflow allows 1 to {_MAX_GITHUB_JOBS} builds"
        message = f"{allowed}, but this matrix has {len(names)}"
        hint = "list the builds: doit matrix; docs/matrix.md explains the settings"
        raise TorchyardError(message, location="matrix", hint=hint)
    if not names:
        return [_build_entry(project, profile, profile)]
    return [_build_entry(project, name, f"{profile}@{name}") for name in names]


def _build_entry(project: Project, name: str, profile: str) -> WorkflowEntry:
    python = load_settings(project, profile, os.environ).settings.python
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", python):  # auto, or a path of this machine
        python = _RUNNER_PYTHON
        if not project.is_checkout:  # torchyard.lock is for one Python
            python = f"{sys.version_info.major}.{sys.version_info.minor}"
    elif parse_major_minor(python) < _OLDEST_PYTHON:
        python += f"\n{_RUNNER_PYTHON}"  # the Python that is set up last runs torchyard
    return WorkflowEntry(name, profile, python)


def _shorten_path(project: Project, path: PurePath) -> str:
    """Return a path relative to the project if it is inside, with slashes."""
    is_inside = path.is_relative_to(project.root)
    return path.relative_to(project.root).as_posix() if is_inside else str(path)


def _list_overrides(settings: Settings) -> Mapping[str, str]:
    """Return the variables that replace settings with an interpreter of this machine."""
    overrides = {}
    if settings.install.into:
        overrides[f"{ENV_PREFIX}INSTALL__INTO"] = "null"
    if _is_path(settings.python):
        overrides[f"{ENV_PREFIX}PYTHON"] = "auto"
    return overrides


def _is_path(text: str) -> bool:
    return "/" in text or "\\" in text


def _list_warnings(project: Project, loaded: LoadedSettings, machine: str) -> Iterator[str]:
    """Yield a warning for each kind of setting that the other machine has not, or not the same."""
    name = CHECKOUT_LOCAL_FILE if project.is_checkout else PROJECT_LOCAL_FILE
    files = (name, *([str(project.user_settings)] if project.user_settings else []))
    prefixes = (*(one.removesuffix(".yaml") for one in files), ENV_PREFIX)
    if local := sorted(key for key, origin in loaded.origin.items() if origin.startswith(prefixes)):
        yield (
            f"{machine} does not get the values of {name}, your settings for all projects and the "
            "environment: "
            f"{', '.join(local)}; set them in the profile if they are needed there"
        )
    settings = loaded.settings
    outside = [key for key, path in _list_paths(settings) if _find_inside(project, path) is None]
    if outside and not project.is_checkout:
        yield (
            f"{machine} does not have the files of {', '.join(outside)}: they are outside of the "
            "project; move them into it, or use git"
        )
    if settings.target.gpus == "auto" and not settings.matrix.gpus:
        yield (
            f"{machine} has no GPU to look at, and target.gpus is auto: it builds for an RTX 5090; "
            "name your GPUs in target.gpus"
        )


def _list_paths(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the key and the value of each setting that names files which a build reads."""
    source, torch = settings.source, settings.torch
    found = [
        ("source.path", source.path),
        ("source.tarball", source.tarball),
        *(("source.patches", patch) for patch in source.patches),
        ("toolkit.path", settings.toolkit.path),
        ("torch.index", None if torch.index == "auto" else torch.index),
        ("offline", settings.offline),
    ]
    for extension in settings.extensions:
        key = f"extensions ({extension.name})"
        found.append((f"{key}.path", extension.path))
        found += [(f"{key}.patches", patch) for patch in extension.patches]
        if extension.smoke:
            found.append((f"{key}.smoke.script", extension.smoke.script))
    for key, path in found:
        if path and "://" not in path and not path.startswith(BUILT_IN_PREFIX):
            yield key, path


def _find_inside(project: Project, path: str) -> str | None:
    """Return a path relative to the project, or None if it is outside."""
    full = Path(os.path.normpath(Path(project.root, path)))
    return full.relative_to(project.root).as_posix() if full.is_relative_to(project.root) else None


def _build_docker_values(
    project: Project, profile: str, settings: Settings, entries: Sequence[WorkflowEntry]
) -> dict[str, object]:
    """Return the values for the Dockerfile. Raises `TorchyardError` if no image can be built."""
    if project.is_checkout:
        message = "a checkout of torchyard gets no Dockerfile"
        hint = f"install torchyard, and write a {PROJECT_FILE} in the folder of your project"
        raise TorchyardError(message, location="--workflow", hint=hint)
    if settings.torch.strategy == "existing":
        message = "an image has no existing torch, which this profile builds with"
        raise SettingsError(
            message, location="torch.strategy", hint="set torch.strategy: prebuilt or source"
        )
    usable = [one for one in entries if "\n" not in one.python]
    if not usable:
        message = f"torchyard does not run on Python {entries[0].python.splitlines()[0]}"
        raise SettingsError(message, location="python", hint="set a Python from 3.11 on")
    is_matrix = usable[0].name != profile
    entry = "${ENTRY}" if is_matrix else ""
    target = f"{profile}@{entry}" if is_matrix else profile
    gpus = [load_settings(project, one.profile, os.environ).settings.target.gpus for one in usable]
    return {
        "images": [_describe_image(one, is_matrix) for one in usable],
        "inputs": _list_inputs(project, settings),
        "is_matrix": is_matrix,
        "target": target,
        "build_folder": _shorten_path(project, project.compute_build_folder(target)),
        "has_gpu": any(one != () for one in gpus),
    }


def _describe_image(entry: WorkflowEntry, is_matrix: bool) -> _DockerImage:
    arguments = ""
    if is_matrix:
        arguments = f"--build-arg ENTRY={entry.name} --build-arg PYTHON={entry.python} "
    tag = re.sub(r"[^a-z0-9.]+", "-", entry.profile.lower()).strip("-.")
    return _DockerImage(entry.name, entry.python, arguments, tag)


def _list_inputs(project: Project, settings: Settings) -> list[str]:
    """Return the files and folders of the project that a build reads, relative to it."""
    names = [one for one in (PROJECT_FILE, LOCK_NAME) if Path(project.root, one).is_file()]
    inside = (_find_inside(project, path) for _, path in _list_paths(settings))
    found = list(dict.fromkeys([*names, *filter(None, inside)]))
    for path in found:
        if not _DOCKER_PATH.fullmatch(path):
            message = f'a Dockerfile cannot copy the path "{path}"'
            hint = "rename it: use letters, digits and . _ @ + -"
            raise TorchyardError(message, location=path, hint=hint)
    return found


def _require_generated_file(path: Path) -> None:
    """Raise `TorchyardError` for an existing file that `torchyard matrix` did not write."""
    if not path.is_file() or _GENERATED_MARK in path.read_text(encoding="utf-8", errors="replace"):
        return
    message = "this file exists, and torchyard did not write it; nothing was changed"
    hint = "name another file after --out, or move this one away"
    raise TorchyardError(message, location=str(path), hint=hint)


def _write_docker_ignore(path: Path) -> None:
    """Write a .dockerignore, or say what an existing one lacks."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else None
    if lines is None:
        write_user_file(path, "".join(f"{name}\n" for name in _DOCKER_IGNORED))
        print_report(f"wrote {path}")
        return
    present = {line.strip().strip("/") for line in lines}
    if missing := [name for name in _DOCKER_IGNORED if name not in present]:
        print_warning(f"{path} does not name {', '.join(missing)}: add a line for each")
