"""Who supplies what the libraries of a wheel need, and whether anybody does. Pure.

What a library from outside the wheel lacks in turn is not judged: it is not ours to mend, and the
import that follows the install shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from tasks.core.errors import BadArtifactError
from tasks.core.formatting.few import format_short_list
from tasks.wheels.linking.cudapackages import find_nvidia_package
from tasks.wheels.linking.loading import LibraryNeed
from tasks.wheels.linking.values import LibraryOrigin, Linkage, LinkedLibrary, WheelLibraries

# Of the driver's own packages, which a machine without a card does not have
_DRIVER_LIBRARIES = (
    "libcuda.so",
    "libnvidia-",
    "libnvcuvid.so",
    "libnvoptix.so",
    "libcudadebugger.so",
)
# Of the C library: whatever runs this Python has them
_C_LIBRARIES = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libutil.so", "ld-")
_ORIGIN_PHRASES: Mapping[LibraryOrigin, str] = {
    "system": "from the system",
    "toolkit": "from the toolkit",
    "environment": "from packages of the environment",
    "build": "from the build folder",
    "driver": "from the driver",
}
_MAX_NAMES = 8  # names in a line for people; the file has all


def resolve_library_origins(
    wheel: PurePath,
    held: Mapping[str, Linkage],
    needs: Sequence[LibraryNeed],
    owner: Callable[[str], LibraryOrigin],
) -> WheelLibraries:
    """What each library `held` by the wheel needs, and whose that is.

    `needs` are theirs, by their names in the wheel; `owner` tells whose a file or folder is. Raises
    `BadArtifactError` for what is nowhere.
    """
    _require_all_found(wheel, held, [need for need in needs if not need.place])
    return WheelLibraries(
        wheel.name,
        {
            name: LinkedLibrary(
                {need.name: _resolve_origin(need, owner) for need in needs if need.library == name},
                {path: owner(path) for path in _list_absolute_paths(linkage)},
            )
            for name, linkage in held.items()
        },
    )


def _resolve_origin(need: LibraryNeed, owner: Callable[[str], LibraryOrigin]) -> LibraryOrigin:
    return "driver" if is_driver_library(need.name) else owner(need.place or "")


def is_driver_library(name: str) -> bool:
    """Whether a library may be absent where torch is built: there need not be a card."""
    return name.startswith(_DRIVER_LIBRARIES)


def _list_absolute_paths(linkage: Linkage) -> Iterator[str]:
    """Also a needed library can be named by its path: one without soname."""
    paths = (*linkage.rpath, *linkage.runpath, *linkage.needed)
    return (path for path in paths if path.startswith("/"))


def _require_all_found(
    wheel: PurePath, held: Mapping[str, Linkage], missing: Iterable[LibraryNeed]
) -> None:
    by: dict[str, list[str]] = {}
    for need in missing:
        if not is_driver_library(need.name):
            by.setdefault(need.name, []).append(need.library)
    if not by:
        return
    inside = {PurePath(name).name for name in held} | {one.soname for one in held.values()}
    todo = (
        "take what changes RPATH (CMAKE_SKIP_RPATH, CMAKE_INSTALL_RPATH) out of build.flags and "
        "build.env"
        if inside.issuperset(by)
        else "install the package that has it, or put its folder on LD_LIBRARY_PATH"
    )
    raise BadArtifactError(
        "not installed, and what was installed before stays: "
        + "; ".join(_format_missing_library(name, users, inside) for name, users in by.items()),
        location=str(wheel),
        hint=f"{todo}; then run the same command again",
    )


def _format_missing_library(name: str, users: Sequence[str], inside: Iterable[str]) -> str:
    if name in inside:
        return f"{name} is in the wheel, and no RPATH leads there from {', '.join(users)}"
    return f"{name} is nowhere on this machine (needed by {', '.join(users)})"


def summarize_libraries(found: WheelLibraries) -> str:
    """`9 libraries; from the system: libblas.so.3, libgomp.so.1`: what another machine has to
    have.
    """
    count = len(found.libraries)
    parts = [f"{count} libraries" if count != 1 else "1 library"]
    for origin, words in _ORIGIN_PHRASES.items():
        names = sorted(
            {
                name
                for linked in found.libraries.values()
                for name, of in linked.needed.items()
                if of == origin and not name.startswith(_C_LIBRARIES)
            }
        )
        if names:
            parts.append(f"{words}: {format_short_list(names, _MAX_NAMES)}")
    return "; ".join(parts)


def needs_toolkit_libraries(found: WheelLibraries) -> bool:
    """Whether any library takes one of CUDA from where it is on this machine."""
    needed = (one for linked in found.libraries.values() for one in linked.needed.items())
    return any(find_nvidia_package(name) and of in {"system", "toolkit"} for name, of in needed)


def list_rpath_warnings(found: WheelLibraries) -> Iterator[str]:
    """A warning for each place of the build that a library leads to."""
    users: dict[str, list[str]] = {}
    for name, linked in found.libraries.items():
        for path, of in linked.paths.items():
            if of == "build":
                users.setdefault(path, []).append(PurePath(name).name)
    for path, names in sorted(users.items()):
        yield (
            f"{', '.join(names)}: bound by RPATH to {path}, so that this torch works only on this "
            "machine, and as long as that is there"
        )
