"""Which members of an archive would get out of the tree they are unpacked to. Pure.

Names are judged as both systems read them, and without regard to case, so that an archive that is
safe on one machine is safe on all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Literal

MemberKind = Literal["file", "folder", "symlink", "hardlink", "device"]
_ARCHIVE_TOP = PurePosixPath()


@dataclass(frozen=True)
class ArchiveMember:
    """One entry of an archive; `link` is a link's target, `size` in bytes."""

    name: str
    kind: MemberKind
    link: str = ""
    size: int = 0


def find_link_places(members: Iterable[ArchiveMember]) -> frozenset[str]:
    """The places of all symbolic links."""
    places = (_resolve_inside(member.name) for member in members if member.kind == "symlink")
    return frozenset(place for place in places if place is not None)


def explain_escape(member: ArchiveMember, links: Collection[str]) -> str:
    """Why a member must not be unpacked, "" where it may."""
    if member.kind == "device":
        return "is a device"
    place = _resolve_inside(member.name)
    if place is None:
        return "lies outside of the tree"
    if _is_behind_link(place, links):
        return "lies behind a link"
    if member.kind in ("symlink", "hardlink"):
        start = PurePosixPath(place).parent if member.kind == "symlink" else _ARCHIVE_TOP
        if _resolve_inside(member.link, start) is None or _has_link_detour(
            member.link, start, links
        ):
            return f'links out of the tree, to "{member.link}"'
    return ""


def _resolve_inside(name: str, start: PurePosixPath = _ARCHIVE_TOP) -> str | None:
    """The place of `name` in the tree in one spelling, None where it is absolute or climbs out."""
    if PureWindowsPath(name).anchor or PurePosixPath(name).is_absolute():
        return None
    parts = [part.casefold() for part in start.parts]
    for part in PureWindowsPath(name).parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        else:
            parts.append(part.casefold())
    return "/".join(parts)


def _is_behind_link(place: str, links: Collection[str]) -> bool:
    return any(str(folder) in links for folder in PurePosixPath(place).parents)


def _has_link_detour(link: str, start: PurePosixPath, links: Collection[str]) -> bool:
    """Whether a link's target lies over another link, behind which ".." means elsewhere."""
    parts = PureWindowsPath(link).parts
    ways = (_resolve_inside("/".join(parts[:end]), start) for end in range(1, len(parts)))
    return any(way is None or way in links for way in ways)
