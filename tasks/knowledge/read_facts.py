"""Combine recorded facts with facts that were read out of wheels and toolkits.

A row has the format of `releases` in pytorch.yaml and toolkits.yaml. A row that was read has only
the keys that could be read. The other keys come from the curated row or, for a new release, from
the nearest known release.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from tasks.knowledge.versions import parse_major_minor

Row = dict[str, Any]

MAX_FACT_AGE_DAYS = 60  # of the recorded facts, after which the index is asked for newer releases

# The keys that a new release does not share with the release before it
_OWN_KEYS = ("patch", "status", "origin", "companions", "pypi_pythons", "evidence", "cudnn", "nccl")
# A wheel or driver of another release says nothing about a new toolkit
_OWN_TOOLKIT_KEYS = ("nvcc", "driver", "status", "origin", "evidence", "note", "clang_note", "pypi")


class ReadFacts(Struct, frozen=True):
    """The facts that this machine has read, beyond those of the knowledge folder.

    `releases` has rows by exact torch version ("2.16.0"), `toolkits` rows by CUDA release
    ("13.6"). `versions` are the torch versions on `index`, a URL or folder, and `cuda_versions`
    the CUDA releases there, both ascending, as of `date` ("2026-11-26T19:00:00+00:00"). They are
    empty if the index was not asked; `problem` says what could not be read.
    """

    releases: Mapping[str, Row] = {}
    toolkits: Mapping[str, Row] = {}
    versions: tuple[str, ...] = ()
    cuda_versions: tuple[str, ...] = ()
    index: str = ""
    date: str = ""
    problem: str = ""


def merge_rows(row: Mapping[str, Any], read: Mapping[str, Any]) -> Row:
    """Return `row` with the values that were read. Nested mappings and wheels are merged."""
    merged = dict(row)
    for key, value in read.items():
        current = merged.get(key)
        if key == "wheels":
            merged[key] = _merge_wheels(current or (), value)
        elif isinstance(value, dict) and isinstance(current, dict):
            merged[key] = merge_rows(current, value)
        else:
            merged[key] = value
    return merged


def _merge_wheels(wheels: Iterable[Row], read: Iterable[Row]) -> list[Row]:
    # a curated row may lack a key: converting it to a fact reports that
    by_build = {
        (wheel.get("cuda"), wheel.get("system"), wheel.get("machine")): wheel
        for wheel in (*wheels, *read)
    }
    return list(by_build.values())


def find_nearest(known: Iterable[str], version: str) -> str:
    """Return the newest of the `known` releases up to `version`, "" if all are newer."""
    numbers = parse_major_minor(version)
    older = (release for release in known if parse_major_minor(release) <= numbers)
    return max(older, key=parse_major_minor, default="")


def merge_tables(recorded: Mapping[str, Row], read: Mapping[str, Row]) -> dict[str, Row]:
    """Return the rows of both tables by release, ascending."""
    table: dict[str, Row] = {}
    for name in sorted({*recorded, *read}, key=parse_major_minor):
        row = recorded.get(name) or assume_row(table, name)
        table[name] = merge_rows(row, read.get(name, {}))
    return table


def assume_row(known: Mapping[str, Row], name: str) -> Row:
    """Return the row of a new release, with what the nearest known release has in common with it.

    A wheel of the nearest release is assumed for the new one, and marked as unverified.
    """
    nearest = find_nearest(known, name) or next(iter(known), "")
    row = known.get(nearest, {})
    own_keys = _OWN_KEYS if "cxx_std" in row else _OWN_TOOLKIT_KEYS
    assumed = {key: value for key, value in row.items() if key not in own_keys}
    status = f"unverified: assumed to be as {nearest}"
    if "wheels" in row:
        assumed["wheels"] = [{**wheel, "status": status} for wheel in row["wheels"]]
    else:
        assumed["pypi"] = False  # until its packages were read
    return {**assumed, "status": status}


def complete_read_row(known: Mapping[str, Row], minor: str, read: Row) -> Row:
    """Return the row of a torch release that was read, with what is assumed for it.

    The Pythons of the nearest known release are assumed if no wheel was listed, as for a torch that
    is installed.
    """
    row = merge_rows(assume_row(known, minor), read)
    if not read.get("pypi_pythons"):
        row["pypi_pythons"] = known.get(find_nearest(known, minor), {}).get("pypi_pythons", {})
    return assume_wheels(row) if "pypi_cuda" in read and "wheels" not in read else row


def assume_wheels(row: Row) -> Row:
    """Return the row of a release that was read from a wheel that does not list its archs.

    Its wheel on PyPI, with the CUDA release `pypi_cuda`, is assumed to have the archs of the
    wheel with the newest CUDA release before it.
    """
    cuda = row["pypi_cuda"]
    wheels = [{**wheel, "pypi": wheel["pypi"] and wheel["cuda"] == cuda} for wheel in row["wheels"]]
    platforms = [(one["system"], one["machine"]) for one in row["wheels"] if one["pypi"]]
    for platform in dict.fromkeys(platforms):
        own = [one for one in wheels if (one["system"], one["machine"]) == platform]
        if cuda not in {one["cuda"] for one in own}:
            nearest = max(own, key=lambda one: parse_major_minor(one["cuda"]))
            wheels.append({**nearest, "cuda": cuda})
    for wheel in wheels:
        wheel["pypi"] |= wheel["cuda"] == cuda and wheel["system"] == "linux"
    cudas = sorted({*row["cudas_built"], cuda}, key=parse_major_minor)
    return {**row, "wheels": wheels, "cudas_built": cudas}


_COMPANIONS = ("torchvision", "torchaudio", "triton")


def complete_release_row(row: Row) -> Row:
    """Return the row of a torch release with the values that follow from other values.

    The Pythons of the wheels on PyPI give the first and the last Python, unless the row has them.
    Wheels of a CUDA release that is not in `cudas_built` are left out.
    """
    pythons = [one for minors in row.get("pypi_pythons", {}).values() for one in minors]
    completed = {**row, "companions": {**dict.fromkeys(_COMPANIONS), **row.get("companions", {})}}
    if pythons:
        ordered = sorted(pythons, key=parse_major_minor)
        completed["python"] = {"first": ordered[0], "last": ordered[-1], **row.get("python", {})}
    if isinstance(cudas := row.get("cudas_built"), list):
        completed["wheels"] = [one for one in row.get("wheels", ()) if one.get("cuda") in cudas]
    return completed
