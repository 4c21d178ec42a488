"""What lies in an environment, or in a folder of packages, and who asked for it.

An installer leaves direct_url.json beside what it was given as a file (PEP 610): what has none came
from an index.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from packaging.utils import canonicalize_name

from tasks.core.dependencies import is_requirement_applicable, parse_requirements

_SITE_PATTERNS = ("lib/python*/site-packages", "Lib/site-packages")


@dataclass(frozen=True)
class InstalledPackage:
    """A distribution that is installed. `tags` are those of the wheel that it came in, `requires`
    what its metadata asks for.
    """

    name: str
    version: str
    tags: frozenset[str]
    requires: tuple[str, ...]
    is_file: bool

    @property
    def pin(self) -> str:
        """`numpy==2.3.5`."""
        return f"{self.name}=={self.version}"


def find_site_folder(venv: PurePath) -> Path:
    """Where an environment of ours keeps its packages; no process is asked."""
    return next(list_site_folders(venv), Path(venv) / "lib")


def list_site_folders(prefix: PurePath) -> Iterator[Path]:
    """The folders for packages that lie below a Python's prefix, of any version and system."""
    return (path for pattern in _SITE_PATTERNS for path in Path(prefix).glob(pattern))


def read_package_versions(site: PurePath) -> dict[str, str]:
    """Normalized name → version, by the names of the folders that installers leave: it is asked in
    each run.
    """
    folder = Path(site)
    names = (path.name for path in folder.glob("*.dist-info")) if folder.is_dir() else ()
    pairs = (name.removesuffix(".dist-info").rpartition("-") for name in names)
    return {canonicalize_name(name): version for name, _, version in pairs}


def read_installed_packages(site: PurePath) -> Mapping[str, InstalledPackage]:
    """Everything that lies there, by normalized name."""
    if not Path(site).is_dir():
        return {}
    found = map(_read_package, importlib.metadata.distributions(path=[str(site)]))
    return {one.name: one for one in found if one.name}


def _read_package(item: importlib.metadata.Distribution) -> InstalledPackage:
    lines = (item.read_text("WHEEL") or "").splitlines()
    tags = (line.partition(":")[2].strip() for line in lines if line.startswith("Tag:"))
    return InstalledPackage(
        name=canonicalize_name(item.metadata["Name"] or ""),
        version=item.version,
        tags=frozenset(tags),
        requires=tuple(item.requires or ()),
        is_file=item.read_text("direct_url.json") is not None,
    )


def resolve_required_names(roots: Iterable[str], here: Mapping[str, InstalledPackage]) -> set[str]:
    """The names of what the requirements `roots` bring here with their extras, and what that
    brings. Pure.
    """
    waiting, found = list(parse_requirements(roots)), set[tuple[str, frozenset[str]]]()
    while waiting:
        wanted = waiting.pop()
        if (name := canonicalize_name(wanted.name)) not in here:
            continue
        one = (name, frozenset(wanted.extras))
        if one not in found:
            found.add(one)
            theirs = parse_requirements(here[name].requires)
            waiting += (
                asked for asked in theirs if is_requirement_applicable(asked, {}, wanted.extras)
            )
    return {name for name, _ in found}
