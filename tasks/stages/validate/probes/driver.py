"""What the NVIDIA driver says, by its own libraries: torch does not tell. Part of torch_probe.

An empty answer is one that could not be had.
"""

from __future__ import annotations

import ctypes
import sys

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
