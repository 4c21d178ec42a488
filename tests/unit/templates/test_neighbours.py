"""The reference for simple-knn, on points with known neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from tests.support.besides import CHECKS, beside, module


@pytest.fixture
def neighbours() -> Iterator[ModuleType]:
    with beside(CHECKS):
        yield module("neighbours")


def test_four_points_are_neighbours_of_each_other(neighbours: ModuleType) -> None:
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]])
    found = neighbours.mean_squared_distances(points)
    assert found == pytest.approx([(1 + 4 + 9) / 3, (1 + 5 + 10) / 3, (4 + 5 + 13) / 3, 32 / 3])


def test_grid_neighbours_are_at_grid_spacing(neighbours: ModuleType) -> None:
    steps = np.arange(6.0) * 0.5
    grid = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3)
    assert np.array_equal(neighbours.mean_squared_distances(grid), np.full(216, 0.25))


def test_coincident_points_are_neighbours_but_a_point_is_not_its_own(
    neighbours: ModuleType,
) -> None:
    places = np.random.default_rng(0).uniform(size=(5, 3))
    assert not neighbours.mean_squared_distances(np.repeat(places, 4, axis=0)).any()
    assert neighbours.mean_squared_distances(np.repeat(places, 3, axis=0)).all()


def test_chunk_size_does_not_change_the_result(neighbours: ModuleType) -> None:
    points = np.random.default_rng(1).normal(size=(500, 3))
    together = neighbours.mean_squared_distances(points, rows=500)
    for rows in (1, 7, 499):
        assert np.array_equal(neighbours.mean_squared_distances(points, rows=rows), together)
    one = np.sort(((points - points[42]) ** 2).sum(axis=1))[1:4].mean()
    assert together[42] == pytest.approx(one)
