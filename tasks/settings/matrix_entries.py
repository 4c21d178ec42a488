"""Expand a matrix as GitHub does (docs.github.com, "Running variations of jobs in a workflow")."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product, starmap

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
    """Split `mine@torch2.15.0-py3.12` into profile and matrix entry; the entry can be ""."""
    name, _, entry = profile.partition("@")
    return name, entry


def expand_matrix(matrix: Matrix) -> dict[str, MatrixEntry]:
    """Return every matrix entry by name, in the order of the axes, or raise `SettingsError`."""
    entries = list(_apply_includes(matrix))
    unique_entries = [dict(items) for items in dict.fromkeys(tuple(one.items()) for one in entries)]
    named_entries = [
        ("-".join(filter(None, starmap(_format_axis_value, entry.items()))) or "auto", entry)
        for entry in unique_entries
        if entry
    ]
    for name, count in Counter(name for name, _ in named_entries).items():
        if count > 1:
            message = f'{count} entries of the matrix have the same name "{name}"'
            hint = "remove the duplicate entries, and write each GPU in the same way everywhere"
            raise SettingsError(message, location="matrix", hint=hint)
    return dict(named_entries)


def find_matrix_entry(matrix: Matrix, profile: str, name: str) -> MatrixEntry:
    """Return the matrix entry `name`. Raises `SettingsError` if the matrix has no such entry."""
    entries = expand_matrix(matrix)
    if name in entries:
        return entries[name]
    message = f'the matrix of "{profile}" has no entry "{name}"{format_did_you_mean(name, entries)}'
    hint = f"choose one of: {', '.join(entries)}"
    if not entries:
        message, hint = f'the profile "{profile}" has no matrix', "see docs/matrix.md"
    raise SettingsError(message, location="matrix", hint=hint)


def _apply_includes(matrix: Matrix) -> Iterator[MatrixEntry]:
    combinations = list(_list_combinations(matrix))
    extended = [dict(entry) for entry in combinations]
    added: list[MatrixEntry] = []
    for included in map(_list_axis_values, matrix.include):
        is_added = True
        for original, entry in zip(combinations, extended, strict=True):
            if all(original.get(axis, value) == value for axis, value in included.items()):
                entry.update(included)
                is_added = False
        added += [included] * is_added
    for result in (*extended, *added):
        # A CPU build is the same with every toolkit
        axes = [axis for axis in AXIS_KEYS if axis != "cuda" or result.get("gpus") != ()]
        yield {axis: result[axis] for axis in axes if axis in result}


def _list_combinations(matrix: Matrix) -> Iterator[dict[str, AxisValue]]:
    axes = {axis: values for axis in AXIS_KEYS if (values := getattr(matrix, axis))}
    if not axes:
        return
    excluded = [_list_axis_values(exclusion) for exclusion in matrix.exclude]
    for values in product(*axes.values()):
        combination = dict(zip(axes, values, strict=True))
        if not any(exclusion.items() <= combination.items() for exclusion in excluded):
            yield combination


def _list_axis_values(entry: MatrixCombination) -> dict[str, AxisValue]:
    values = ((axis, getattr(entry, axis)) for axis in AXIS_KEYS)
    return {axis: value for axis, value in values if value is not None}


def _format_axis_value(axis: str, value: AxisValue) -> str:
    if isinstance(value, str):
        labels = {"torch": f"torch{value}", "python": f"py{value}"}
        return "" if value == "auto" else labels.get(axis, f"cu{value.replace('.', '')}")
    if not value:
        return "cpu"
    words = ".".join(
        f"sm{match[1]}{match[2]}"
        if (match := _GPU_CAPABILITY.fullmatch(name))
        else re.sub(r"[^a-z0-9]", "", name.lower())
        for name in value
    )
    if len(words) <= _MAX_GPU_NAMES_LENGTH:
        return words
    return f"{len(value)}gpus.{hashlib.sha256(words.encode()).hexdigest()[:6]}"
