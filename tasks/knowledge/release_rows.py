"""Read a torch release out of its wheels on a package index, into a row of the knowledge."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from packaging.utils import BuildTag, InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from tasks.core.package_files import IndexFile, PackageIndex
from tasks.knowledge.known_problems import is_version_within
from tasks.knowledge.versions import format_major_minor, parse_major_minor
from tasks.knowledge.wheel_facts import (
    METADATA_MEMBER,
    TORCH_MEMBERS,
    Row,
    WheelPythons,
    list_wheel_pythons,
    read_companion_requirement,
    read_torch_wheel,
)

# The keys of `read_torch_wheel` that a row has under the same name
_SAME_KEYS = (
    *("requires_python", "setuptools", "cxx_std", "msvc_min", "min_cuda_cmake"),
    "extension_archs",
)
_OPEN_END = "3.99"  # the last Python of a wheel for every later Python
_MAX_COMPANIONS = 4  # releases that are read to find the one for a torch


def find_wheel_version(file: IndexFile) -> Version | None:
    """Return the version in the name of a wheel, None for another file."""
    try:
        return parse_wheel_filename(file.name)[1]
    except InvalidWheelFilename:
        return None


def list_releases(files: Iterable[IndexFile]) -> tuple[str, ...]:
    """Return the final releases that have a wheel, ascending, without local parts."""
    versions = {find_wheel_version(file) for file in files if not file.yanked}
    final = {one.public: one for one in versions if one and not one.is_prerelease}
    return tuple(sorted(final, key=lambda public: final[public]))


def list_minor_releases(files: Iterable[IndexFile]) -> tuple[str, ...]:
    """Return the major and minor versions ("13.5") that have a final release, ascending."""
    minors = dict.fromkeys(format_major_minor(release) for release in list_releases(files))
    return tuple(minors)


def select_files(files: Iterable[IndexFile], release: str) -> tuple[IndexFile, ...]:
    """Return the wheels of a release, of all its local versions."""
    versions = ((file, find_wheel_version(file)) for file in files)
    return tuple(file for file, version in versions if version and version.public == release)


def choose_wheel(
    files: Sequence[IndexFile], platforms: Sequence[tuple[str, str]], python: str
) -> IndexFile | None:
    """Return the wheel to read: for the first of `platforms` that has one, and for that Python.

    A platform is a system and a machine. `python` is major and minor ("3.12"). Without a wheel for
    that Python, the wheel for the newest Python is returned; without a platform, the first wheel.
    """
    for platform in platforms:
        pythons = {file: list_wheel_pythons([file.name]).get(platform, []) for file in files}
        fitting = [file for file, minors in pythons.items() if minors]
        if fitting:
            exact = [file for file in fitting if python in pythons[file]]
            newest = max(fitting, key=lambda file: parse_major_minor(pythons[file][-1]))
            return max(exact, key=_rank_wheel) if exact else newest
    return files[0] if files else None


def _rank_wheel(file: IndexFile) -> tuple[bool, Version, BuildTag]:
    """Return what to sort wheels by: those for CUDA, then by local version and build number."""
    _, version, build, _ = parse_wheel_filename(file.name)
    return (version.local or "cu").startswith("cu"), version, build


def build_release_row(facts: Mapping[str, Any], files: Sequence[IndexFile], file: IndexFile) -> Row:
    """Return the row of a release, with the keys that could be read.

    `facts` is the result of `read_torch_wheel` for `file`, one of the `files` of the release.
    """
    row = {key: facts[key] for key in _SAME_KEYS if key in facts}
    row["pypi_pythons"] = format_pythons(list_wheel_pythons(one.name for one in files))
    if "triton" in facts:
        row["companions"] = {"triton": facts["triton"]}
    status = f"verified: {file.name}"
    row |= {"has_cuda": False} if "cuda" in facts and facts["cuda"] is None else {}
    if cuda := facts.get("cuda"):
        row["pypi_cuda"] = format_major_minor(cuda)
        row |= {
            name: {row["pypi_cuda"]: facts[name]} for name in ("cudnn", "nccl") if name in facts
        }
    # The table in a wheel is about the official ones: 2.15.0+cu132, not 2.15.0+cu132.sm120.g1a2b3c4
    is_official = re.fullmatch(r"(cu\d+)?", facts.get("local", ""))
    if is_official and (code := facts.get("code")):
        pypi_cuda = row.get("pypi_cuda", "")
        row["cudas_built"] = sorted({*code, *filter(None, [pypi_cuda])}, key=parse_major_minor)
        row["wheels"] = list(_build_wheel_rows(code, pypi_cuda, status))
    return row | {"status": status}


def _build_wheel_rows(
    code: Mapping[str, Mapping[str, list[str]]], pypi_cuda: str, status: str
) -> Iterable[Row]:
    for cuda, by_machine in code.items():
        for machine, archs in by_machine.items():
            wheel = {"cuda": cuda, "system": "linux", "machine": machine, "pypi": cuda == pypi_cuda}
            yield {**wheel, "archs": archs, "ptx": [], "status": status}


def format_pythons(pythons: WheelPythons) -> dict[str, list[str]]:
    """Return the Pythons by platform ("linux x86_64"), those of an open range as first and last."""
    return {" ".join(platform): _close_ranges(minors) for platform, minors in pythons.items()}


def _close_ranges(minors: list[str]) -> list[str]:
    if not any(minor.endswith("+") for minor in minors):
        return minors
    first = min(minors, key=parse_major_minor).removesuffix("+")
    return [first if re.fullmatch(r"3\.\d+", first) else "3.0", _OPEN_END]


def read_release(
    index: PackageIndex,
    files: Sequence[IndexFile],
    release: str,
    platforms: Sequence[tuple[str, str]],
    python: str,
) -> Row | None:
    """Read a release out of one of its wheels on the index. Return None if it has no wheel.

    `files` are those of torch, `platforms` and `python` as for `choose_wheel`. The row's `evidence`
    names the wheel and its sha256. Raises `FetchError` if the wheel cannot be read.
    """
    wheels = select_files(files, release)
    file = choose_wheel(wheels, platforms, python)
    if file is None:
        return None
    facts = read_torch_wheel(index.read_members(file, TORCH_MEMBERS))
    if "version" not in facts:
        return None  # an archive without the files of a torch
    digest = f" (sha256 {file.sha256[:12]}…)" if file.sha256 else ""
    origin = {"origin": f"read from the wheel {file.name}{digest}"}
    proof = {"file": file.name, "version": release, "sha256": file.sha256, "size": file.size}
    return {**build_release_row(facts, wheels, file), **origin, "evidence": [proof]}


def find_companion_release(index: PackageIndex, name: str, torch: str) -> str:
    """Return the newest release of torchvision or torchaudio that requires this torch, or "".

    Only the newest releases on the index are read. Raises `FetchError`.
    """
    files = index.list_files(name)
    for release in reversed(list_releases(files)[-_MAX_COMPANIONS:]):
        file = select_files(files, release)[-1]
        metadata = next(iter(index.read_members(file, [METADATA_MEMBER]).values()), b"")
        if is_version_within(torch, read_companion_requirement(metadata) or "<0"):
            return release
    return ""
