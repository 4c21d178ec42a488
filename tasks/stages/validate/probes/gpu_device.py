"""Find the GPU, its properties, and the device that a check runs on. Part of torch_probe."""

import ctypes
import os
import sys

# this module is in the folder of this script
from verdicts import NothingToTryError, WrongResultError

UNUSABLE_HINT = "check that nvidia-smi works and that the driver supports this CUDA version"


def find_no_gpu_reason(given):
    """Return why there is no GPU, or "" if there is one, even if torch cannot use it."""
    import torch

    if torch.version.cuda is None:
        return "torch without CUDA"
    if torch.cuda.is_available():
        return ""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return "no GPU (CUDA_VISIBLE_DEVICES hides it)"
    return "" if given["cards"] else "no GPU"


def select_device(given, allow_cpu=False):
    """Return the GPU device or, for a torch without CUDA and with `allow_cpu`, the CPU device."""
    import torch

    if allow_cpu and torch.version.cuda is None:
        return torch.device("cpu")
    if reason := find_no_gpu_reason(given):
        raise NothingToTryError(reason)
    try:
        torch.cuda.init()
    except Exception as error:
        raise WrongResultError(f"torch cannot use the GPU: {error}", UNUSABLE_HINT) from error
    return torch.device("cuda")


def check_device(given):
    import torch

    device = select_device(given)  # before torch.cuda, which a torch without CUDA may lack
    card = torch.cuda.get_device_properties(device)
    return (
        f"{card.name}, {card.total_memory / 2**30:.1f} GiB, capability {card.major}.{card.minor}, "
        f"driver {read_driver_version() or 'unknown'}"
    )


def run_on_device(check, allow_cpu=False):
    return lambda given: check(select_device(given, allow_cpu))


NVML, CUDA = (
    ("nvml.dll", "nvcuda.dll") if sys.platform == "win32" else ("libnvidia-ml.so.1", "libcuda.so.1")
)
# https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html, CUdevice_attribute
CLOCK, PROCESSORS, MEMORY_CLOCK, BUS_WIDTH = 13, 16, 36, 37


def read_driver_version():
    """Return the driver version from NVML, such as `580.65.06`; an empty string if unknown."""
    try:
        nvml = ctypes.CDLL(NVML)
        if nvml.nvmlInit_v2() != 0:
            return ""
        text = ctypes.create_string_buffer(80)
        status = nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text)))
        nvml.nvmlShutdown()
    except (OSError, AttributeError):
        return ""
    return text.value.decode() if status == 0 else ""


def read_device_attribute(number, index=0):
    """Return the attribute `number` of a GPU, or 0 if unknown. `index` counts GPUs as in torch."""
    try:
        cuda = ctypes.CDLL(CUDA)
        device, value = ctypes.c_int(), ctypes.c_int()
        succeeded = (
            cuda.cuInit(0) == 0
            and cuda.cuDeviceGet(ctypes.byref(device), index) == 0
            and cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0
        )
    except (OSError, AttributeError):
        return 0
    return value.value if succeeded else 0
