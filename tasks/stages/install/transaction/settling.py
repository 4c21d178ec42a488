"""An install that works becomes what lies there: what it replaced is a person's, or it was ours and
is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.stages.install.transaction import journal, place
from tasks.stages.install.transaction.journal import (
    ASIDE_FOLDER,
    BACKUP_FOLDER,
    PENDING_FOLDER,
    BackupFile,
    InstallRecord,
    PendingInstall,
)
from tasks.system import files
from tasks.wheels.files.difference import find_bytecode_source, is_bytecode


@dataclass(frozen=True)
class CommitResult:
    """What is to be replaced.json. Of the files that were kept, `originals` are what was there
    before all of it; `edited` a person changed after we put them there, or put there; `left` were
    there before a distribution that a person then replaced by another.
    """

    result: InstallRecord
    originals: tuple[str, ...]
    edited: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()


def compute_commit(before: InstallRecord | None, new: InstallRecord) -> CommitResult:
    """`new` after `before`: the way back leads to what was there before both. Pure.

    Where a person put another distribution in the place of ours in between, that is what is theirs.
    """
    if before is None:
        return CommitResult(new, tuple(new.kept))
    theirs = {name for name in new.parts if _is_user_installed(before, new, name)}
    left = {path for path, kept in before.kept.items() if kept.owner in theirs}
    standing = {path: kept for path, kept in before.kept.items() if path not in left}
    fates = {
        path: _classify_backup(before, standing, theirs, path, kept)
        for path, kept in new.kept.items()
    }
    originals = {path: kept for path, kept in new.kept.items() if fates[path] == "original"}
    result = replace(
        new,
        when=before.when,
        parts={**before.parts, **dict(_merge_changes(before, new, theirs))},
        kept={**standing, **originals},
        placed={
            **{path: put for path, put in before.placed.items() if put.owner not in new.parts},
            **new.placed,
        },
        folders=_merge_folders(before, new, left, standing),
    )
    edited = tuple(path for path, fate in fates.items() if fate == "edited")
    return CommitResult(result, tuple(originals), edited, tuple(sorted(left)))


def _is_user_installed(before: InstallRecord, new: InstallRecord, name: str) -> bool:
    """Whether what gave way was put there by somebody else since."""
    part, last = new.parts[name], before.parts.get(name)
    return last is not None and bool(part.before) and part.record_before != last.record


def _classify_backup(
    before: InstallRecord,
    standing: Mapping[str, BackupFile],
    theirs: set[str],
    path: str,
    kept: BackupFile,
) -> str:
    if kept.owner in theirs:
        return "original"
    placed = before.placed.get(path)
    if placed:
        return "ours" if placed.sha256 == kept.sha256 else "edited"
    if is_bytecode(path) and find_bytecode_source(path) in before.placed:
        return "ours"
    return "edited" if path in standing else "original"


def _merge_changes(
    before: InstallRecord, new: InstallRecord, theirs: set[str]
) -> Iterator[tuple[str, journal.DistributionChange]]:
    for name, part in new.parts.items():
        last = before.parts.get(name)
        if last is None or name in theirs:
            yield name, part
        else:
            yield name, replace(part, before=last.before, record_before=last.record_before)


def _merge_folders(
    before: InstallRecord, new: InstallRecord, left: Iterable[str], standing: Iterable[str]
) -> dict[str, int]:
    """Those that were there before, and still were; and that came since, and are not ours."""
    ours, vanished = (
        place.list_parents(before.placed),
        place.list_parents(left) - place.list_parents(standing),
    )
    came = {name: mode for name, mode in new.folders.items() if name not in ours}
    there = {
        name: mode
        for name, mode in before.folders.items()
        if name in new.folders or name not in vanished
    }
    return {**came, **there}


def commit_install(stamp: Path, new: InstallRecord) -> CommitResult:
    """Make it so."""
    found = compute_commit(journal.read_record(stamp), new)
    aside = f"{ASIDE_FOLDER}/{new.when}"
    moves = (
        *((f"{BACKUP_FOLDER}/{path}", f"{aside}/{path}") for path in found.superseded),
        *((f"{PENDING_FOLDER}/{BACKUP_FOLDER}/{path}", f"{aside}/{path}") for path in found.edited),
        *(
            (f"{PENDING_FOLDER}/{BACKUP_FOLDER}/{path}", f"{BACKUP_FOLDER}/{path}")
            for path in found.originals
        ),
    )
    at_work = PendingInstall("settling", new, found.result, moves)
    journal.write_pending(stamp, at_work)
    finish_commit(stamp, at_work)
    return found


def finish_commit(stamp: Path, at_work: PendingInstall) -> None:
    """Also after a KILL in the middle of it: what was moved already is not moved again."""
    for source, target in at_work.moves:
        if place.is_present(stamp / source) and not place.is_present(stamp / target):
            (stamp / target).parent.mkdir(parents=True, exist_ok=True)
            files.replace_path(stamp / source, stamp / target)
    if at_work.result:
        journal.write_record(stamp, at_work.result)
    discard_pending(stamp)


def discard_pending(stamp: Path) -> None:
    """Forget the change, and the stamp where it holds nothing else. First goes the journal, so that
    nobody takes what is left for whole.
    """
    (stamp / PENDING_FOLDER / "change.json").unlink(missing_ok=True)
    files.remove_owned(stamp / PENDING_FOLDER)
    if stamp.is_dir() and not any(stamp.iterdir()):
        stamp.rmdir()
