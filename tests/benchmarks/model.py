"""How long a build takes on how many slots, and what cells of a matrix share: the tables of
docs/scale.md, from what was measured here. `python -m tests.benchmarks.model` prints them.

    least = serial + max(work / slots, longest)
    most  = serial + work / (slots x efficiency) + longest

`work` is the compilers' own seconds, `longest` those of the longest object. Both ends are Graham's
bounds for jobs of fixed length that are given out in any order ("Bounds on Multiprocessing Timing
Anomalies", 1969), where efficiency is 1. That many slots make each job slower is `efficiency`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# Measured on two cores, docs/measurements.md: PyTorch 2.6.0 with few features, 2 x 57 min for 1,349
# objects for the CPU; 1 h 48 min of nvcc for 287 with CUDA 12.4 and one arch, Sort.cu the longest
CXX_SECONDS = 6840 / 1349
NVCC_SECONDS = 6480 / 287
LONGEST_CXX, LONGEST_NVCC = 60.0, 179.0
# a further arch, as a share of the first: two of ATen's kernels
FURTHER_ARCH = 0.0
# configuring and generating 23 s, linking 10, environment 20, wheel and its check 29
SERIAL = 82.0
# served from a cache: 1,349 objects in 147 s of two slots, all stages included
SERVED_SECONDS = 2 * (147 - SERIAL) / 1349
# bytes that a served object takes from the network, out of a cache of both builds: what it is known
# by, and itself
SERVED_BYTES = (150_891_765 + 223_361_005) / 3062
# assumed, and not measured: beyond two slots
EFFICIENCY = 0.75


@dataclass(frozen=True)
class Cell:
    """Objects of one build that are compiled, and that a cache serves."""

    name: str
    cxx: int
    nvcc: int
    served: int = 0
    archs: int = 1

    @property
    def work(self) -> float:
        """Seconds of compilers, and of the cache."""
        nvcc = self.nvcc * NVCC_SECONDS * (1 + (self.archs - 1) * FURTHER_ARCH)
        return self.cxx * CXX_SECONDS + nvcc + self.served * SERVED_SECONDS

    @property
    def longest(self) -> float:
        if self.nvcc:
            return LONGEST_NVCC * (1 + (self.archs - 1) * FURTHER_ARCH)
        return LONGEST_CXX if self.cxx else 0.0

    @property
    def mib(self) -> float:
        """What comes from the network."""
        return self.served * SERVED_BYTES / 2**20

    def seconds(self, slots: int, megabits: float = 0.0) -> tuple[float, float]:
        """Least and most; the transfer counts where a speed is given, and nothing runs beside."""
        transfer = self.mib * 8 * 1.048576 / megabits if megabits else 0.0
        least = SERIAL + max(self.work / slots, self.longest, transfer)
        most = SERIAL + self.work / (slots * EFFICIENCY) + self.longest + transfer
        return least, most


CPU, CUDA = 1349, (1463, 287)
FIRST = (
    Cell("for the CPU", CPU, 0),
    Cell("CUDA, one arch", *CUDA),
    Cell("CUDA, four archs", *CUDA, archs=4),
)
# Beside a build with CUDA and one arch that filled the cache. Counted in its own files: Ninja's
# record of headers, and command lines with the folders taken out
BESIDE = (
    Cell("nothing else than it", 0, 0, 1750),
    Cell("another Python", 140, 0, 1610),
    Cell("other archs", 1, 287, 1462),
    Cell("another CUDA", 120, 287, 1343),
    Cell("for the CPU", 157, 0, 1192),
)
SLOTS = (2, 16, 32, 64)


def firsts() -> Iterator[Sequence[str]]:
    """From nothing, on so many slots."""
    yield ("from nothing", "compilers' own", *(f"{slots} slots" for slots in SLOTS))
    for cell in FIRST:
        yield (cell.name, span((cell.work, cell.work)), *(span(cell.seconds(n)) for n in SLOTS))


def besides() -> Iterator[Sequence[str]]:
    """With a warm cache."""
    yield ("cell", "compiled", "served", "from the network", "2 slots", "16 slots", "64 slots")
    for cell in BESIDE:
        compiled = f"{cell.cxx} C++, {cell.nvcc} nvcc" if cell.nvcc else f"{cell.cxx} C++"
        network = f"{cell.mib:.0f} MiB"
        times = (span(cell.seconds(slots, 1000)) for slots in (2, 16, 64))
        yield (cell.name, compiled, str(cell.served), network, *times)


def span(seconds: tuple[float, float]) -> str:
    """`1 h 04 min`, or `20 to 31 min`."""
    least, most = (_told(one) for one in seconds)
    if least == most:
        return least
    unit = least.rpartition(" ")[2]
    return f"{least.removesuffix(f' {unit}') if most.endswith(unit) else least} to {most}"


def _told(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes / 60:.1f} h" if minutes >= 100 else f"{minutes:.0f} min"


def markdown(rows: Iterator[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TABLES: Mapping[str, str] = {"firsts": markdown(firsts()), "besides": markdown(besides())}


if __name__ == "__main__":
    print("\n\n".join(TABLES.values()))
