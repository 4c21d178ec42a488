"""Query the NVIDIA driver with NVML or nvidia-smi. Report why a driver does not answer."""

import contextlib
import ctypes
import re
import shutil
import sys
from collections.abc import Callable
from typing import Any

from tasks.core.model import Gpu
from tasks.knowledge.gpus import NvidiaDriver
from tasks.system import shell

_WSL_PROGRAM = "/usr/lib/wsl/lib/nvidia-smi"  # not on PATH in every distribution
_QUERY_OPTIONS = ("--query-gpu=name,compute_cap,memory.total", "--format=csv,noheader")
_NVML_LIBRARY = "libnvidia-ml.so.1"  # the name that pynvml uses
_NVIDIA_SMI_TIMEOUT = 5.0  # seconds; a driver in trouble can hold nvidia-smi for minutes


def query_driver(*, run: bool = True) -> NvidiaDriver:
    """Return facts on the NVIDIA driver from NVML or, if it fails and `run` is True, nvidia-smi."""
    if not _has_nvml():
        return _query_nvidia_smi("") if run else NvidiaDriver()
    import pynvml  # noqa: PLC0415 - not for a profile that is pinned

    no_driver = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    try:
        pynvml.nvmlInit()
        return _query_nvml(pynvml)
    except pynvml.NVMLError as error:
        trouble = "" if error.value in no_driver else str(error)
        return _query_nvidia_smi(trouble) if run else NvidiaDriver(trouble=trouble)
    finally:  # also if NVML was not initialized
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _has_nvml() -> bool:
    """Return True if NVML may work: on Linux, only if its library can be loaded."""
    with contextlib.suppress(OSError):
        return sys.platform != "linux" or bool(ctypes.CDLL(_NVML_LIBRARY))
    return False


def _query_nvml(nvml: Any) -> NvidiaDriver:
    readings = [_read_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    gpus = tuple(gpu for gpu in readings if gpu)
    driver = _decode_text(_read_or_default(nvml, nvml.nvmlSystemGetDriverVersion, ""))
    number = int(_read_or_default(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2, 0))  # 13020
    cuda = f"{number // 1000}.{number % 1000 // 10}" if number else ""
    return NvidiaDriver(driver, cuda, gpus, lost=len(readings) - len(gpus))


def _read_gpu(nvml: Any, index: int) -> Gpu | None:
    """Return a GPU, with 0 MiB if NVML cannot read its memory; `None` if it does not answer."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        name = _decode_text(nvml.nvmlDeviceGetName(handle))
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    except nvml.NVMLError:
        return None
    memory = _read_or_default(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total, 0)
    return Gpu(name, f"{major}.{minor}", int(memory) // 2**20)


def _read_or_default(nvml: Any, read: Callable[[], Any], default: Any) -> Any:
    try:
        return read()
    except nvml.NVMLError:
        return default


def _decode_text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _query_nvidia_smi(trouble: str) -> NvidiaDriver:
    """Return what nvidia-smi reports; if it fails as well, return NVML's error `trouble`."""
    argv = (shutil.which("nvidia-smi") or _WSL_PROGRAM, *_QUERY_OPTIONS)
    text = shell.try_capture(*argv, what="ask nvidia-smi for GPUs", timeout=_NVIDIA_SMI_TIMEOUT)
    if text is None:
        return NvidiaDriver(trouble=trouble)
    rows = [_parse_gpu_row(line) for line in text.splitlines() if line.strip()]
    gpus = tuple(gpu for gpu in rows if gpu)
    return NvidiaDriver(gpus=gpus, lost=len(rows) - len(gpus))


def _parse_gpu_row(line: str) -> Gpu | None:
    """Parse `NVIDIA GeForce RTX 5090, 12.0, 32607 MiB`; `None` without a compute capability."""
    name, capability, memory = ([part.strip() for part in line.rsplit(",", 2)] + ["", ""])[:3]
    if not re.fullmatch(r"\d+\.\d+", capability):
        return None
    size = memory.partition(" ")[0]
    return Gpu(name, capability, int(size) if size.isdigit() else 0)
