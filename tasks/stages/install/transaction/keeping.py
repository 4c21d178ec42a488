"""What will be replaced is kept, before anything is changed: every file of the distributions that
give way, and whatever else lies where a new file goes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from tasks.core.errors import BuildError
from tasks.stages.install.target.environment import Target
from tasks.stages.install.target.interpreter import not_writable
from tasks.stages.install.target.unpacked import Unpacked
from tasks.stages.install.transaction import place
from tasks.stages.install.transaction.journal import CHANGE, FILES, Exchange, Kept, Part
from tasks.stages.install.transaction.lying import Lying, files_of, lying
from tasks.system.voice import tick

_NOTHING = "nothing was changed"


def owners(target: Target, made: Unpacked) -> tuple[Mapping[str, Lying], dict[str, str]]:
    """What gives way, and the paths that are to be kept, each with the distribution that takes its
    place. Raises `BuildError` for what could not be put back.
    """
    old = lying(target.prefix, target.sites, made.versions)
    require_recorded(target.python, old.values())
    _require_no_stray(target, made, old)
    paths = {path: name for name, one in old.items() for path in files_of(target.prefix, one)}
    for path, placed in made.placed.items():
        if path not in paths and place.is_there(target.prefix / path):
            paths[path] = placed.owner
            compiled = place.bytecode(target.prefix / path)
            paths |= {p.relative_to(target.prefix).as_posix(): placed.owner for p in compiled}
    _require_room(target.prefix, {*paths, *made.placed}, made.placed)
    return old, paths


def require_recorded(python: str, old: Iterable[Lying]) -> None:
    """`BuildError` for what was installed by a tool that left no list of its files."""
    for one in old:
        for info in one.unrecorded:
            raise BuildError(
                f"{one.name} {one.version} has no RECORD, so that nobody knows which files are "
                f"its own, to keep them; {_NOTHING}",
                where=str(info),
                todo=f"take it out yourself ({python} -m pip uninstall {one.name}, or "
                "conda remove, or by hand), then run the same command again",
            )


def _require_no_stray(target: Target, made: Unpacked, old: Mapping[str, Lying]) -> None:
    """A folder torch that is nobody's would be half of the one and half of the other."""
    for site in target.sites:
        folder = target.prefix / site / "torch"
        if "torch" in made.versions and "torch" not in old and place.is_there(folder):
            raise BuildError(
                f"this is of no package that is installed there; {_NOTHING}",
                where=str(folder),
                todo="move it away, then run the same command again",
            )


def _require_room(prefix: Path, paths: Iterable[str], placed: Iterable[str]) -> None:
    """Folders are folders, of this environment, and can be written to; files are files."""
    for name in sorted(place.parents(paths)):
        folder = prefix / name
        if folder.is_symlink() or Path(os.path.realpath(folder)) != folder:
            raise BuildError(
                f"this is a link to {os.path.realpath(folder)}, which is not written to; "
                f"{_NOTHING}",
                where=str(folder),
                todo="put a folder in its place, or uninstall what made it",
            )
        if folder.exists() and not folder.is_dir():
            raise BuildError(
                f"a folder is to be here, and a file is in its way; {_NOTHING}",
                where=str(folder),
                todo="move the file away",
            )
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            raise not_writable(str(folder))
    for name in placed:
        if (prefix / name).is_dir() and not (prefix / name).is_symlink():
            raise BuildError(
                f"a file is to be here, and a folder is in its way; {_NOTHING}",
                where=str(prefix / name),
                todo="move the folder away",
            )


def keep(
    stamp: Path, target: Target, made: Unpacked, wheels: Mapping[str, str], when: str
) -> Exchange:
    """Keep what gives way in the folder of the change, and say what is to be exchanged. `wheels`
    are the sha256 of wheels by the distribution's name.
    """
    old, paths = owners(target, made)
    kept = {}
    for number, (path, owner) in enumerate(sorted(paths.items())):
        if number % 500 == 0:
            tick(f"keeping what is there: {number:,} of {len(paths):,} files")
        kept[path] = _keep(target.prefix / path, stamp / CHANGE / FILES / path, owner)
    there = place.parents({*paths, *made.placed})
    return Exchange(
        python=target.python,
        prefix=str(target.prefix),
        sites=target.sites,
        when=when,
        parts=_parts(stamp / CHANGE / "staged", made, old, wheels),
        kept=kept,
        placed=made.placed,
        folders={
            name: (target.prefix / name).stat().st_mode & 0o7777
            for name in sorted(there)
            if (target.prefix / name).is_dir()
        },
    )


def _keep(path: Path, store: Path, owner: str) -> Kept:
    place.duplicate(path, store)
    if path.is_symlink():
        return Kept(owner, "", place.leads_to(path))
    return Kept(owner, place.sha256(store))


def _parts(
    staged: Path, made: Unpacked, old: Mapping[str, Lying], wheels: Mapping[str, str]
) -> dict[str, Part]:
    return {
        name: Part(
            before=old[name].version if name in old else "",
            record_before=old[name].record if name in old else "",
            after=version,
            record=place.sha256(staged / made.records[name]),
            path=made.records[name],
            wheel=wheels.get(name, ""),
        )
        for name, version in made.versions.items()
    }
