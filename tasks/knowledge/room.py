"""The room that a way to a torch takes on disks, by place: the one answer that init, explain,
doctor and install tell of. Pure.
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
