"""Whether there is a card to try, which one, and what a check works on. Part of torch_probe."""

from __future__ import annotations

import ctypes
import os
import sys

# this module lies beside this script
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
        f"driver {read_driver_version() or 'unknown'}"
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


NVML, CUDA = (
    ("nvml.dll", "nvcuda.dll") if sys.platform == "win32" else ("libnvidia-ml.so.1", "libcuda.so.1")
)
# https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html, CUdevice_attribute
CLOCK, PROCESSORS, MEMORY_CLOCK, BUS_WIDTH = 13, 16, 36, 37


def read_driver_version():
    """`580.65.06`, by NVML (https://docs.nvidia.com/deploy/nvml-api), "" where it is not there."""
    try:
        nvml = ctypes.CDLL(NVML)
        if nvml.nvmlInit_v2() != 0:
            return ""
        text = ctypes.create_string_buffer(80)
        told = nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text)))
        nvml.nvmlShutdown()
    except (OSError, AttributeError):
        return ""
    return text.value.decode() if told == 0 else ""


def read_device_attribute(number, index=0):
    """A device's attribute by the driver API, which counts cards as torch does; 0 where unknown."""
    try:
        cuda = ctypes.CDLL(CUDA)
        device, value = ctypes.c_int(), ctypes.c_int()
        good = (
            cuda.cuInit(0) == 0
            and cuda.cuDeviceGet(ctypes.byref(device), index) == 0
            and cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0
        )
    except (OSError, AttributeError):
        return 0
    return value.value if good else 0
