"""Read what a project contains, and propose the settings for it."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from tasks.cli.project_scan.git_submodules import (
    Submodule,
    describe_missing_submodules,
    find_submodules,
)
from tasks.cli.project_scan.python_environments import FoundEnvironment, find_environments
from tasks.cli.project_scan.requirement_files import Requirements, read_requirements
from tasks.cli.project_scan.setup_files import SetupFile, find_setup_files
from tasks.knowledge import Knowledge
from tasks.knowledge.extension_facts import (
    ExtensionFact,
    find_extension,
    find_extension_by_distribution,
    normalize_project_name,
)


@dataclass(frozen=True)
class FoundExtension:
    """A CUDA extension in the project.

    `name` is that of a known extension, else of its distribution. `path` is relative to the
    project, and `subdirectory` to `path`. `imports` is empty for a known extension.
    """

    name: str
    path: str
    subdirectory: str = ""
    imports: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Return the folder of its setup.py, relative to the project."""
        return PurePath(self.path, self.subdirectory).as_posix()

    @property
    def settings(self) -> Mapping[str, str | tuple[str, ...]]:
        """Return its entry in the settings `extensions`."""
        entry = {"name": self.name, "path": self.path}
        entry |= {"subdirectory": self.subdirectory} if self.subdirectory else {}
        return {**entry, "imports": self.imports} if self.imports else entry


@dataclass(frozen=True)
class ProjectContents:
    """What was found in a project.

    `conflicts` are extensions that cannot be built beside one in `extensions`, each with its
    reason. `own_environment` is the environment of torchyard if it is inside the project, else "".
    """

    extensions: tuple[FoundExtension, ...] = ()
    conflicts: tuple[tuple[FoundExtension, str], ...] = ()
    submodules: tuple[Submodule, ...] = ()
    requirements: Requirements = field(default_factory=Requirements)
    environments: tuple[FoundEnvironment, ...] = ()
    own_environment: str = ""
    is_clone: bool = True

    @property
    def needs_submodules(self) -> bool:
        """Return True if a submodule inside an extension is not fetched: its build would fail."""
        missing = [one.path for one in self.submodules if not one.is_fetched]
        folders = [one.path for one in self.extensions if one.path != "."]
        return any(path.is_relative_to(folder) for path in missing for folder in folders)

    def describe(self) -> Iterator[tuple[bool, str]]:
        """Yield a line for each finding. The value is False for what was not found."""
        for one in self.extensions:
            yield True, f"{one.folder}: CUDA extension {one.name}"
        for one, reason in self.conflicts:
            yield True, f"{one.folder}: CUDA extension {one.name}, not selected: {reason}"
        yield from ((True, line) for line in self.requirements.describe_files())
        yield from ((True, str(one)) for one in self.environments)
        if self.own_environment:
            reason = "torchyard runs from it, so torch is not installed there"
            yield True, f"{self.own_environment}: {reason}"
        if not self.extensions:
            yield False, "no setup.py of a CUDA extension"
        if missing := describe_missing_submodules(self.submodules, is_clone=self.is_clone):
            yield False, missing


def read_project_contents(
    root: Path, knowledge: Knowledge, environ: Mapping[str, str] = os.environ
) -> ProjectContents:
    """Return what the project in the folder `root` contains. No code of the project is run."""
    submodules = tuple(find_submodules(root))
    places = [one.path for one in submodules]
    found = [_describe_extension(one, places, knowledge) for one in find_setup_files(root)]
    extensions, conflicts = _separate_conflicts(found, knowledge)
    requirements, running = read_requirements(root), Path(sys.prefix)
    is_inside = running.resolve().is_relative_to(root.resolve())
    return ProjectContents(
        extensions,
        conflicts,
        submodules,
        requirements,
        find_environments(root, requirements.conda_name, running, environ),
        running.resolve().relative_to(root.resolve()).as_posix() if is_inside else "",
        (root / ".git").exists(),
    )


def _describe_extension(
    setup: SetupFile, submodules: list[PurePath], knowledge: Knowledge
) -> FoundExtension:
    fact = find_known_extension(setup.distribution, knowledge)
    name = fact.name if fact else re.sub(r"[^A-Za-z0-9._-]+", "-", setup.distribution).strip("-._")
    path = _find_source_root(setup.folder, submodules, fact)
    subdirectory = setup.folder.relative_to(path).as_posix().removeprefix(".")
    imports = () if fact else setup.modules
    return FoundExtension(name or "extension", path.as_posix(), subdirectory, imports)


def find_known_extension(distribution: str, knowledge: Knowledge) -> ExtensionFact | None:
    """Return the known extension with this distribution name or name, or None."""
    by_distribution = find_extension_by_distribution(knowledge, distribution)
    return by_distribution or find_extension(knowledge, distribution)


def _find_source_root(
    folder: PurePath, submodules: list[PurePath], fact: ExtensionFact | None
) -> PurePath:
    """Return the folder to copy for a build: a setup.py may use files beside its own folder."""
    inside = [one for one in submodules if folder.is_relative_to(one)]
    if inside:
        return max(inside, key=lambda one: len(one.parts))
    parts = PurePath(fact.subdirectory if fact else "").parts
    is_known_place = parts and folder.parts[-len(parts) :] == parts
    return PurePath(*folder.parts[: -len(parts)]) if is_known_place else folder


def _separate_conflicts(
    found: list[FoundExtension], knowledge: Knowledge
) -> tuple[tuple[FoundExtension, ...], tuple[tuple[FoundExtension, str], ...]]:
    """Return the extensions to build, and those that have a name or module of an earlier one."""
    selected, conflicts = [], []
    owners: dict[str, FoundExtension] = {}
    for one in found:
        fact = find_extension(knowledge, one.name)
        keys = [f"name {normalize_project_name(one.name)}"]
        keys += [f"module {module}" for module in (fact.imports if fact else one.imports)]
        if owner := next((owners[key] for key in keys if key in owners), None):
            conflicts.append((one, f"{owner.folder} installs the same package"))
            continue
        owners |= dict.fromkeys(keys, one)
        selected.append(one)
    return tuple(selected), tuple(conflicts)
