"""The room that a way to a torch takes on disks, by place: the one answer that init, explain,
doctor and install tell of. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

Range = tuple[int, int]

# Places by name: the tree with its objects, the build folder, the wheelhouse, a person's caches.
# Beside these, "install.into" is an environment of their own
EVERYWHERE = ("build", "environment", "wheels", "caches")
_INSTALLED = {"environment", "caches", "install.into"}


@dataclass(frozen=True)
class Room:
    """Least and most MiB, of each kind of things: `build` is the build folder beside what is
    installed, `installed` torch and all that it needs, `wheels` the wheelhouse, `cache` what
    compilers made, kept for later.
    """

    build: Range
    installed: Range
    wheels: Range
    cache: Range

    def of(self, places: Collection[str]) -> Range:
        """What these places take, which lie on one disk. What is installed is there once: in the
        environment of the build, in uv's cache and in install.into it has one content with several
        names (uv's link mode `hardlink`, its default on Linux and Windows).
        """
        parts = [
            *([self.build] if "build" in places else []),
            *([self.installed] if _INSTALLED & set(places) else []),
            *([self.wheels] if "wheels" in places else []),
            *([self.cache] if "caches" in places else []),
        ]
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    def with_more(self, other: Room, times: int) -> Room:
        """This and so many of the other."""
        return Room(
            _more(self.build, other.build, times),
            _more(self.installed, other.installed, times),
            _more(self.wheels, other.wheels, times),
            _more(self.cache, other.cache, times),
        )


NOTHING = Room((0, 0), (0, 0), (0, 0), (0, 0))


def _more(one: Range, other: Range, times: int) -> Range:
    return one[0] + times * other[0], one[1] + times * other[1]


def unpacked(name: str, sizes: Mapping[str, int]) -> int:
    """MiB of a distribution that nobody has unpacked yet: what is known of the longest beginning of
    its name, since CUDA's have the major of their CUDA at the end.
    """
    known = (beginning for beginning in sizes if name.startswith(beginning))
    return sizes.get(max(known, key=len, default=""), 0)
