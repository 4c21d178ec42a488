"""The new files in the place of the old, and the old ones in the place of the new.

Both can be cut off anywhere. Of the first only the second is made then, and the second again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.core.errors import BuildError
from tasks.stages.install.transaction import place
from tasks.stages.install.transaction.journal import Exchange, Kept
from tasks.stages.install.transaction.lying import files_of, lying
from tasks.system.voice import tick
from tasks.wheels.files.difference import is_bytecode


@dataclass(frozen=True)
class Back:
    """What the way back met: files of a person's own, now below `aside`."""

    aside: Path
    moved: tuple[str, ...]


def exchange(one: Exchange, staged: Path) -> None:
    """Put what is in `staged` into the environment, and take out what gives way to it."""
    prefix = Path(one.prefix)
    for number, path in enumerate(one.placed):
        if number % 500 == 0:
            tick(f"installing: {number:,} of {len(one.placed):,} files")
        place.put(staged / path, prefix / path)
    gone = [path for path in one.kept if path not in one.placed]
    for path in gone:
        (prefix / path).unlink(missing_ok=True)
    place.prune(prefix, place.parents(gone) - place.parents(one.placed))


def put_back(one: Exchange, store: Path, aside: Path) -> Back:
    """Take out what was put there, and put back what was kept in `store`; what is neither, and in
    the way, is moved to `aside`. Raises `BuildError` before anything is changed where what was kept
    is not what it was.
    """
    _require_whole(one, store)
    prefix = Path(one.prefix)
    moved = [p for p in _foreign(one, store) if _set_aside(prefix / p, aside / p)]
    paths = sorted({*one.kept, *one.placed})
    for number, path in enumerate(paths):
        if number % 500 == 0:
            tick(f"putting back: {number:,} of {len(paths):,} files")
        if _back(one, path, store, aside):
            moved.append(path)
    _folders(one, moved)
    return Back(aside, tuple(moved))


def _require_whole(one: Exchange, store: Path) -> None:
    """A disk may lose a file, and a person may look around in the build folder."""
    for path, kept in one.kept.items():
        if not _is_sound(store / path, kept):
            raise BuildError(
                "this is not what was kept here, so that it cannot be put back; nothing was "
                "changed",
                where=str(store / path),
                todo=f"install what was there yourself: {_before(one)}",
            )


def _is_sound(store: Path, kept: Kept) -> bool:
    if kept.link or store.is_symlink():
        return store.is_symlink() and place.leads_to(store) == kept.link
    return store.is_file() and place.sha256(store) == kept.sha256


def _before(one: Exchange) -> str:
    named = [f"{name}=={part.before}" for name, part in sorted(one.parts.items()) if part.before]
    return f"{one.python} -m pip install {' '.join(named)}"


def _foreign(one: Exchange, store: Path) -> list[str]:
    """Files of distributions that somebody else put in the place of ours since."""
    prefix = Path(one.prefix)
    found: dict[str, None] = {}
    for lies in lying(prefix, one.sites, one.parts).values():
        records = [(info / "RECORD").relative_to(prefix).as_posix() for info in lies.infos]
        if not all(_is_known(one, record, store) for record in records):
            found |= dict.fromkeys(files_of(prefix, lies))
    return [path for path in found if not _is_known(one, path, store)]


def _is_known(one: Exchange, path: str, store: Path) -> bool:
    """Whether it is what we put there, or what was there before."""
    whole, kept = Path(one.prefix) / path, one.kept.get(path)
    if place.is_placed(whole, one.placed.get(path)):
        return True
    return kept is not None and place.is_kept(whole, kept, store / path)


def _set_aside(whole: Path, to: Path) -> bool:
    """Whether it was a person's own. Python makes bytecode again."""
    if is_bytecode(whole.as_posix()):
        whole.unlink(missing_ok=True)
        return False
    place.set_aside(whole, to)
    return True


def _back(one: Exchange, path: str, store: Path, aside: Path) -> bool:
    """Whether a file of a person's own had to be moved for it."""
    whole, kept = Path(one.prefix) / path, one.kept.get(path)
    ours = place.is_placed(whole, one.placed.get(path))
    if kept and not ours and place.is_kept(whole, kept, store / path):
        return False
    own = not ours and place.is_there(whole) and _set_aside(whole, aside / path)
    if kept:
        place.put(store / path, whole)
    else:
        whole.unlink(missing_ok=True)
    if path in one.placed:
        _forget_bytecode(one, whole)
    return own


def _forget_bytecode(one: Exchange, source: Path) -> None:
    """What Python made of ours; that of the old source was kept with it."""
    for found in list(place.bytecode(source)):
        if found.relative_to(one.prefix).as_posix() not in one.kept:
            found.unlink(missing_ok=True)


def _folders(one: Exchange, moved: list[str]) -> None:
    """Those that were there are there, and of those that came none is that is empty."""
    prefix = Path(one.prefix)
    came = place.parents({*one.kept, *one.placed, *moved}) - one.folders.keys()
    place.prune(prefix, came)
    for name in sorted(one.folders):
        (prefix / name / place.PART).unlink(missing_ok=True)
        if not (prefix / name).is_dir():
            (prefix / name).mkdir(parents=True)
            (prefix / name).chmod(one.folders[name])
