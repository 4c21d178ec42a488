"""Measure how fast a GPU copies and multiplies, as a share of its peak. Part of torch_probe."""

import statistics
import time

# these modules are in the folder of this script
from gpu_device import BUS_WIDTH, CLOCK, MEMORY_CLOCK, PROCESSORS, read_device_attribute
from numeric_checks import use_float32_sums
from verdicts import NothingToTryError

# float32 results per clock and multiprocessor (CUDA C++ Programming Guide, Arithmetic Instructions)
LANES = {
    **dict.fromkeys(((6, 0), (7, 0), (7, 2), (7, 5), (8, 0)), 64),
    **dict.fromkeys(((5, 0), (5, 2), (5, 3), (6, 1), (6, 2), (8, 6), (8, 7)), 128),
    **dict.fromkeys(((8, 9), (9, 0), (10, 0), (12, 0)), 128),
}


def measure_speed(where):
    """Measure copies and matrix products. If a measurement fails, the check counts as not run."""
    import torch

    try:
        copied = measure_copy_rate(torch, where)
        with use_float32_sums():
            multiplied = [
                (str(dtype).rpartition(".")[2], measure_multiply_rate(torch, where, dtype))
                for dtype in (torch.float32, torch.float16)
            ]
    except RuntimeError as error:
        raise NothingToTryError(f"the speed measurement failed: {error}") from error
    capability = torch.cuda.get_device_capability() if torch.cuda.is_available() else (0, 0)
    peaks = {
        "copy": compute_memory_peak(read_device_attribute),
        "float32": compute_float32_peak(read_device_attribute, capability),
    }
    return format_rates(copied, multiplied, peaks)


def format_rates(copied, multiplied, peaks):
    """Return a text such as `copy 1510 GB/s (84 % of 1792), float32 78.1 TFLOP/s (75 % of 105)`."""
    parts = [f"copy {copied / 1e9:.0f} GB/s{format_share(copied, peaks['copy'], 1e9)}"]
    parts += [
        f"{name} {rate / 1e12:.3g} TFLOP/s{format_share(rate, peaks.get(name, 0), 1e12)}"
        for name, rate in multiplied
    ]
    return ", ".join(parts)


def format_share(rate, peak, unit):
    return f" ({rate / peak:.0%} of {peak / unit:.4g})" if peak else ""


def compute_memory_peak(of):
    """Return the peak memory rate in bytes per second, 0 if unknown. `of` reads a GPU attribute.

    The rate is 2 x memory clock x bus width (NVIDIA's blog, "How to Query Device Properties").
    """
    return 2 * of(MEMORY_CLOCK) * 1000 * of(BUS_WIDTH) / 8


def compute_float32_peak(of, capability):
    """Return the peak float32 operations per second, 0 if unknown. `of` reads a GPU attribute."""
    return 2 * LANES.get(capability, 0) * of(PROCESSORS) * of(CLOCK) * 1000


def measure_copy_rate(torch, where, size=512 << 20):
    """Return the bytes read and written per second by a copy far larger than the caches."""
    if where.type == "cuda":
        size = min(size, torch.cuda.mem_get_info()[0] // 8)
    x = torch.zeros(size // 4, device=where)
    y = torch.empty_like(x)
    return 2 * 4 * x.numel() / measure_seconds(torch, where, lambda: y.copy_(x))


def measure_multiply_rate(torch, where, dtype, n=4096):
    """Return operations per second for a product of two n x n matrices (2 n^3 operations)."""
    a, b = (torch.randn(n, n, device=where).to(dtype) for _ in range(2))
    return 2 * n**3 / measure_seconds(torch, where, lambda: a @ b)


def measure_seconds(torch, where, work, runs=10):
    """Return the median duration of `work` (on a GPU by CUDA events), after three warm-up runs."""

    def measure_run():
        if where.type != "cuda":
            started = time.perf_counter()
            work()
            return time.perf_counter() - started
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1000

    return statistics.median([measure_run() for _ in range(3 + runs)][3:])
