"""How long a build takes on how many slots, and what cells of a matrix share: the tables of
docs/scale.md, from what was measured here. `python -m tests.benchmarks.model` prints them.

    least = serial + max(work / slots, longest, transfer)
    most  = serial + work / (slots x efficiency) + longest + transfer

`work` is the compilers' own seconds, `longest` those of the longest object. Both ends are Graham's
bounds for jobs of fixed length that are given out in any order ("Bounds on Multiprocessing Timing
Anomalies", 1969), where efficiency is 1. That many slots make each job slower is `efficiency`.
`transfer` is what comes from the network, of nothing or of all that is served.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Span = tuple[float, float]  # least and most

# Measured on two cores, docs/measurements.md: PyTorch 2.6.0 with few features, 2 x 57 min for 1,349
# objects for the CPU; 1 h 48 min of nvcc for 287 with CUDA 12.4 and one arch, Sort.cu the longest.
# Of C++ the longest of the slice took 24 s; of all of them it is not known
CXX_SECONDS = 6840 / 1349
NVCC_SECONDS = 6480 / 287
LONGEST_CXX, LONGEST_NVCC = 60.0, 179.0
# seconds that each further arch adds, as a share of the first: least and most of four kernels
FURTHER_ARCH = (0.22, 0.66)
# configuring and generating 23 s, linking 10, environment 20, wheel and its check 29
SERIAL = 82.0
# served from a cache: 1,349 objects in 147 s of two slots, all stages included
SERVED_SECONDS = 2 * (147 - SERIAL) / 1349
# bytes that a served object takes from the network, in a cache of both builds: the headers that it
# is known by, and itself
SERVED_BYTES = (150_891_765 + 223_361_005) / 3062
# assumed. On two slots it was 0.98; on more nothing was measured
EFFICIENCY = 0.75
NETWORK = 1000  # Mbit/s


@dataclass(frozen=True)
class Cell:
    """Objects of one build that are compiled, and that a cache serves."""

    name: str
    cxx: int
    nvcc: int
    served: int = 0
    archs: int = 1

    @property
    def work(self) -> Span:
        """Seconds of compilers, and of the cache."""
        rest = self.cxx * CXX_SECONDS + self.served * SERVED_SECONDS
        least, most = (self.nvcc * NVCC_SECONDS * factor for factor in self._archs)
        return rest + least, rest + most

    @property
    def longest(self) -> Span:
        if self.nvcc:
            least, most = (LONGEST_NVCC * factor for factor in self._archs)
            return least, most
        return (LONGEST_CXX, LONGEST_CXX) if self.cxx else (0.0, 0.0)

    @property
    def _archs(self) -> Span:
        least, most = FURTHER_ARCH
        return 1 + (self.archs - 1) * least, 1 + (self.archs - 1) * most

    @property
    def mib(self) -> float:
        """What comes from the network."""
        return self.served * SERVED_BYTES / 2**20

    def seconds(self, slots: int) -> Span:
        transfer = self.mib * 2**20 * 8 / (NETWORK * 1e6)
        least = max(self.work[0] / slots, self.longest[0], transfer)
        most = self.work[1] / (slots * EFFICIENCY) + self.longest[1] + transfer
        return SERIAL + least, SERIAL + most


CPU, CXX, NVCC = 1349, 1463, 287
FIRST = (
    Cell("for the CPU", CPU, 0),
    Cell("CUDA, one arch", CXX, NVCC),
    Cell("CUDA, four archs", CXX, NVCC, archs=4),
)
# Beside a build with CUDA and one arch that filled the cache. Counted in its own files: Ninja's
# record of headers, and command lines with the folders taken out
AGAIN = Cell("nothing: another machine", 0, 0, CXX + NVCC)
PYTHON = Cell("another Python", 140, 0, CXX + NVCC - 140)
ARCHS = Cell("another arch", 1, NVCC, CXX - 1)
BOTH = Cell("another arch and Python", 141, NVCC, CXX - 141)
TOOLKIT = Cell("another CUDA", 120, NVCC, CXX - 120)
FOR_CPU = Cell("for the CPU", CPU - 1192, 0, 1192)
SLOTS = (2, 4, 16, 64)


def firsts() -> Iterator[Sequence[str]]:
    """From nothing, on so many slots."""
    yield ("from nothing", "objects", "compilers' own", *(f"{slots} slots" for slots in SLOTS))
    for cell in FIRST:
        times = (span(cell.seconds(slots)) for slots in SLOTS)
        yield (cell.name, str(cell.cxx + cell.nvcc), span(cell.work), *times)


def besides() -> Iterator[Sequence[str]]:
    """With a warm cache."""
    slots = (f"{slots} slots" for slots in SLOTS)
    yield ("what differs", "compiled", "served", "network", *slots)
    for cell in (AGAIN, PYTHON, ARCHS, TOOLKIT, FOR_CPU):
        compiled = f"{cell.cxx} C++, {cell.nvcc} nvcc" if cell.nvcc else str(cell.cxx)
        times = (span(cell.seconds(slots)) for slots in SLOTS)
        yield (cell.name, compiled, str(cell.served), f"{cell.mib:.0f} MiB", *times)


def sixes() -> Iterator[Sequence[str]]:
    """Two Pythons for three archs, each a cell. Five that begin at the same time serve each other
    nothing.
    """
    alone = [FIRST[1]]
    in_turn = [*alone, ARCHS, ARCHS, PYTHON, PYTHON, PYTHON]
    at_once = [PYTHON, ARCHS, ARCHS, BOTH, BOTH]
    slots = (f"{slots} slots" for slots in SLOTS[1:])
    yield ("two Pythons, three archs: six cells", "compilers' own", *slots)
    for name, cells, in_a_row in (
        ("one machine, no cache", alone * 6, alone * 6),
        ("one machine, its cache", in_turn, in_turn),
        ("six machines at once, an empty cache", alone * 6, alone),
        ("one machine, then five at once, a shared cache", [*alone, *at_once], [*alone, BOTH]),
    ):
        times = (span(_sum(cell.seconds(slots) for cell in in_a_row)) for slots in SLOTS[1:])
        yield (name, span(_sum(cell.work for cell in cells)), *times)


def _sum(spans: Iterable[Span]) -> Span:
    least, most = map(sum, zip(*spans, strict=True))
    return least, most


def span(seconds: Span) -> str:
    """`2.3 h`, or `20 to 31 min`."""
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


TABLES = tuple(map(markdown, (firsts(), besides(), sixes())))


if __name__ == "__main__":
    print("\n\n".join(TABLES))
