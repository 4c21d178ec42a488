"""The new files in the place of the old, and the old ones in the place of the new.

Both can be cut off anywhere. Of the first only the second is made then, and the second again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.stages.install.transaction import place
from tasks.stages.install.transaction.journal import BackupFile, InstallRecord
from tasks.stages.install.transaction.lying import find_distributions, list_distribution_files
from tasks.system.voice import show_progress
from tasks.wheels.files.difference import is_bytecode


@dataclass(frozen=True)
class Rollback:
    """What the way back met: files of a person's own, now below `aside`."""

    aside: Path
    displaced: tuple[str, ...]


def swap_files(one: InstallRecord, staged: Path) -> None:
    """Put what is in `staged` into the environment, and take out what gives way to it."""
    prefix = Path(one.prefix)
    for number, path in enumerate(one.placed):
        if number % 500 == 0:
            show_progress(f"installing: {number:,} of {len(one.placed):,} files")
        place.replace_file(staged / path, prefix / path)
    gone = [path for path in one.kept if path not in one.placed]
    for path in gone:
        (prefix / path).unlink(missing_ok=True)
    place.remove_empty_folders(prefix, place.list_parents(gone) - place.list_parents(one.placed))


def restore_files(one: InstallRecord, store: Path, aside: Path) -> Rollback:
    """Take out what was put there, and put back what was kept in `store`; what is neither, and in
    the way, is moved to `aside`. Raises `BuildError` before anything is changed where what was kept
    is not what it was.
    """
    _require_intact_backup(one, store)
    prefix = Path(one.prefix)
    moved = [
        p for p in _find_foreign_files(one, store) if _displace_user_file(prefix / p, aside / p)
    ]
    paths = sorted({*one.kept, *one.placed})
    for number, path in enumerate(paths):
        if number % 500 == 0:
            show_progress(f"putting back: {number:,} of {len(paths):,} files")
        if _restore_file(one, path, store, aside):
            moved.append(path)
    _restore_folders(one, moved)
    return Rollback(aside, tuple(moved))


def _require_intact_backup(one: InstallRecord, store: Path) -> None:
    """A disk may lose a file, and a person may look around in the build folder."""
    for path, kept in one.kept.items():
        if not _is_backup_intact(store / path, kept):
            raise TorchyardError(
                "this is not what was kept here, so that it cannot be put back; nothing was "
                "changed",
                location=str(store / path),
                hint=f"install what was there yourself: {_format_reinstall_command(one)}",
            )


def _is_backup_intact(store: Path, kept: BackupFile) -> bool:
    if kept.link or store.is_symlink():
        return store.is_symlink() and place.read_link(store) == kept.link
    return store.is_file() and place.compute_sha256(store) == kept.sha256


def _format_reinstall_command(one: InstallRecord) -> str:
    named = [f"{name}=={part.before}" for name, part in sorted(one.parts.items()) if part.before]
    return f"{one.python} -m pip install {' '.join(named)}"


def _find_foreign_files(one: InstallRecord, store: Path) -> list[str]:
    """Files of distributions that somebody else put in the place of ours since."""
    prefix = Path(one.prefix)
    found: dict[str, None] = {}
    for lies in find_distributions(prefix, one.sites, one.parts).values():
        records = [(info / "RECORD").relative_to(prefix).as_posix() for info in lies.infos]
        if not all(_is_known_file(one, record, store) for record in records):
            found |= dict.fromkeys(list_distribution_files(prefix, lies))
    return [path for path in found if not _is_known_file(one, path, store)]


def _is_known_file(one: InstallRecord, path: str, store: Path) -> bool:
    """Whether it is what we put there, or what was there before."""
    whole, kept = Path(one.prefix) / path, one.kept.get(path)
    if place.is_installed_file(whole, one.placed.get(path)):
        return True
    return kept is not None and place.is_original_file(whole, kept, store / path)


def _displace_user_file(whole: Path, to: Path) -> bool:
    """Whether it was a person's own. Python makes bytecode again."""
    if is_bytecode(whole.as_posix()):
        whole.unlink(missing_ok=True)
        return False
    place.move_aside(whole, to)
    return True


def _restore_file(one: InstallRecord, path: str, store: Path, aside: Path) -> bool:
    """Whether a file of a person's own had to be moved for it."""
    whole, kept = Path(one.prefix) / path, one.kept.get(path)
    ours = place.is_installed_file(whole, one.placed.get(path))
    if kept and not ours and place.is_original_file(whole, kept, store / path):
        return False
    own = not ours and place.is_present(whole) and _displace_user_file(whole, aside / path)
    if kept:
        place.replace_file(store / path, whole)
    else:
        whole.unlink(missing_ok=True)
    if path in one.placed:
        _remove_bytecode(one, whole)
    return own


def _remove_bytecode(one: InstallRecord, source: Path) -> None:
    """What Python made of ours; that of the old source was kept with it."""
    for found in list(place.list_bytecode(source)):
        if found.relative_to(one.prefix).as_posix() not in one.kept:
            found.unlink(missing_ok=True)


def _restore_folders(one: InstallRecord, moved: list[str]) -> None:
    """Those that were there are there, and of those that came none is that is empty."""
    prefix = Path(one.prefix)
    came = place.list_parents({*one.kept, *one.placed, *moved}) - one.folders.keys()
    place.remove_empty_folders(prefix, came)
    for name in sorted(one.folders):
        (prefix / name / place.TEMPORARY_NAME).unlink(missing_ok=True)
        if not (prefix / name).is_dir():
            (prefix / name).mkdir(parents=True)
            (prefix / name).chmod(one.folders[name])
