"""Read all releases of torch from a package index, for config/knowledge/read/pytorch.yaml.

A wheel that was read before is recognized by its name and sha256 in the evidence, and is not read
again. A value that cannot be read is left out.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.utils import parse_wheel_filename

from tasks.core.errors import BadArtifactError, FetchError
from tasks.core.package_files import IndexFile, PackageIndex
from tasks.knowledge.known_problems import is_version_within
from tasks.knowledge.machine_code_rules import MachineCode
from tasks.knowledge.read_facts import merge_rows
from tasks.knowledge.release_rows import (
    build_release_row,
    choose_wheel,
    format_pythons,
    list_releases,
    select_files,
)
from tasks.knowledge.versions import format_major_minor, parse_major_minor, parse_version_numbers
from tasks.knowledge.wheel_facts import (
    METADATA_MEMBER,
    TORCH_MEMBERS,
    VERSION_MEMBER,
    Row,
    list_wheel_pythons,
    read_companion_requirement,
    read_torch_wheel,
)

Documents = Mapping[str, Mapping[str, Any]]  # the content of files by their name without .yaml

# The oldest releases that are read. The companions are those of torch 2.0
_FIRST_RELEASES = {"torch": (2, 0), "torchvision": (0, 15), "torchaudio": (2, 0)}
_LIBRARIES = ("torchvision", "torchaudio")
_LINUX, _LINUX_ARM = ("linux", "x86_64"), ("linux", "aarch64")
_PYTHON = "3.11"  # of the wheel to read: its content does not depend on it
# The keys of a release's row that do not come from a wheel of torch
_OTHER_KEYS = frozenset({"patch", "pypi_pythons", "companions"})
_CUBINS_STATUS = "verified: W SASS of PyPI's wheel"
_TABLE_STATUS = "verified: W PYTORCH_RELEASES_CODE_CC"


@dataclass(frozen=True)
class Sources:
    """What a refresh reads from.

    `read_code` returns the machine code of libtorch_cuda in a wheel. `read_toolkit` takes the
    version of nvcc and the members of its packages, runs the programs among them, and returns the
    row of the toolkit. `platform` is the system and machine that these programs are for. `report`
    prints a line. The functions raise `FetchError` or `BadArtifactError` if a file cannot be read.
    """

    index: PackageIndex
    read_code: Callable[[IndexFile], MachineCode]
    read_toolkit: Callable[[str, Mapping[str, bytes]], Row]
    platform: tuple[str, str] = _LINUX
    report: Callable[[str], object] = print


@dataclass
class ReadTable:
    """The rows that were read, their evidence by version, and what could not be read."""

    rows: dict[str, Row] = field(default_factory=dict)
    evidence: dict[str, list[Row]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def build_evidence(file: IndexFile, version: str, values: Iterable[str]) -> Row:
    """Return the evidence of some values of a row: the file that they were read from."""
    fields = {"values": list(values), "file": file.name, "version": version}
    return {**fields, "sha256": file.sha256}


def select_known(entries: Iterable[Row], files: Iterable[IndexFile]) -> list[IndexFile]:
    """Return those of the files that have been read, by the evidence of the row."""
    known = {(entry["file"], entry["sha256"]) for entry in entries if entry["sha256"]}
    return [file for file in files if (file.name, file.sha256) in known]


def keep_missing(
    what: str, table: ReadTable, old: Mapping[str, Row], evidence: Mapping[str, Any]
) -> None:
    """Keep the old rows that were not read now, with their evidence, and name them."""
    for name in sorted(old.keys() - table.rows.keys(), key=parse_major_minor):
        table.rows[name] = old[name]
        kept = {one: value for one, value in evidence.items() if format_major_minor(one) == name}
        table.evidence = {**kept, **table.evidence}
        table.problems.append(f"{what} {name} was not read: it keeps its values")


class TorchRefresh:
    """Reads the releases of torch. `old` has the documents of the last refresh."""

    def __init__(self, sources: Sources, old: Documents) -> None:
        self._sources, self._index = sources, sources.index
        self._old: Mapping[str, Row] = old["pytorch"]["releases"]
        self._old_evidence: Mapping[str, Any] = old.get("evidence", {})
        self._entries: Mapping[str, list[Row]] = self._old_evidence.get("pytorch", {})
        self.companions: dict[str, dict[str, Row]] = {}
        self.table = ReadTable()

    def read(self) -> ReadTable:
        """Return the rows of all minor releases, and the evidence of each exact release."""
        try:
            files = [one for one in self._index.list_files("torch") if not one.yanked]
        except FetchError as error:
            files = []
            self.table.problems.append(f"torch: {error.message}")
        for name in _LIBRARIES:
            self.companions[name] = self._read_companions(name)
        patches = defaultdict(list)
        for release in _list_supported_releases("torch", files):
            patches[format_major_minor(release)].append(release)
        for minor, releases in patches.items():
            try:
                row, evidence = self._read_minor(releases, files)
            except (FetchError, BadArtifactError) as error:
                self.table.problems.append(f"torch {minor}: {error.message}")
                continue
            self.table.rows[minor] = row
            self.table.evidence |= evidence
        keep_missing("torch", self.table, self._old, self._entries)
        return self.table

    def _read_companions(self, name: str) -> dict[str, Row]:
        """Return a wheel of each release, with the torch that it requires."""
        old: dict[str, Row] = dict(self._old_evidence.get(name, {}))
        read = {}
        try:
            files = [one for one in self._index.list_files(name) if not one.yanked]
            for release in _list_supported_releases(name, files):
                read[release] = self._read_companion(release, _select_wheels(files, release), old)
        except FetchError as error:
            self.table.problems.append(f"{name}: {error.message}")
            return {**old, **read}
        return read

    def _read_companion(
        self, release: str, wheels: Sequence[IndexFile], old: Mapping[str, Row]
    ) -> Row:
        if release in old and select_known([old[release]], wheels):
            return old[release]
        file = choose_wheel(wheels, [_LINUX], _PYTHON) or wheels[0]
        metadata = next(iter(self._index.read_members(file, [METADATA_MEMBER]).values()), b"")
        entry = {"file": file.name, "version": release, "sha256": file.sha256}
        return {**entry, "requires": read_companion_requirement(metadata)}

    def _read_minor(
        self, releases: Sequence[str], files: Sequence[IndexFile]
    ) -> tuple[Row, dict[str, list[Row]]]:
        """Return the row of a minor release, and the evidence by exact release."""
        newest, wheels = releases[-1], _select_wheels(files, releases[-1])
        row, entries = self._recall_newest(newest, wheels) or self._read_newest(newest, wheels)
        row = {"patch": newest, **row, "pypi_pythons": _list_pythons(wheels)}
        entries = [_build_list_evidence(newest, wheels), *entries]
        evidence = {newest: entries}
        row["companions"] = {**self._find_companions(newest, entries), **row.get("companions", {})}
        older = {}
        for release in releases[:-1]:
            older[release], evidence[release] = self._read_older(release, files)
        if older:
            row["companions"]["patches"] = older
        return row, evidence

    def _recall_newest(
        self, release: str, wheels: Sequence[IndexFile]
    ) -> tuple[Row, list[Row]] | None:
        """Return what was read before, None if a wheel is new or has changed."""
        old = self._old.get(format_major_minor(release), {})
        known = select_known(self._entries.get(release, ()), wheels)
        chosen = [_choose_linux_wheel(wheels, one, known) for one in (_LINUX, _LINUX_ARM)]
        if old.get("patch") != release or not known or set(filter(None, chosen)) - set(known):
            return None
        names = {file.name for file in known}
        entries = [one for one in self._entries[release] if one["file"] in names]
        row = {key: value for key, value in old.items() if key not in _OTHER_KEYS}
        if triton := old.get("companions", {}).get("triton"):
            row["companions"] = {"triton": triton}
        self._sources.report(f"torch {release}: unchanged")
        return row, entries

    def _read_newest(self, release: str, wheels: Sequence[IndexFile]) -> tuple[Row, list[Row]]:
        file = choose_wheel(wheels, [_LINUX], _PYTHON) or wheels[0]
        self._sources.report(f"torch {release}: reading {file.name}")
        facts = read_torch_wheel(self._index.read_members(file, TORCH_MEMBERS))
        row = build_release_row(facts, wheels, file)
        del row["status"], row["pypi_pythons"]
        wheel_rows = [{**one, "status": _TABLE_STATUS} for one in row.get("wheels", ())]
        row = merge_rows({**row, "wheels": wheel_rows}, self._read_cubins(file, facts, _LINUX))
        keys = [key for key in row if key not in _OTHER_KEYS and (key != "wheels" or row[key])]
        triton = ["companions.triton"] if "triton" in facts else []
        entries = [build_evidence(file, release, [*keys, *triton])]
        if arm := _choose_linux_wheel(wheels, _LINUX_ARM, ()):
            facts = read_torch_wheel(self._index.read_members(arm, [VERSION_MEMBER]))
            if "cuda" in facts:
                row["pypi_cuda_aarch64"] = facts["cuda"] and format_major_minor(facts["cuda"])
                cubins = self._read_cubins(arm, facts, _LINUX_ARM)
                row = merge_rows(row, cubins)
                entries.append(build_evidence(arm, release, ["pypi_cuda_aarch64", *cubins]))
        return {key: value for key, value in row.items() if key != "wheels" or value}, entries

    def _read_cubins(self, file: IndexFile, facts: Row, platform: tuple[str, str]) -> Row:
        """Return the row of a wheel with CUDA, as {"wheels": [row]}; {} without CUDA."""
        if not facts.get("cuda"):
            return {}
        code = self._sources.read_code(file)
        system, machine = platform
        wheel = {"cuda": format_major_minor(facts["cuda"]), "system": system, "machine": machine}
        archs, ptx = ([str(arch) for arch in sorted(kind)] for kind in (code.cubins, code.ptx))
        content = {"pypi": True, "archs": archs, "ptx": ptx, "status": _CUBINS_STATUS}
        return {"wheels": [{**wheel, **content}]}

    def _read_older(self, release: str, files: Sequence[IndexFile]) -> tuple[Row, list[Row]]:
        """Return the companions of a patch that is not the newest."""
        wheels = _select_wheels(files, release)
        known = select_known(self._entries.get(release, ()), wheels)
        file = next(iter(known), None) or choose_wheel(wheels, [_LINUX], _PYTHON) or wheels[0]
        if known:
            facts = self._recall_companions(release)
        else:
            facts = read_torch_wheel(self._index.read_members(file, [METADATA_MEMBER]))
        row = {"triton": facts["triton"]} if "triton" in facts else {}
        self._sources.report(f"torch {release}: {'unchanged' if known else 'read'}")
        entries = [build_evidence(file, release, [f"companions.{name}" for name in row])]
        return {**self._find_companions(release, entries), **row}, entries

    def _recall_companions(self, release: str) -> Row:
        row = self._old.get(format_major_minor(release), {})
        companions: Row = row.get("companions", {})
        is_newest = row.get("patch") == release
        return companions if is_newest else companions.get("patches", {}).get(release, {})

    def _find_companions(self, torch: str, entries: list[Row]) -> Row:
        """Return the newest companions that require this torch, and add their evidence."""
        found = {}
        for name, releases in self.companions.items():
            fitting = [
                (release, entry)
                for release, entry in releases.items()
                if entry["requires"] and is_version_within(torch, entry["requires"])
            ]
            if fitting:
                release, entry = max(fitting, key=lambda one: parse_version_numbers(one[0]))
                found[name] = f"=={release}"
                proof = {key: value for key, value in entry.items() if key != "requires"}
                entries.append({"values": [f"companions.{name}"], **proof})
        return found


def choose_newest_wheels(files: Iterable[IndexFile]) -> dict[str, IndexFile]:
    """Return the Linux wheel of the newest patch of each minor release, ascending."""
    files = [one for one in files if not one.yanked]
    newest = {format_major_minor(one): one for one in _list_supported_releases("torch", files)}
    wheels = {
        minor: _choose_linux_wheel(_select_wheels(files, release), _LINUX, ())
        for minor, release in newest.items()
    }
    return {minor: wheel for minor, wheel in wheels.items() if wheel}


def _list_supported_releases(name: str, files: Iterable[IndexFile]) -> Iterator[str]:
    """Yield the releases that torchyard supports, ascending."""
    first = _FIRST_RELEASES[name]
    return (one for one in list_releases(files) if parse_major_minor(one) >= first)


def _select_wheels(files: Iterable[IndexFile], release: str) -> list[IndexFile]:
    """Return the wheels of a release. Of several builds of a wheel, it is the newest, as in pip."""
    newest: dict[Any, tuple[Any, IndexFile]] = {}
    for file in select_files(files, release):
        _, version, build, tags = parse_wheel_filename(file.name)
        if (version, tags) not in newest or newest[version, tags][0] < build:
            newest[version, tags] = build, file
    return [file for _, file in newest.values()]


def _list_pythons(wheels: Iterable[IndexFile]) -> dict[str, list[str]]:
    return format_pythons(list_wheel_pythons(one.name for one in wheels))


def _choose_linux_wheel(
    wheels: Iterable[IndexFile], platform: tuple[str, str], known: Iterable[IndexFile]
) -> IndexFile | None:
    """Return the wheel to read for a platform, one of the `known` if possible."""
    fitting = [file for file in wheels if platform in list_wheel_pythons([file.name])]
    recorded = [file for file in fitting if file in known]
    return choose_wheel(recorded or fitting, [platform], _PYTHON)


def _build_list_evidence(release: str, wheels: Iterable[IndexFile]) -> Row:
    """Return the evidence of the Pythons: the list of all wheels, and its sha256."""
    lines = sorted(f"{file.sha256}  {file.name}\n" for file in wheels)  # as sha256sum prints them
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    file = IndexFile(f"torch-{release}-*.whl ({len(lines)} files)", "", digest)
    return build_evidence(file, release, ["patch", "pypi_pythons"])
