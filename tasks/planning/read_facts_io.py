"""Read the facts about unknown releases and toolkits, and keep them for later commands.

A wheel is read once: its facts are stored with its sha256. The package index is asked for a release
or toolkit that is unknown, and for its list of releases once a day if torch.version is `auto`, if
torch.index is set, if a companion package was missing, or if the recorded facts are old.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from urllib.parse import unquote

from msgspec import structs

from tasks.core.errors import FetchError, KnowledgeError, SettingsError
from tasks.core.model import Host, InstalledTorch
from tasks.core.package_files import IndexFile, PackageIndex
from tasks.knowledge import Knowledge
from tasks.knowledge.cuda_toolkits import find_toolkit
from tasks.knowledge.read_facts import MAX_FACT_AGE_DAYS, ReadFacts, Row
from tasks.knowledge.release_rows import (
    build_release_row,
    find_companion_release,
    list_minor_releases,
    list_releases,
    read_release,
)
from tasks.knowledge.torch_releases import find_release, normalize_machine
from tasks.knowledge.versions import parse_major_minor, parse_version_numbers, remove_local_part
from tasks.knowledge.wheel_facts import TORCH_MEMBERS, read_torch_wheel
from tasks.planning.resolve import can_use_version, resolve_torch_version
from tasks.planning.target_resolution import find_targets, select_compiled_targets
from tasks.settings.schema import Settings
from tasks.system import fact_store
from tasks.system.fact_store import FactStore
from tasks.system.hardware import toolkit_probe
from tasks.system.network.package_index import open_package_index

_READ_TIMEOUT, _TIME_LIMIT = 5.0, 60.0  # seconds for each answer, and for all
_MAX_AGE = timedelta(days=1)  # of the list of releases, for torch.version: auto
_MAX_NEW_RELEASES = 5  # that are read to find the newest with code for the targets
_FIRST_PACKAGED_MAJOR = 13  # the first CUDA whose packages on PyPI have nvcc
_LIBRARIES = ("torchvision", "torchaudio")
# An index or a wheel may contain anything: names that are no host, members that are missing
_READ_ERRORS = (FetchError, OSError, ValueError)


@dataclass
class FactReader:
    """Reads the facts that a profile needs and nobody has recorded."""

    outputs: Path  # of the project
    settings: Settings
    host: Host
    knowledge: Knowledge
    store: FactStore = field(init=False)
    _combined: Knowledge = field(init=False)  # with the facts that it was last needed with

    def __post_init__(self) -> None:
        self.store = fact_store.read_store(self.outputs)
        self._combined = self.knowledge

    def load(self) -> ReadFacts:
        """Return the stored facts, without the network and without starting a program."""
        return fact_store.select_facts(self.store, self.settings, self.host, self.knowledge)

    def update(self, *, daily: bool = True) -> ReadFacts:
        """Return the stored facts, and read what is missing from toolkits and the package index.

        If `daily` is True, the list of releases, which torch.version: auto needs, is also read
        again if it is older than a day. If the index does not answer, `problem` says why.
        """
        max_age = _MAX_AGE if daily else None
        self._read_installed_toolkits()
        self._read_existing_torch()
        facts = self.load()
        if self.settings.offline:
            return structs.replace(facts, problem="the setting offline is used")
        if not self._should_ask(facts, max_age):
            return facts
        found = stored = self._select_stored()
        try:
            for found in self._ask_index(stored):
                self._save_facts(found)
        except _READ_ERRORS as error:
            self._save_facts(structs.replace(found, problem=_describe_error(error)))
        return self.load()

    def _select_stored(self) -> ReadFacts:
        """Return the facts of the index only, without those of what is installed here."""
        if not fact_store.select_facts(self.store, self.settings, self.host, self.knowledge).date:
            return ReadFacts()
        index = fact_store.identify_index(self.settings)
        return self.store.indexes.get(index, ReadFacts())

    def _save_facts(self, facts: ReadFacts) -> None:
        index = fact_store.identify_index(self.settings)
        self._save(structs.replace(self.store, indexes={**self.store.indexes, index: facts}))

    def _add_facts(self, facts: ReadFacts) -> Knowledge:
        if self._combined.read is not facts:
            self._combined = self.knowledge.add_read_facts(facts)
        return self._combined

    def _save(self, store: FactStore) -> None:
        self.store = store
        fact_store.write_store(self.outputs, store)

    def _read_installed_toolkits(self) -> None:
        rows = {
            key: row
            for kit in fact_store.list_new_toolkits(self.host, self.knowledge)
            if (key := fact_store.identify_toolkit(kit)) not in self.store.toolkits
            and (row := toolkit_probe.read_installed_toolkit(kit))
        }
        if rows:
            toolkits = {**self.store.toolkits, **rows}
            self._save(structs.replace(self.store, toolkits=toolkits))

    def _read_existing_torch(self) -> None:
        """Read the files of an existing torch whose release nobody has recorded."""
        torch = self.host.python.torch if self.settings.torch.strategy == "existing" else None
        if not torch or fact_store.identify_torch(torch) in self.store.torches:
            return
        if self._is_new_release(ReadFacts(), torch.version):
            row = {**read_installed_release(torch), "origin": f"read from {torch.folder}"}
            torches = {**self.store.torches, fact_store.identify_torch(torch): row}
            self._save(structs.replace(self.store, torches=torches))

    def _should_ask(self, facts: ReadFacts, max_age: timedelta | None) -> bool:
        recorded = datetime.fromisoformat(self.knowledge.date).replace(tzinfo=UTC)
        is_old = datetime.now(UTC) - recorded > timedelta(days=MAX_FACT_AGE_DAYS)
        is_stale = _is_older(facts.date, max_age)
        is_own_index = self.settings.torch.index != "auto"
        if self._find_new_cuda(facts) or (is_stale and (is_old or is_own_index)):
            return True
        if not self._needs_release():
            return False
        if self.settings.torch.version == "auto":
            return is_stale or (self._has_newer_release(facts) and not facts.problem)
        version = self.settings.torch.version
        is_incomplete = is_stale and bool(self._list_missing_libraries(facts, version))
        return is_incomplete or self._is_new_release(facts, version)

    def _list_missing_libraries(self, facts: ReadFacts, version: str) -> list[str]:
        """Return the companions of a read release that the index did not have yet."""
        if version not in facts.releases:
            return []
        needed = [one for one in _LIBRARIES if one in self.settings.companions]
        return [one for one in needed if one not in facts.releases[version].get("companions", {})]

    def _needs_release(self) -> bool:
        """Return False for an existing torch and for a local tree, which no index has."""
        return self.settings.torch.strategy != "existing" and not self.settings.source.path

    def _has_newer_release(self, facts: ReadFacts) -> bool:
        """Return True if the index has a newer release than that which `auto` means."""
        knowledge = self._add_facts(facts)
        chosen = resolve_torch_version(self.settings, self.host, knowledge).torch.version
        newest = parse_version_numbers(chosen)
        new = self._list_new_releases(facts)
        return any(parse_version_numbers(version) > newest for version in new)

    def _is_new_release(self, facts: ReadFacts, version: str) -> bool:
        """Return True for a release that is neither recorded nor read, and is no pre-release.

        With torch.index, every release counts that was not read there.
        """
        if self.settings.torch.index != "auto":
            return remove_local_part(version) not in facts.releases
        try:
            release = find_release(self._add_facts(facts), version)
        except KnowledgeError:
            return False
        return release.origin.startswith("assumed") and not release.channel

    def _find_new_cuda(self, facts: ReadFacts) -> str:
        """Return a requested CUDA release whose packages nobody has read, or ""."""
        toolkit, cuda = self.settings.toolkit, self.settings.toolkit.version
        is_installed = any(kit.release == cuda for kit in self.host.toolkits)
        is_installed &= toolkit.provider != "pypi"
        if cuda == "auto" or is_installed or toolkit.provider in {"system", "path"}:
            return ""
        return cuda if self._is_new_cuda(facts, cuda) else ""

    def _is_new_cuda(self, facts: ReadFacts, cuda: str) -> bool:
        try:
            kit = find_toolkit(self._add_facts(facts), cuda)
        except KnowledgeError:
            return False
        is_packaged = kit.pypi or parse_major_minor(cuda)[0] < _FIRST_PACKAGED_MAJOR
        has_packages = cuda in facts.toolkits and "evidence" in facts.toolkits[cuda]
        return not has_packages and (kit.origin.startswith("assumed") or not is_packaged)

    def _ask_index(self, facts: ReadFacts) -> Iterator[ReadFacts]:
        """Yield the facts with the releases on the index, then with each row that was read."""
        limit = time.monotonic() + _TIME_LIMIT
        place = fact_store.find_torch_index(self.settings, self.knowledge)
        index = open_package_index(place, timeout=_READ_TIMEOUT, deadline=limit)
        wheels = index.list_files("torch")
        cuda_files = index.list_files("cuda-toolkit")
        facts = structs.replace(
            facts,
            versions=list_releases(wheels),
            cuda_versions=list_minor_releases(cuda_files),
            index=index.url,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            problem="",
            releases=self._add_libraries(index, _drop_replaced(facts.releases, wheels)),
        )
        yield facts
        is_auto = self.settings.torch.version == "auto"
        for version in self._list_new_releases(facts) if self._needs_release() else ():
            try:
                row = self._read_release(index, wheels, version)
            except _READ_ERRORS as error:
                facts = structs.replace(facts, problem=_describe_error(error))
                yield facts
                continue
            if row:
                facts = structs.replace(facts, releases={**facts.releases, version: row})
                yield facts
            knowledge = self._add_facts(facts)
            is_usable = can_use_version(self.settings, self.host, knowledge, version)
            if row and (is_usable or not is_auto):
                break
        for cuda in self._list_new_cudas(facts):
            if row := toolkit_probe.read_published_toolkit(index, cuda_files, cuda, self.host):
                facts = structs.replace(facts, toolkits={**facts.toolkits, cuda: row})
                yield facts

    def _list_new_releases(self, facts: ReadFacts) -> list[str]:
        """Return the releases to read, in the order of preference."""
        version = self.settings.torch.version
        if version != "auto":
            candidates = [version, *self._list_nearest(facts, version)]
            return [one for one in candidates if self._is_new_release(facts, one)]
        candidates = [*reversed(facts.versions)]
        new = [one for one in candidates if self._is_new_release(facts, one)]
        recorded = next((one for one in candidates if one not in new), None)
        newer = candidates[: candidates.index(recorded)] if recorded else candidates
        return [one for one in newer if one in new][:_MAX_NEW_RELEASES]

    def _list_nearest(self, facts: ReadFacts, version: str) -> list[str]:
        """Return the published release to suggest in place of an unpublished one."""
        minor = [
            one for one in facts.versions if parse_major_minor(one) == parse_major_minor(version)
        ]
        return [*(minor or facts.versions)][-1:]

    def _read_release(
        self, index: PackageIndex, wheels: tuple[IndexFile, ...], version: str
    ) -> Row | None:
        machine = normalize_machine(self.host.machine)
        # the wheel for Linux names the CUDA of PyPI; the wheel for Windows there has none
        platforms = [("linux", "x86_64"), (self.host.system, machine), ("linux", "aarch64")]
        local = self.settings.torch.local
        rebuilds = [one for one in wheels if not local or f"+{local}-" in unquote(one.name)]
        row = read_release(index, rebuilds, version, platforms, self.host.python.minor)
        return self._add_libraries(index, {version: row})[version] if row else None

    def _add_libraries(self, index: PackageIndex, releases: Mapping[str, Row]) -> dict[str, Row]:
        """Return the rows with the torchvision and torchaudio of each that the profile needs."""
        completed = dict(releases)
        for (version, row), name in product(releases.items(), _LIBRARIES):
            found = completed[version].get("companions", {})
            is_missing = name in self.settings.companions and name not in found
            if is_missing and (release := find_companion_release(index, name, version)):
                completed[version] = row | {"companions": {**found, name: f"=={release}"}}
        return completed

    def _list_new_cudas(self, facts: ReadFacts) -> Iterator[str]:
        """Yield the CUDA releases to read from the index.

        These are the requested one, that of a new torch, and the newest if a target is newer than
        all known toolkits.
        """
        knowledge = self._add_facts(facts)
        candidates = [self._find_new_cuda(facts)]
        settings = resolve_torch_version(self.settings, self.host, knowledge)
        release = knowledge.read_releases.get(settings.torch.version)
        try:
            targets, _ = find_targets(self.settings, self.host, knowledge)
        except SettingsError:
            targets = ()
        if release and targets and self.settings.toolkit.version == "auto":
            candidates.append(release.pypi_cuda)
        if facts.cuda_versions and select_compiled_targets(knowledge, targets).notes:
            candidates.append(facts.cuda_versions[-1])
        for cuda in dict.fromkeys(candidates):
            if cuda in facts.cuda_versions and self._is_new_cuda(facts, cuda):
                yield cuda


def _describe_error(error: Exception) -> str:
    return str(getattr(error, "message", error))


def read_installed_release(torch: InstalledTorch) -> Row:
    """Return the row of the release of an installed torch, with what its files say."""
    site = Path(torch.folder).parent
    patterns = (pattern.replace("*.dist-info", "torch-*.dist-info") for pattern in TORCH_MEMBERS)
    paths = (path for pattern in patterns for path in site.glob(pattern))
    members = {path.relative_to(site).as_posix(): path.read_bytes() for path in paths}
    name = f"torch {torch.version} in {torch.folder}"
    return build_release_row(read_torch_wheel(members), (), IndexFile(name, ""))


def _is_older(date: str, max_age: timedelta | None) -> bool:
    """Return True if there is no date, or if it is older than `max_age`."""
    if not date or max_age is None:
        return not date
    return datetime.now(UTC) - datetime.fromisoformat(date) > max_age


def _drop_replaced(releases: Mapping[str, Row], wheels: Iterable[IndexFile]) -> dict[str, Row]:
    """Return the rows whose wheel is still on the index, with the same sha256 and size."""
    published = {(file.name, file.sha256, file.size) for file in wheels}
    return {
        version: row
        for version, row in releases.items()
        if all(
            (one["file"], one["sha256"], one.get("size", 0)) in published
            for one in row.get("evidence", ())
        )
    }
