"""Expand a matrix into entries, each with a name and the settings that it replaces.

The expansion follows GitHub: every combination of the axes, minus those that `exclude` matches.
Each `include` is then added to the combinations whose axes it does not change. An `include` that
fits no combination becomes an additional entry (docs.github.com, "Running variations of jobs in a
workflow").
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product

from tasks.core.errors import SettingsError
from tasks.core.text_formatting import format_did_you_mean
from tasks.settings.schema import Matrix, MatrixCombination

AxisValue = str | tuple[str, ...]
MatrixEntry = Mapping[str, AxisValue]  # by axis

# Axis → the setting that it replaces
AXIS_KEYS = {
    "torch": "torch.version",
    "python": "python",
    "cuda": "toolkit.version",
    "gpus": "target.gpus",
}
_GPU_CAPABILITY = re.compile(r"(?:sm_)?(\d{1,2})[.]?(\d[af]?)")
_MAX_GPU_NAMES_LENGTH = 40  # characters; a longer list is replaced by the number of GPUs and a hash


def split_profile_name(profile: str) -> tuple[str, str]:
    """Split `mine@torch2.15.0-py3.12` into the profile and the matrix entry, "" for no entry."""
    name, _, entry = profile.partition("@")
    return name, entry


def expand_matrix(matrix: Matrix) -> dict[str, MatrixEntry]:
    """Return every matrix entry by name, in the order of the axes.

    Raises `SettingsError` if two entries would have the same name.
    """
    entries = [_drop_unused_cuda(entry) for entry in _apply_includes(matrix)]
    unique_entries = list(dict.fromkeys(tuple(entry.items()) for entry in entries if entry))
    named_entries = [(_format_entry_name(dict(entry)), dict(entry)) for entry in unique_entries]
    for name, count in Counter(name for name, _ in named_entries).items():
        if count > 1:
            raise SettingsError(
                f'{count} builds of the matrix would be called "{name}"',
                location="matrix",
                hint="write the same thing once: a GPU by one of its names",
            )
    return dict(named_entries)


def find_matrix_entry(matrix: Matrix, profile: str, name: str) -> MatrixEntry:
    """Return the matrix entry of that name.

    Raises `SettingsError` if the matrix has no such entry.
    """
    entries = expand_matrix(matrix)
    if name in entries:
        return entries[name]
    if not entries:
        raise SettingsError(
            f'the profile "{profile}" has no matrix', location="matrix", hint="see docs/matrix.md"
        )
    raise SettingsError(
        f'the matrix of "{profile}" has no "{name}"{format_did_you_mean(name, entries)}',
        location="matrix",
        hint=f"choose one of: {', '.join(entries)}",
    )


def _apply_includes(matrix: Matrix) -> Iterator[MatrixEntry]:
    combinations = list(_list_combinations(matrix))
    extended = [dict(entry) for entry in combinations]
    added = []
    for included in map(_list_axis_values, matrix.include):
        positions = [
            position
            for position, entry in enumerate(combinations)
            if _is_compatible_entry(included, entry)
        ]
        for position in positions:
            extended[position].update(included)
        if not positions:
            added.append(included)
    yield from (
        {axis: entry[axis] for axis in AXIS_KEYS if axis in entry} for entry in [*extended, *added]
    )


def _list_combinations(matrix: Matrix) -> Iterator[MatrixEntry]:
    axes = {axis: values for axis in AXIS_KEYS if (values := getattr(matrix, axis))}
    if not axes:
        return
    excluded = [_list_axis_values(exclusion) for exclusion in matrix.exclude]
    for values in product(*axes.values()):
        combination = dict(zip(axes, values, strict=True))
        if not any(exclusion.items() <= combination.items() for exclusion in excluded):
            yield combination


def _list_axis_values(entry: MatrixCombination) -> MatrixEntry:
    values = ((axis, getattr(entry, axis)) for axis in AXIS_KEYS)
    return {axis: value for axis, value in values if value is not None}


def _is_compatible_entry(entry: MatrixEntry, combination: MatrixEntry) -> bool:
    return all(combination.get(axis, value) == value for axis, value in entry.items())


def _drop_unused_cuda(entry: MatrixEntry) -> MatrixEntry:
    """Remove the CUDA axis from a CPU build, which is the same with every toolkit."""
    is_cpu_only = entry.get("gpus") == ()
    return {axis: value for axis, value in entry.items() if not (is_cpu_only and axis == "cuda")}


def _format_entry_name(entry: MatrixEntry) -> str:
    return (
        "-".join(part for axis, value in entry.items() if (part := _format_axis_value(axis, value)))
        or "auto"
    )


def _format_axis_value(axis: str, value: AxisValue) -> str:
    if not isinstance(value, str):
        return _format_gpu_names(value)
    if value == "auto":
        return ""
    return {"torch": f"torch{value}", "python": f"py{value}"}.get(axis, f"cu{_remove_dots(value)}")


def _remove_dots(version: str) -> str:
    return version.replace(".", "")


def _format_gpu_names(names: tuple[str, ...]) -> str:
    if not names:
        return "cpu"
    words = ".".join(map(_format_gpu_name, names))
    if len(words) <= _MAX_GPU_NAMES_LENGTH:
        return words
    return f"{len(names)}gpus.{hashlib.sha256(words.encode()).hexdigest()[:6]}"


def _format_gpu_name(name: str) -> str:
    if match := _GPU_CAPABILITY.fullmatch(name):
        return f"sm{match[1]}{match[2]}"
    return re.sub(r"[^a-z0-9]", "", name.lower())
