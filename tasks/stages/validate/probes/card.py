"""Whether there is a card to try, which one, and what a check works on. Part of torch_probe."""

from __future__ import annotations

import os

from driver import read_driver_version as driver_version  # beside this script
from verdicts import NothingToTryError, WrongResultError

UNUSABLE_HINT = "see that nvidia-smi works, and that the driver is new enough for this CUDA"


def find_no_gpu_reason(given):
    """Why there is no card to try, "" where there is one, usable or not."""
    import torch

    if torch.version.cuda is None:
        return "torch without CUDA"
    if torch.cuda.is_available():
        return ""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return "no GPU (CUDA_VISIBLE_DEVICES hides it)"
    return "" if given["cards"] else "no GPU"


def select_device(given):
    """cuda, or cpu where this torch knows no other; raises where there is no card to work on."""
    import torch

    if torch.version.cuda is None:
        return torch.device("cpu")
    if reason := find_no_gpu_reason(given):
        raise NothingToTryError(reason)
    try:
        torch.cuda.init()
    except Exception as error:
        raise WrongResultError(
            f"there is a card, but torch cannot use it: {error}", UNUSABLE_HINT
        ) from error
    return torch.device("cuda")


def check_device(given):
    import torch

    if reason := find_no_gpu_reason(given):
        raise NothingToTryError(reason)
    select_device(given)
    card = torch.cuda.get_device_properties(0)
    return (
        f"{card.name}, {card.total_memory / 2**30:.1f} GiB, capability {card.major}.{card.minor}, "
        f"driver {driver_version() or 'unknown'}"
    )


def allow_cpu(work):
    """A check that works on the CPU where this torch knows nothing else."""
    return lambda given: work(select_device(given))


def require_gpu(work):
    """A check that says nothing about a torch without CUDA."""

    def run_on_gpu(given):
        if reason := find_no_gpu_reason(given):
            raise NothingToTryError(reason)
        return work(select_device(given))

    return run_on_gpu
