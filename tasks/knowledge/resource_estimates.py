"""Estimate the disk usage of a build by folder, for init, explain, doctor and install."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass

Range = tuple[int, int]

# The source tree with its objects, the build folder with its environment, the wheelhouse, and the
# user's caches. A further place is "install.into", an environment of the user
ALL_PLACES = ("build", "environment", "wheels", "caches")
_INSTALL_PLACES = {"environment", "caches", "install.into"}


@dataclass(frozen=True)
class DiskUsage:
    """The disk usage of a build by kind of file, each as least and most MiB.

    `build` is the build directory without installed packages. `installed` is torch with all its
    requirements, `wheels` the wheelhouse, `cache` the compiler cache.
    """

    build: Range
    installed: Range
    wheels: Range
    cache: Range

    def sum_places(self, places: Collection[str]) -> Range:
        """Return the disk usage of the folders named in `places`, all on the same disk.

        Installed files count once, because uv's environments and cache share them as hard links.
        """
        parts = {"build": self.build, "wheels": self.wheels, "caches": self.cache}
        used = [part for place, part in parts.items() if place in places]
        used += [self.installed] if _INSTALL_PLACES & set(places) else []
        return sum(least for least, _ in used), sum(most for _, most in used)

    def add_multiple(self, other: DiskUsage, times: int) -> DiskUsage:
        """Return this disk usage plus `times` times `other`."""
        ranges = zip(astuple(self), astuple(other), strict=True)
        return DiskUsage(*(add_range_multiple(one, more, times) for one, more in ranges))


def add_range_multiple(one: Range, other: Range, times: int) -> Range:
    """Return the range `one` plus `times` times the range `other`."""
    return one[0] + times * other[0], one[1] + times * other[1]


NO_DISK_USAGE = DiskUsage((0, 0), (0, 0), (0, 0), (0, 0))


def estimate_unpacked_size(name: str, sizes: Mapping[str, int]) -> int:
    """Return the unpacked MiB for the longest prefix of `name` in `sizes`, 0 if there is none."""
    return sizes.get(max(filter(name.startswith, sizes), key=len, default=""), 0)


# The memory of one compiler, to choose a job count without measuring it. Estimates; what is
# known: with CUDA, the largest process of a small extension took 810 MiB
# (docs/measurements.md), and kernels of flash-attention take 5.3 GB (pytorch.yaml, memory-flash);
# without CUDA two of ATen's objects compiled in 1.5 GiB, and eight were killed in 2 GiB
# (costs.yaml).
CUDA_COMPILER_MIB = 4 * 1024
CXX_COMPILER_MIB = 2 * 1024

# One compiler's memory if only flash-attention's kernels compile: the 5.3 GB that pytorch#130443
# reports of nvcc 12.3 (pytorch.yaml, memory-flash).
KERNEL_COMPILER_MIB = 5 * 1024

# doctor suggests more swap below this. An estimate: the link step of torch on Windows reportedly
# takes 16 GB (pytorch.yaml, memory-jobs, unverified), while compilers run in parallel.
SWAP_ADVISED_BELOW = 32 * 1024

# Least and usual disk usage of a build that is mostly done, and of temporary files. Estimates.
STARTED_BUILD_MIB = (1024, 2048)
TEMPORARY_FILES_MIB = (512, 2048)

# The longest path on Windows, with its terminating NUL, unless long paths are on: MAX_PATH in
# learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation.
MAX_PATH = 260

# Characters of the longest path below the build directory of torch, with separator and NUL:
# src/pytorch/test/dynamo_expected_failures/TestAutogradFunctionCUDA… has 175 in the tree of 2.6.0.
# For other releases, and for third_party, this is an estimate: their paths can only be longer.
MAX_BUILD_SUBPATH = 177
