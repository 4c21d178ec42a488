"""An install that works becomes what lies there: what it replaced is a person's, or it was ours and
is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.stages.install.transaction import journal, place
from tasks.stages.install.transaction.journal import ASIDE, CHANGE, FILES, Change, Exchange, Kept
from tasks.system import files
from tasks.wheels.files.difference import is_bytecode, source_of


@dataclass(frozen=True)
class Settled:
    """What is to be replaced.json. Of the files that were kept, `originals` are what was there
    before all of it; `edited` a person changed after we put them there, or put there; `left` were
    there before a distribution that a person then replaced by another.
    """

    result: Exchange
    originals: tuple[str, ...]
    edited: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def settled(before: Exchange | None, new: Exchange) -> Settled:
    """`new` after `before`: the way back leads to what was there before both. Pure.

    Where a person put another distribution in the place of ours in between, that is what is theirs.
    """
    if before is None:
        return Settled(new, tuple(new.kept))
    theirs = {name for name in new.parts if _is_theirs(before, new, name)}
    left = {path for path, kept in before.kept.items() if kept.owner in theirs}
    standing = {path: kept for path, kept in before.kept.items() if path not in left}
    fates = {path: _fate(before, standing, theirs, path, kept) for path, kept in new.kept.items()}
    originals = {path: kept for path, kept in new.kept.items() if fates[path] == "original"}
    result = replace(
        new,
        when=before.when,
        parts={**before.parts, **dict(_parts(before, new, theirs))},
        kept={**standing, **originals},
        placed={
            **{path: put for path, put in before.placed.items() if put.owner not in new.parts},
            **new.placed,
        },
        folders=_folders(before, new, left, standing),
    )
    edited = tuple(path for path, fate in fates.items() if fate == "edited")
    return Settled(result, tuple(originals), edited, tuple(sorted(left)))


def _is_theirs(before: Exchange, new: Exchange, name: str) -> bool:
    """Whether what gave way was put there by somebody else since."""
    part, last = new.parts[name], before.parts.get(name)
    return last is not None and bool(part.before) and part.record_before != last.record


def _fate(
    before: Exchange, standing: Mapping[str, Kept], theirs: set[str], path: str, kept: Kept
) -> str:
    if kept.owner in theirs:
        return "original"
    placed = before.placed.get(path)
    if placed:
        return "ours" if placed.sha256 == kept.sha256 else "edited"
    if is_bytecode(path) and source_of(path) in before.placed:
        return "ours"
    return "edited" if path in standing else "original"


def _parts(before: Exchange, new: Exchange, theirs: set[str]) -> Iterator[tuple[str, journal.Part]]:
    for name, part in new.parts.items():
        last = before.parts.get(name)
        if last is None or name in theirs:
            yield name, part
        else:
            yield name, replace(part, before=last.before, record_before=last.record_before)


def _folders(
    before: Exchange, new: Exchange, left: Iterable[str], standing: Iterable[str]
) -> dict[str, int]:
    """Those that were there before, and still were; and that came since, and are not ours."""
    ours, vanished = place.parents(before.placed), place.parents(left) - place.parents(standing)
    came = {name: mode for name, mode in new.folders.items() if name not in ours}
    there = {
        name: mode
        for name, mode in before.folders.items()
        if name in new.folders or name not in vanished
    }
    return {**came, **there}


def settle(stamp: Path, new: Exchange) -> Settled:
    """Make it so."""
    found = settled(journal.held(stamp), new)
    aside = f"{ASIDE}/{new.when}"
    moves = (
        *((f"{FILES}/{path}", f"{aside}/{path}") for path in found.left),
        *((f"{CHANGE}/{FILES}/{path}", f"{aside}/{path}") for path in found.edited),
        *((f"{CHANGE}/{FILES}/{path}", f"{FILES}/{path}") for path in found.originals),
    )
    at_work = Change("settling", new, found.result, moves)
    journal.write_change(stamp, at_work)
    finish(stamp, at_work)
    return found


def finish(stamp: Path, at_work: Change) -> None:
    """Also after a KILL in the middle of it: what was moved already is not moved again."""
    for source, target in at_work.moves:
        if place.is_there(stamp / source) and not place.is_there(stamp / target):
            (stamp / target).parent.mkdir(parents=True, exist_ok=True)
            files.move(stamp / source, stamp / target)
    if at_work.result:
        journal.write_held(stamp, at_work.result)
    drop(stamp)


def drop(stamp: Path) -> None:
    """Forget the change, and the stamp where it holds nothing else. First goes the journal, so that
    nobody takes what is left for whole.
    """
    (stamp / CHANGE / "change.json").unlink(missing_ok=True)
    files.remove_owned(stamp / CHANGE)
    if stamp.is_dir() and not any(stamp.iterdir()):
        stamp.rmdir()
