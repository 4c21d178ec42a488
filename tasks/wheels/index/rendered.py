"""The pages of an index as files, in the order in which they may be put there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePath

from tasks.system.render import render
from tasks.wheels.index import pages
from tasks.wheels.index.pages import File


def rendered(templates: PurePath, named: Iterable[File]) -> dict[str, str]:
    """Path below the index → text: the projects, and after them the list of projects."""
    by_project: dict[str, list[File]] = defaultdict(list)
    for file in sorted(named, key=lambda one: one.filename):
        by_project[file.project].append(file)
    found: dict[str, str] = {}
    for name, listed in sorted(by_project.items()):
        values = {"name": name, "files": listed}
        found[f"simple/{name}/index.html"] = render(templates / "project.html.j2", values)
        found[f"simple/{name}/index.json"] = pages.project(name, listed)
    values = {"names": sorted(by_project)}
    found["simple/index.html"] = render(templates / "projects.html.j2", values)
    found["simple/index.json"] = pages.projects(by_project)
    return found
