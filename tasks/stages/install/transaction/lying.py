"""The distributions that lie in folders of packages, by their files: no interpreter is asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from tasks.stages.install.target.unpacked import resolve_below_prefix
from tasks.stages.install.transaction.place import TEMPORARY_NAME, is_present, list_bytecode
from tasks.system import files
from tasks.wheels.files import recordfile

_INFO_SUFFIXES = (".dist-info", ".egg-info", ".egg-link", ".egg")


@dataclass(frozen=True)
class InstalledDistribution:
    """What lies there under a name: `infos` are its dist-info folders, or what older tools leave;
    `version` names all of them. `listed` are the files, below the prefix, of those without RECORD
    that conda put there.
    """

    name: str
    version: str
    infos: tuple[Path, ...]
    listed: Mapping[Path, tuple[str, ...]]

    @property
    def unrecorded_infos(self) -> tuple[Path, ...]:
        """Those of which nobody knows which files are theirs."""
        return tuple(i for i in self.infos if not has_record(i) and i not in self.listed)

    @property
    def record_digest(self) -> str:
        """sha256 of its RECORD, "" where there is none or more than one."""
        return compute_record_digest(self.infos[0] / "RECORD") if len(self.infos) == 1 else ""


def has_record(info: Path) -> bool:
    """Whether it lists its files itself."""
    return (info / "RECORD").is_file()


def compute_record_digest(record: Path) -> str:
    """sha256 of a RECORD, "" where there is none."""
    return files.read_artifact(record).sha256 if record.is_file() else ""


def find_distributions(
    prefix: Path, sites: Iterable[str], names: Iterable[str]
) -> Mapping[str, InstalledDistribution]:
    """Those of these normalized names that are there."""
    found: dict[str, list[Path]] = {}
    wanted = set(names)
    for site in sites:
        for info, name in _list_site_infos(prefix / site):
            if name in wanted:
                found.setdefault(name, []).append(info)
    listed = {
        info: files
        for infos in found.values()
        for info in infos
        if not has_record(info) and (files := _list_conda_files(prefix, info))
    }
    return {
        name: InstalledDistribution(
            name, _join_versions(infos), tuple(infos), {i: listed[i] for i in infos if i in listed}
        )
        for name, infos in found.items()
    }


def _list_conda_files(prefix: Path, info: Path) -> tuple[str, ...]:
    """The files of the conda package that `info` came with; none where it came with none.

    conda's own list, https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html
    """
    beginning = f"{info.relative_to(prefix).as_posix()}"
    for meta in sorted((prefix / "conda-meta").glob("*.json")):
        try:
            files = json.loads(meta.read_text(encoding="utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if any(path == beginning or path.startswith(f"{beginning}/") for path in files):
            return tuple(path for path in files if ".." not in path.split("/"))
    return ()


def list_distribution_names(site: Path) -> set[str]:
    """The normalized names of everything that lies in a folder of packages."""
    return {name for _, name in _list_site_infos(site)}


def _list_site_infos(site: Path) -> Iterator[tuple[Path, str]]:
    for info in sorted(site.iterdir()) if site.is_dir() else ():
        if info.suffix in _INFO_SUFFIXES:
            name = info.stem if info.suffix == ".egg-link" else info.stem.partition("-")[0]
            yield info, canonicalize_name(name)


def _join_versions(infos: Iterable[Path]) -> str:
    stems = ["" if info.suffix == ".egg-link" else info.stem for info in infos]
    found = [stem.partition("-")[2].partition("-")[0] for stem in stems]
    return ", ".join(dict.fromkeys(version or "?" for version in found))


def list_distribution_files(prefix: Path, one: InstalledDistribution) -> Iterator[str]:
    """The paths below `prefix` of all that it has there, bytecode included."""
    for info in one.infos:
        text = (info / "RECORD").read_text(encoding="utf-8") if has_record(info) else ""
        named = [
            resolve_below_prefix(prefix, info.parent, row.path)
            for row in recordfile.parse_record(text)
        ]
        inside = [path for path in info.rglob("*") if not path.is_dir()] if info.is_dir() else []
        listed = [prefix / path for path in one.listed.get(info, ())]
        whole = [*listed, *(prefix / path for path in named if path), *inside]
        for path in (path for path in whole if path.name != TEMPORARY_NAME):
            yield from (
                found.relative_to(prefix).as_posix()
                for found in (path, *list_bytecode(path))
                if is_present(found) and (found.is_symlink() or not found.is_dir())
            )
