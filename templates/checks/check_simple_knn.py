"""Compares distCUDA2 of simple-knn with float64 on the CPU. The last line tells; exit 0 or 1."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import torch
from neighbours import Floats, mean_squared_distances  # beside this script
from simple_knn._C import distCUDA2

BOUND = 16 * 2.0**-24


def clouds() -> Iterator[tuple[str, Floats]]:
    """(what it is, (N, 3) numbers that float32 holds): more and fewer than the 1,024 points of a
    box, with ties, and with points that coincide. Fewer than 4 have no three neighbours.
    """
    random = np.random.default_rng(0)
    steps = np.arange(12.0)
    grid = np.stack(np.meshgrid(steps, steps / 2, steps / 4), axis=-1).reshape(-1, 3)
    scattered = random.normal(size=(10_000, 3))
    yield "4 points", random.normal(size=(4, 3))
    yield "7 far from the origin", random.normal(size=(7, 3)) + 1000
    yield "a grid", grid
    yield "each 3 times", np.repeat(random.uniform(size=(700, 3)), 3, axis=0)
    yield "each 5 times", np.repeat(random.uniform(size=(300, 3)), 5, axis=0)
    yield "10,000 points", scattered
    yield "clusters", np.concatenate([scattered[:1500] / 1000, scattered[1500:3000] / 1000 + 7])


def worst(points: Floats, device: str) -> float:
    """The largest error as a share of its bound, 16 2^-24 of the result.

    A difference is rounded once and counts twice in its square, which is rounded; sums of positive
    numbers add an error a term: 5 u a distance, 5 more where a box of points is passed over for
    being as far, 4 for the mean of three. The order of near ties changes nothing beyond that.
    """
    held = points.astype(np.float32)
    found = distCUDA2(torch.tensor(held.tolist(), device=device)).cpu().tolist()
    exact = mean_squared_distances(held.astype(np.float64))
    error = np.abs(np.array(found, dtype=np.float64) - exact)
    return float(np.max(error / np.maximum(BOUND * exact, 2.0**-140)))


def main(device: str) -> int:
    """NaN is wrong, too."""
    shares = {name: worst(points, device) for name, points in clouds()}
    wrong = [f"{name} ({share:.2g} times)" for name, share in shares.items() if not share <= 1]
    if wrong:
        print(f"distCUDA2 is WRONG beyond its bound for {', '.join(wrong)}")
        return 1
    print(
        f"distCUDA2 of {len(shares)} clouds of 4 to 10,000 points on {device}: "
        f"{max(shares.values()):.2g} of the bound (16 2^-24 of the result): right"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or ["cuda"]))
