"""The pages of an index as files, in the order in which they may be put there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePath

from tasks.system.render import render_template
from tasks.wheels.index import pages
from tasks.wheels.index.pages import IndexFile


def render_index_pages(templates: PurePath, named: Iterable[IndexFile]) -> dict[str, str]:
    """Path below the index → text: the projects, and after them the list of projects."""
    by_project: dict[str, list[IndexFile]] = defaultdict(list)
    for file in sorted(named, key=lambda one: one.filename):
        by_project[file.project].append(file)
    found: dict[str, str] = {}
    for name, listed in sorted(by_project.items()):
        values = {"name": name, "files": listed}
        found[f"simple/{name}/index.html"] = render_template(templates / "project.html.j2", values)
        found[f"simple/{name}/index.json"] = pages.format_project_page(name, listed)
    values = {"names": sorted(by_project)}
    found["simple/index.html"] = render_template(templates / "projects.html.j2", values)
    found["simple/index.json"] = pages.format_project_list(by_project)
    return found
