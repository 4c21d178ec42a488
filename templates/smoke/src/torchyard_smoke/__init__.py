"""One CUDA kernel, to show that an extension compiles, loads and computes."""

from __future__ import annotations

import torch

from torchyard_smoke import _C  # noqa: F401 - loading it registers the operator


def axpy(a: float, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """y = a * x + y in place, float32 on one card. Returns each block's sum of y, float64."""
    return torch.ops.torchyard_smoke.axpy(a, x, y)
