"""Compare what `doit refresh` read with the curated files, and with what was read before."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from packaging.specifiers import Specifier, SpecifierSet

from tasks.knowledge.known_problems import is_version_within
from tasks.knowledge.read_facts import complete_release_row, merge_rows, merge_tables
from tasks.knowledge.torch_refresh import Documents
from tasks.knowledge.versions import format_major_minor, parse_major_minor
from tasks.knowledge.wheel_facts import Row

REVIEWED_FILES = ("combinations", "extensions", "failures")  # that have conditions

# How each value is known. It differs between two files that agree about the value
_EVIDENCE_KEYS = frozenset({"status", "origin", "evidence"})
# Entries of combinations.yaml that repeat the range of _MSC_VER of toolkits
_MSVC_LIMITS = frozenset({"msvc-1940-old-cuda", "vs2026-old-cuda"})
_CUDA_FLOORS = "min-cuda-vs-torch"  # repeats min_cuda_cmake of the releases
_UPPER_BOUNDS = frozenset({"<", "<=", "==", "~="})


def merge_releases(curated: Documents, read: Documents, name: str) -> dict[str, Row]:
    """Return the rows of pytorch.yaml or toolkits.yaml with the values that were read."""
    return merge_tables(curated[name]["releases"], read[name]["releases"])


def list_changes(before: Mapping[str, Row], after: Mapping[str, Row]) -> Iterator[str]:
    """Yield a line for each value that differs: `2.15.patch: "2.15.0" → "2.15.1"`."""
    old, new = dict(_flatten(before)), dict(_flatten(after))
    for key in dict.fromkeys([*new, *old]):
        if key not in old:
            yield f"+ {key}: {new[key]}"
        elif key not in new:
            yield f"- {key}: {old[key]}"
        elif old[key] != new[key]:
            yield f"  {key}: {old[key]} → {new[key]}"


def _flatten(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict) or not value:
        yield key, json.dumps(value, ensure_ascii=False)
        return
    for name, item in _index_wheels(value).items():
        yield from _flatten(item, f"{key}.{name}".strip("."))


def _index_wheels(row: Row) -> Row:
    """Return the row with its wheels by CUDA and platform, and without the evidence."""
    values = {key: value for key, value in row.items() if key not in _EVIDENCE_KEYS}
    if isinstance(wheels := row.get("wheels"), list):
        keys = ("pypi", "archs", "ptx")
        values["wheels"] = {
            f"{wheel['cuda']} {wheel['system']} {wheel['machine']}": {k: wheel[k] for k in keys}
            for wheel in wheels
        }
    return values


def list_contradictions(curated: Documents, read: Documents) -> Iterator[str]:
    """Yield a line for each curated value that differs from what was read. It has both values."""
    for name in ("pytorch", "toolkits"):
        for release, row in read[name]["releases"].items():
            own = curated[name]["releases"].get(release, {})
            entries = _list_entries(read, name, row.get("patch", release))
            for key, expected, found in _list_differences(own, row):
                file = _find_evidence(entries, key)
                place = f"{name}.yaml: releases.{release}.{key}"
                yield f"{place} is {_format(expected)}, but {file} has {_format(found)}"
    yield from _list_python_contradictions(curated["pytorch"], read)
    yield from _list_limit_contradictions(curated, read)


def _list_differences(own: Any, read: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the key and both values where both have a value."""
    if isinstance(own, dict) and isinstance(read, dict):
        own, read = _index_wheels(own), _index_wheels(read)
        for name in (one for one in read if one in own):
            yield from _list_differences(own[name], read[name], f"{key}.{name}".strip("."))
    elif own != read:
        yield key, own, read


def _format(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list_entries(read: Documents, name: str, version: str) -> list[Row]:
    entries: list[Row] = read.get("evidence", {}).get(name, {}).get(version, [])
    return entries


def _find_evidence(entries: Iterable[Row], key: str) -> str:
    """Return the name of the file that the value was read from."""
    found = [one for one in entries for value in one["values"] if f"{key}.".startswith(f"{value}.")]
    return str(found[-1]["file"]) if found else "the index"


def _list_python_contradictions(curated: Mapping[str, Any], read: Documents) -> Iterator[str]:
    """Compare `python` and `fewer_pythons` with the wheels on the index."""
    rows = read["pytorch"]["releases"]
    platforms = {name: None for row in rows.values() for name in row.get("pypi_pythons", {})}
    for minor, row in rows.items():
        own = curated["releases"].get(minor, {})
        for platform in platforms:
            lasts = [
                limit["last"] or ""
                for limit in curated["fewer_pythons"]
                if _is_limited(limit, minor, *platform.split())
            ]
            claim = _format_claim(own, row, lasts)
            pythons = row.get("pypi_pythons", {}).get(platform, ())
            found = f"{pythons[0]} to {pythons[-1]}" if pythons else "none"
            if claim and claim != found:
                file = _find_evidence(_list_entries(read, "pytorch", row["patch"]), "pypi_pythons")
                place = f"pytorch.yaml: the Pythons of torch {minor} on {platform} are {claim}"
                yield f"{place}, but {file} has {found}"


def _format_claim(own: Row, read: Row, lasts: Sequence[str]) -> str:
    """Return the Pythons by the curated files: "3.9 to 3.13", "none", or "" for no claim.

    `lasts` are the newest Pythons by `fewer_pythons`, "" for no wheel.
    """
    if not own.get("python", {}).keys() & {"first", "last"} and not lasts:
        return ""
    python = complete_release_row(merge_rows(own, read)).get("python", {})
    last = min([python.get("last", ""), *lasts], key=parse_major_minor)
    return f"{python['first']} to {last}" if last else "none"


def _is_limited(limit: Row, minor: str, system: str, machine: str) -> bool:
    """Return True if an entry of `fewer_pythons` is about the wheels for a platform."""
    is_system = system in limit.get("system", [system])
    return minor in limit["releases"] and is_system and machine in limit.get("machine", [machine])


def _list_limit_contradictions(curated: Documents, read: Documents) -> Iterator[str]:
    """Compare the limits that combinations.yaml repeats."""
    toolkits = _merge_known(curated, read, "toolkits")
    for entry in curated["combinations"]["known_bad"]:
        conditions = entry["when"] if isinstance(entry["when"], list) else [entry["when"]]
        place = f"combinations.yaml: known_bad.{entry['id']}"
        if entry["id"] in _MSVC_LIMITS:
            for condition in conditions:
                for message in _check_msvc_limit(condition, toolkits):
                    yield f"{place}: {message}"
        elif entry["id"] == _CUDA_FLOORS:
            releases = _merge_known(curated, read, "pytorch")
            for message in _check_cuda_floors(conditions, releases, next(iter(toolkits), "")):
                yield f"{place}: {message}"


def _merge_known(curated: Documents, read: Documents, name: str) -> dict[str, Row]:
    """Return the rows with what is known, and without what is assumed for a new release."""
    own, found = curated[name]["releases"], read[name]["releases"]
    releases = merge_releases(curated, read, name)
    return {one: merge_rows(own.get(one, {}), found.get(one, {})) for one in releases}


def _check_msvc_limit(condition: Row, toolkits: Mapping[str, Row]) -> Iterator[str]:
    """Yield a message for each toolkit that the condition is wrong about."""
    least = re.fullmatch(r">=(\d+)", condition["msvc"])
    for cuda, row in toolkits.items():
        if least is None or "msvc" not in row:
            continue
        newest = row["msvc"]["below"] - 1
        if (int(least[1]) > newest) != is_version_within(cuda, condition["cuda"]):
            claim = f"msvc {condition['msvc']} fails with CUDA {condition['cuda']}"
            yield f"{claim}, but host_config.h of CUDA {cuda} accepts msvc up to {newest}"


def _check_cuda_floors(
    conditions: Iterable[Row], releases: Mapping[str, Row], oldest: str
) -> Iterator[str]:
    """Yield a message for each torch release whose CMake code has another minimum."""
    conditions = list(conditions)
    for minor, row in releases.items():
        if "min_cuda_cmake" not in row:
            continue
        floors = [
            one["cuda"].removeprefix("<")
            for one in conditions
            if is_version_within(minor, one["torch"])
        ]
        claim = max([oldest, *floors], key=parse_major_minor)
        found = max([oldest, row["min_cuda_cmake"]], key=parse_major_minor)
        if claim != found:
            yield f"torch {minor} needs CUDA {claim}, but its cuda.cmake needs {found}"


def list_open_bounds(documents: Documents, newest: Mapping[str, str]) -> Iterator[str]:
    """Yield the conditions that end at or just after the newest release, to be reviewed.

    `newest` is {"torch": "2.15.0", "cuda": "13.5"}. `documents` are `REVIEWED_FILES`.
    """
    for name, content in documents.items():
        for place, key, text in _list_specifiers(content, ""):
            if any(_is_open(one, newest[key]) for one in SpecifierSet(text)):
                yield f"{name}.yaml: {place}.{key} {text} (newest: {newest[key]})"


def _list_specifiers(value: Any, place: str) -> Iterator[tuple[str, str, str]]:
    """Yield the place, the key and the specifier of each condition about torch or CUDA."""
    if isinstance(value, list):
        for number, item in enumerate(value, 1):
            label = item.get("id", number) if isinstance(item, dict) else number
            yield from _list_specifiers(item, f"{place}.{label}")
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in {"torch", "cuda"} and isinstance(item, str) and re.match(r"[<>=!~]", item):
                yield place.strip("."), key, item
            else:
                yield from _list_specifiers(item, f"{place}.{key}")


def _is_open(bound: Specifier, newest: str) -> bool:
    major, minor = parse_major_minor(newest)
    limit = format_major_minor(bound.version)
    is_next = bound.operator == "<" and limit == f"{major}.{minor + 1}"
    return is_next or (bound.operator in _UPPER_BOUNDS and limit == format_major_minor(newest))
