"""Disks, filesystems, paths, and what an earlier build left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.formatting.size import between, size
from tasks.doctor.disks import named
from tasks.doctor.symptom import Symptom, command, ok, problem, unchecked, warning
from tasks.knowledge.costs import cost
from tasks.knowledge.room import NOTHING
from tasks.knowledge.thresholds import (
    BEGUN,
    BESIDE,
    DEEPEST,
    MAX_PATH,
)

if TYPE_CHECKING:
    from pathlib import PurePath

    from tasks.doctor.host_facts import Disk, Leftover, Surroundings
    from tasks.knowledge import Knowledge
    from tasks.knowledge.room import Room
    from tasks.lock.profile import Profile

_PERHAPS_THERE = {"caches", "install.into"}  # of another build, or as the torch that gives way
_IN_MEMORY = {"tmpfs", "ramfs"}
_SHARED = {"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs"}
_WINDOWS_DISK = {"9p", "drvfs"}  # how WSL mounts C:


def judge(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """disk, filesystem, paths, long-paths, leftovers."""
    if s.disks is None:
        yield from (unchecked(check) for check in ("disk", "filesystem"))
    else:
        room = needed(profile, knowledge)
        yield from (_disk(s, disk, room) for disk in s.disks)
        yield _filesystem(s, s.disks)
    yield from _paths(s, profile)
    if s.host.system == "windows":
        yield _long_paths(s, profile)
    yield from _leftovers(s)


def needed(profile: Profile | None, knowledge: Knowledge) -> Room:
    """The room that a build takes; a profile that does not open is taken for one of a prebuilt
    torch.
    """
    room = profile.cost.room if profile else None
    if room is None:
        room = cost(knowledge, "prebuilt", 1, 0).room
    return room or NOTHING


def _disk(s: Surroundings, disk: Disk, room: Room) -> Symptom:
    what, (least, most) = disk.what, room.of(disk.holds)
    if what in _PERHAPS_THERE and "temporary files" in disk.holds and disk.free_mib < BESIDE[0]:
        what = "temporary files"  # whose room is not there already
    if what == "temporary files":
        least, most = BESIDE
    elif s.begun and what != "install.into":
        least, most = min(least, BEGUN[0]), min(most, BEGUN[1])
    firm = what not in _PERHAPS_THERE
    seen = f"{size(disk.free_mib)} free for {named(disk)} ({disk.path})"
    todo = _more(what, windows=s.host.system == "windows")
    if firm and disk.free_mib < least:
        return problem("disk", f"{seen}; it takes {size(least)} at the very least", todo, disk.what)
    if disk.free_mib < most:
        return warning("disk", f"{seen}; it takes up to about {size(most)}", todo, disk.what)
    return ok("disk", f"{seen}; it takes {between(least, most)}" if least else seen, disk.what)


def _more(what: str, *, windows: bool) -> str:
    match what:
        case "temporary files":
            variable = "TEMP" if windows else "TMPDIR"
            return f"free some room, or set {variable} to a folder on a larger disk"
        case "install.into":
            return "free some room there, or name an environment on a larger disk in install.into"
        case "caches":
            return "free some room, or set UV_CACHE_DIR to a folder on a larger disk"
        case _:
            return "free some room, or put the checkout on a larger disk"


def _filesystem(s: Surroundings, disks: tuple[Disk, ...]) -> Symptom:
    build = next((disk for disk in disks if disk.what == "build"), None)
    if build is None or not build.kind:
        return unchecked("filesystem", "its type is not known here")
    kind, elsewhere = build.kind, "put the checkout on a disk of this machine"
    if kind in _IN_MEMORY:
        seen = f"{build.path} is on {kind}: what is built there takes memory from the compilers"
        return warning("filesystem", seen, elsewhere)
    if kind in _SHARED:
        seen = f"{build.path} is on {kind}: slow, and locks may not hold there"
        return warning("filesystem", seen, elsewhere)
    if s.wsl and kind in _WINDOWS_DISK:
        seen = f"{build.path} is a disk of Windows: from WSL it is many times slower"
        todo = command("git clone <this checkout> ~/torchyard", "put it on WSL's own disk:")
        return warning("filesystem", seen, todo)
    return ok("filesystem", f"{kind} for the build")


def _paths(s: Surroundings, profile: Profile | None) -> Iterator[Symptom]:
    """What compilers' command lines and Windows' code pages cannot hold."""
    windows = s.host.system == "windows"
    troubled = False
    for what, path in (("the checkout", str(s.root)), ("Python", s.host.python.path)):
        if " " in path and (windows or what == "the checkout"):
            troubled = True
            yield _space(what, path, windows=windows, profile=profile)
        elif windows and not path.isascii():
            troubled = True
            todo = "move it to a path of plain letters, such as C:\\src"
            yield warning("paths", f"{what} is at {path}: compilers can misread such letters", todo)
    if not troubled:
        yield ok("paths", "no space in the paths of Python and the checkout")


def _space(what: str, path: str, *, windows: bool, profile: Profile | None) -> Symptom:
    seen = f"{what} is at {path}, and that has a space in it"
    if windows and what == "Python":
        todo = "install Python into a path without spaces, and name it: python: C:\\Python312\\"
        compiles = profile is None or profile.choice.strategy == "source"
        level = problem if compiles else warning
        return level("paths", f"{seen}: link and build scripts break on it", f"{todo}python.exe")
    why = "build scripts can break on it" + ("" if windows else ", and memory cannot govern jobs")
    return warning("paths", f"{seen}: {why}", "move the checkout to a path without spaces")


def _long_paths(s: Surroundings, profile: Profile | None) -> Symptom:
    if s.long_paths is None:
        return unchecked("long-paths", "the registry could not be read")
    if s.long_paths:
        return ok("long-paths", "Windows takes paths beyond 260 characters")
    build: PurePath = profile.layout.build if profile else s.root
    room = MAX_PATH - len(str(build))
    how = (
        "New-ItemProperty HKLM:\\SYSTEM\\CurrentControlSet\\Control\\FileSystem LongPathsEnabled "
        "-Value 1 -PropertyType DWORD -Force; git config --global core.longpaths true"
    )
    todo = command(how, "in PowerShell as an administrator:")
    seen = f"off: {room} characters are left below {build}"
    if profile and profile.choice.strategy == "source" and room < DEEPEST:
        return problem("long-paths", f"{seen}, and PyTorch's tree takes more", todo)
    return warning("long-paths", seen, todo)


def _leftovers(s: Surroundings) -> Iterator[Symptom]:
    if s.leftovers is None:
        yield unchecked("leftovers")
        return
    if not s.leftovers:
        yield ok("leftovers", "no other build, and nothing of one that was killed")
    for left in s.leftovers:
        yield _leftover(left)


def _leftover(left: Leftover) -> Symptom:
    if left.kind == "not ours":
        todo = "move it away: torchyard writes only into folders that it made"
        return problem("leftovers", f"{left.where} is in the way, and not ours", todo)
    if left.kind == "at work":
        todo = "wait for it to finish, or stop it"
        return warning("leftovers", f"another run is at work in {left.where}", todo)
    named = f", and left {', '.join(left.processes)} at work" if left.processes else ""
    todo = command("doit build", "nothing by hand; the next run ends what is left and goes on:")
    return warning("leftovers", f"a run was killed in {left.where}{named}", todo)
