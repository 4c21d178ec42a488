"""distCUDA2 in float32; TORCHYARD_FAULT names what it should do wrongly."""

import os

import torch

FAULT = os.environ.get("TORCHYARD_FAULT", "")


def distCUDA2(points):
    rows = [of_rows(points, first) for first in range(0, len(points), 500)]
    return torch.cat(rows)


def of_rows(points, first):
    mine = points[first : first + 500]
    squared = ((mine[:, None] - points[None]) ** 2).sum(dim=2)
    if FAULT == "itself":  # a point as its own neighbour
        return squared.topk(3, largest=False).values.mean(dim=1)
    own = torch.arange(len(mine))
    squared[own, own + first] = torch.inf
    nearest = squared.topk(3, largest=False).values
    return nearest.sqrt().mean(dim=1) if FAULT == "root" else nearest.mean(dim=1)
