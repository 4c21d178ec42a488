"""The room that a way to a torch takes on disks, by place: the one answer that init, explain,
doctor and install tell of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

Range = tuple[int, int]

# Places by name: the tree with its objects, the build folder, the wheelhouse, a person's caches.
# Beside these, "install.into" is an environment of their own
ALL_PLACES = ("build", "environment", "wheels", "caches")
_INSTALL_PLACES = {"environment", "caches", "install.into"}


@dataclass(frozen=True)
class DiskUsage:
    """Least and most MiB, of each kind of things: `build` is the build folder beside what is
    installed, `installed` torch and all that it needs, `wheels` the wheelhouse, `cache` what
    compilers made, kept for later.
    """

    build: Range
    installed: Range
    wheels: Range
    cache: Range

    def sum_places(self, places: Collection[str]) -> Range:
        """What these places take, which lie on one disk. What is installed is there once: in the
        environment of the build, in uv's cache and in install.into it has one content with several
        names (uv's link mode `hardlink`, its default on Linux and Windows).
        """
        parts = [
            *([self.build] if "build" in places else []),
            *([self.installed] if _INSTALL_PLACES & set(places) else []),
            *([self.wheels] if "wheels" in places else []),
            *([self.cache] if "caches" in places else []),
        ]
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    def add_multiple(self, other: DiskUsage, times: int) -> DiskUsage:
        """This and so many of the other."""
        return DiskUsage(
            _add_range(self.build, other.build, times),
            _add_range(self.installed, other.installed, times),
            _add_range(self.wheels, other.wheels, times),
            _add_range(self.cache, other.cache, times),
        )


NO_DISK_USAGE = DiskUsage((0, 0), (0, 0), (0, 0), (0, 0))


def _add_range(one: Range, other: Range, times: int) -> Range:
    return one[0] + times * other[0], one[1] + times * other[1]


def estimate_unpacked_size(name: str, sizes: Mapping[str, int]) -> int:
    """MiB of a distribution that nobody has unpacked yet: what is known of the longest beginning of
    its name, since CUDA's have the major of their CUDA at the end.
    """
    known = (beginning for beginning in sizes if name.startswith(beginning))
    return sizes.get(max(known, key=len, default=""), 0)


# One compiler, where a number of jobs has to be said without seeing what they hold. Estimates,
# beside what is known: with CUDA, the largest process of a small extension took 810 MiB
# (docs/measurements.md), and kernels of flash-attention take 5.3 GB (pytorch.yaml, memory-flash);
# without it two of ATen's objects went well in 1.5 GiB, and eight were killed in two (costs.yaml).
CUDA_COMPILER_MIB = 4 * 1024
CXX_COMPILER_MIB = 2 * 1024

# One of flash-attention's kernels, alone with others of its kind: the 5.3 GB that pytorch#130443
# reports of nvcc 12.3 (pytorch.yaml, memory-flash).
KERNEL_COMPILER_MIB = 5 * 1024

# A machine that is told to add swap has less than this. An estimate: the link step of torch on
# Windows is said to take 16 GB (pytorch.yaml, memory-jobs, unverified), and compilers are at work
# beside it.
SWAP_ADVISED_BELOW = 32 * 1024

# Least and usual room where most of a build is there already, and of temporary files. Estimates.
STARTED_BUILD_MIB = (1024, 2048)
TEMPORARY_FILES_MIB = (512, 2048)

# Characters of a path that Windows takes, the end included, unless long paths are on: MAX_PATH in
# learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation.
MAX_PATH = 260

# Characters below the build folder that a build of torch needs, with a separator and the end:
# src/pytorch/test/dynamo_expected_failures/TestAutogradFunctionCUDA… has 175 in the tree of 2.6.0.
# Of other releases, and of third_party, it is an estimate: they can only be longer.
MAX_BUILD_SUBPATH = 177
