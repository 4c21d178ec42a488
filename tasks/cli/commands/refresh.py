"""`doit refresh`: read all releases on a package index into config/knowledge/read."""

import gzip
import lzma
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TextIO

from tasks.cli.generated_files import render_generated_files
from tasks.core.errors import TorchyardError
from tasks.core.model import InstalledToolkit
from tasks.core.package_files import IndexFile, PackageIndex
from tasks.core.text_formatting import format_duration, format_size
from tasks.knowledge.knowledge_files_io import KNOWLEDGE_FOLDER, parse_knowledge_file
from tasks.knowledge.machine_code_rules import MachineCode
from tasks.knowledge.package_wheels_refresh import build_wheel_document, render_wheel_document
from tasks.knowledge.read_documents import DOCUMENT_NAMES, refresh_documents, render_document
from tasks.knowledge.refresh_review import (
    REVIEWED_FILES,
    list_changes,
    list_contradictions,
    list_open_bounds,
    merge_releases,
)
from tasks.knowledge.system_packages_refresh import (
    CONTENTS_FILES,
    SOURCES_FILE,
    build_package_document,
    render_package_document,
)
from tasks.knowledge.toolkit_facts import HOST_CONFIG_MEMBER
from tasks.knowledge.torch_names import (
    NAME_MEMBERS,
    build_name_document,
    read_release_names,
    render_name_document,
)
from tasks.knowledge.torch_refresh import Documents, Sources, choose_newest_wheels
from tasks.knowledge.torch_releases import normalize_machine
from tasks.knowledge.wheel_facts import Row
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.system import files
from tasks.system.hardware import toolkit_probe
from tasks.system.network.download import download_file
from tasks.system.network.package_index import SimpleIndex, open_package_index
from tasks.system.network.package_indexes import find_default_index
from tasks.system.output import print_report, print_warning
from tasks.wheels.machine_code_io import read_fatbin_images

_DEBIAN_SUITE = "oldstable"  # most systems have packages of these names
_TIMEOUT = 60.0  # seconds without data
_LIBRARY = "torch/lib/libtorch_cuda.so"
_COPY_BYTES = 4 * 2**20
_READ_FOLDER = KNOWLEDGE_FOLDER / "read"
_NOTHING_READ: Documents = {"pytorch": {"releases": {}}, "toolkits": {"releases": {}}}


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    subject: SelectedProfile,
    index: str = "",
    check: bool = False,
    names: bool = False,
    pythons: bool = False,
    debian: str = "",
) -> None:
    """Read the index and report all differences; without `check`, also write the files.

    With `names`, read only which names each release of torch has; with `pythons`, only for which
    Pythons each release of the packages in package_wheels.yaml has a wheel; with `debian`, the
    URL of a mirror, only which package has each header, library, pkg-config module and program.
    """
    if debian:
        _update_file("system_packages", _read_debian(debian), check)
        return
    if sys.platform != "linux":
        message = "doit refresh runs the Linux programs of the CUDA packages"
        raise TorchyardError(message, hint="run it on Linux")
    start = time.monotonic()
    packages = open_package_index(index or find_default_index(), timeout=_TIMEOUT)
    if names or pythons:
        requested = (("torch_names", names), ("package_wheels", pythons))
        _refresh_single([name for name, is_requested in requested if is_requested], packages, check)
        _print_costs(packages, time.monotonic() - start)
        return
    machine = normalize_machine(platform.machine())
    read_code = partial(_read_code, packages)
    sources = Sources(packages, read_code, _read_toolkit, ("linux", machine), print_report)
    curated = _read_documents(("pytorch", "toolkits", *REVIEWED_FILES), KNOWLEDGE_FOLDER)
    old = {**_NOTHING_READ, **_read_documents(DOCUMENT_NAMES, _READ_FOLDER)}
    refreshed = refresh_documents(sources, old, datetime.now(UTC).date().isoformat())
    contradictions = list(list_contradictions(curated, refreshed.documents))
    _print_review(curated, old, refreshed.documents)
    for problem in refreshed.problems:
        print_warning(problem)
    if not check:
        _write_files(subject.root, refreshed.documents)
    _print_costs(packages, time.monotonic() - start)
    if contradictions:
        message = "the curated files contradict what was read:\n  " + "\n  ".join(contradictions)
        hint = "remove or correct each curated value, or correct the code that reads it"
        raise TorchyardError(message, hint=hint)


def _refresh_single(names: Iterable[str], index: PackageIndex, check: bool) -> None:
    """Read the files of these names, which have a document of their own each."""
    readers = {"torch_names": _read_names, "package_wheels": _read_wheels}
    for name in names:
        _update_file(name, readers[name](index), check)


def _update_file(name: str, text: str, check: bool) -> None:
    """Report how many lines of a document change; without `check`, also write it."""
    path = _READ_FOLDER / f"{name}.yaml"
    old = path.read_text("utf-8").splitlines() if path.is_file() else []
    changed = set(old).symmetric_difference(text.splitlines())
    print_report(f"{path.name}: {len(changed)} lines changed")
    if not check:
        files.write_atomic(path, text)


def _read_names(index: PackageIndex) -> str:
    """Return the file of the names that the releases of torch have."""
    releases = {}
    for minor, wheel in choose_newest_wheels(index.list_files("torch")).items():
        print_report(f"reading {wheel.name}")
        releases[minor] = read_release_names(index.read_members(wheel, NAME_MEMBERS))
    return render_name_document(build_name_document(releases))


def _read_wheels(index: PackageIndex) -> str:
    """Return the file of the wheels of the packages that it has."""
    projects = parse_knowledge_file(_READ_FOLDER / "package_wheels.yaml")["packages"]
    listed = {name: index.list_files(name) for name in projects}
    return render_wheel_document(build_wheel_document(listed))


def _read_debian(mirror: str) -> str:
    """Return the file of the names that packages of Debian have."""
    with TemporaryDirectory(prefix="torchyard-") as folder, ExitStack() as stack:

        def open_index(name: str, open_compressed: Callable[..., TextIO]) -> TextIO:
            url = f"{mirror.rstrip('/')}/dists/{_DEBIAN_SUITE}/{name}"
            print_report(f"reading {url}")
            path = download_file(url, Path(folder, PurePosixPath(name).name), None)
            return stack.enter_context(open_compressed(path, "rt", encoding="utf-8"))

        contents = [open_index(name, gzip.open) for name in CONTENTS_FILES]
        sources = open_index(SOURCES_FILE, lzma.open)
        return render_package_document(build_package_document(chain(*contents), sources))


def _read_documents(names: Iterable[str], folder: Path) -> Documents:
    paths = {name: folder / f"{name}.yaml" for name in names}
    return {name: parse_knowledge_file(path) for name, path in paths.items() if path.is_file()}


def _print_review(curated: Documents, old: Documents, new: Documents) -> None:
    newest = {}
    for name, project in (("pytorch", "torch"), ("toolkits", "cuda")):
        before, after = (merge_releases(curated, one, name) for one in (old, new))
        newest[project] = next(reversed(after), "0.0")
        changes = list(list_changes(before, after))
        print_report(f"{name}.yaml: {len(changes)} values changed")
        for change in changes:
            print_report(f"  {change}")
    reviewed = {name: curated[name] for name in REVIEWED_FILES}
    bounds = list(list_open_bounds(reviewed, newest))
    print_report(f"to review, because they end at or after the newest release: {len(bounds)}")
    for bound in bounds:
        print_report(f"  {bound}")


def _write_files(root: Path, documents: Documents) -> None:
    for name, document in documents.items():
        files.write_atomic(_READ_FOLDER / f"{name}.yaml", render_document(name, document))
    for path, text in render_generated_files().items():
        files.write_atomic(root / path, text)


def _print_costs(index: PackageIndex, seconds: float) -> None:
    transfer = ""
    if isinstance(index, SimpleIndex):
        size = format_size(index.bytes_read / 2**20)
        transfer = f", {size} in {index.requests} requests"
    print_report(f"{index.url}: {format_duration(seconds)}{transfer}")


def _read_code(index: PackageIndex, file: IndexFile) -> MachineCode:
    """Return the machine code of libtorch_cuda in a wheel of torch."""
    with TemporaryDirectory(prefix="torchyard-") as folder:
        path = Path(folder, PurePosixPath(_LIBRARY).name)
        files.require_minimum_space(Path(folder), "the library of the wheel")
        with index.open_member(file, _LIBRARY) as member, path.open("wb") as target:
            shutil.copyfileobj(member, target, _COPY_BYTES)
        return read_fatbin_images(path).common_code


def _read_toolkit(version: str, members: Mapping[str, bytes]) -> Row:
    """Write the compiler of a toolkit to a temporary folder, and return its row."""
    with TemporaryDirectory(prefix="torchyard-") as folder:
        for name, content in members.items():
            is_header = fnmatchcase(name, HOST_CONFIG_MEMBER)
            path = Path(folder, "include/crt" if is_header else "bin", PurePosixPath(name).name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755)
        row = toolkit_probe.read_installed_toolkit(InstalledToolkit(folder, version))
    return {key: value for key, value in row.items() if key != "origin"}
