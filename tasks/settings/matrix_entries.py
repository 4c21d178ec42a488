"""A matrix → its cells: each a name, and what it puts in the place of the profile's settings. Pure.

Expanded as GitHub does it: every combination of the axes, less what `exclude` has, then each
`include` to the combinations whose axes it leaves alone, or as one more where there are none
(docs.github.com, "Running variations of jobs in a workflow").
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product

from tasks.core.errors import SettingsError
from tasks.core.suggest import did_you_mean
from tasks.settings.matrix import Entry, Matrix

Value = str | tuple[str, ...]
Cell = Mapping[str, Value]  # by axis

# Axis → the key that it takes the place of
KEYS = {
    "torch": "torch.version",
    "python": "python",
    "cuda": "toolkit.version",
    "gpus": "target.gpus",
}
_CAPABILITY = re.compile(r"(?:sm_)?(\d{1,2})[.]?(\d[af]?)")
_LONG = 40  # letters of many GPUs, after which a name holds their number


def divided(profile: str) -> tuple[str, str]:
    """`mine@torch2.15.0-py3.12`: the profile and the name of a cell, "" where there is none."""
    name, _, cell = profile.partition("@")
    return name, cell


def cells(matrix: Matrix) -> dict[str, Cell]:
    """Every cell by its name, in the order of the axes. Raises `SettingsError` where two cells
    would be called the same.
    """
    found = [_without_cuda(cell) for cell in _expanded(matrix)]
    different = list(dict.fromkeys(tuple(cell.items()) for cell in found if cell))
    named = [(_name(dict(cell)), dict(cell)) for cell in different]
    for name, times in Counter(name for name, _ in named).items():
        if times > 1:
            raise SettingsError(
                f'{times} builds of the matrix would be called "{name}"',
                where="matrix",
                todo="write the same thing once: a GPU by one of its names",
            )
    return dict(named)


def cell_of(matrix: Matrix, profile: str, name: str) -> Cell:
    """The cell of that name. Raises `SettingsError` where the matrix has none."""
    known = cells(matrix)
    if name in known:
        return known[name]
    if not known:
        raise SettingsError(
            f'the profile "{profile}" has no matrix', where="matrix", todo="see docs/matrix.md"
        )
    raise SettingsError(
        f'the matrix of "{profile}" has no "{name}"{did_you_mean(name, known)}',
        where="matrix",
        todo=f"choose one of: {', '.join(known)}",
    )


def _expanded(matrix: Matrix) -> Iterator[Cell]:
    original = list(_combinations(matrix))
    grown = [dict(cell) for cell in original]
    more = []
    for entry in map(_said, matrix.include):
        fits = [place for place, cell in enumerate(original) if _leaves_alone(entry, cell)]
        for place in fits:
            grown[place].update(entry)
        if not fits:
            more.append(entry)
    yield from ({axis: cell[axis] for axis in KEYS if axis in cell} for cell in [*grown, *more])


def _combinations(matrix: Matrix) -> Iterator[Cell]:
    axes = {axis: values for axis in KEYS if (values := getattr(matrix, axis))}
    if not axes:
        return
    out = [_said(entry) for entry in matrix.exclude]
    for values in product(*axes.values()):
        cell = dict(zip(axes, values, strict=True))
        if not any(entry.items() <= cell.items() for entry in out):
            yield cell


def _said(entry: Entry) -> Cell:
    values = ((axis, getattr(entry, axis)) for axis in KEYS)
    return {axis: value for axis, value in values if value is not None}


def _leaves_alone(entry: Cell, cell: Cell) -> bool:
    return all(cell.get(axis, value) == value for axis, value in entry.items())


def _without_cuda(cell: Cell) -> Cell:
    """A build for the CPU is the same with every toolkit."""
    for_cpu = cell.get("gpus") == ()
    return {axis: value for axis, value in cell.items() if not (for_cpu and axis == "cuda")}


def _name(cell: Cell) -> str:
    return "-".join(part for axis, value in cell.items() if (part := _part(axis, value))) or "auto"


def _part(axis: str, value: Value) -> str:
    if not isinstance(value, str):
        return _gpus(value)
    if value == "auto":
        return ""
    return {"torch": f"torch{value}", "python": f"py{value}"}.get(axis, f"cu{_digits(value)}")


def _digits(version: str) -> str:
    return version.replace(".", "")


def _gpus(names: tuple[str, ...]) -> str:
    if not names:
        return "cpu"
    words = ".".join(map(_gpu, names))
    if len(words) <= _LONG:
        return words
    return f"{len(names)}gpus.{hashlib.sha256(words.encode()).hexdigest()[:6]}"


def _gpu(name: str) -> str:
    if found := _CAPABILITY.fullmatch(name):
        return f"sm{found[1]}{found[2]}"
    return re.sub(r"[^a-z0-9]", "", name.lower())
