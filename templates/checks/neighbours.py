"""The mean squared distance to the nearest neighbours, by looking at every pair, in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def mean_squared_distances(points: Floats, nearest: int = 3, rows: int = 256) -> Floats:
    """(N, 3) → (N,), for N > `nearest`. No point is its own neighbour; one at the same place is.

    Some rows at a time, since all pairs of 10,000 points would take gigabytes.
    """
    found = [
        _of_rows(points, first, min(first + rows, len(points)), nearest)
        for first in range(0, len(points), rows)
    ]
    return np.concatenate(found)


def _of_rows(points: Floats, first: int, end: int, nearest: int) -> Floats:
    apart = points[first:end, None, :] - points[None, :, :]
    squared = np.einsum("ijk,ijk->ij", apart, apart)
    squared[np.arange(end - first), np.arange(first, end)] = np.inf
    closest: Floats = np.partition(squared, nearest - 1, axis=1)[:, :nearest]
    found: Floats = closest.mean(axis=1)
    return found
