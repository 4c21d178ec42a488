"""What will be replaced is kept, before anything is changed: every file of the distributions that
give way, and whatever else lies where a new file goes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.stages.install.target.environment import TargetEnvironment
from tasks.stages.install.target.interpreter import build_unwritable_error
from tasks.stages.install.target.unpacked import StagedPackages
from tasks.stages.install.transaction import place
from tasks.stages.install.transaction.journal import (
    BACKUP_FOLDER,
    PENDING_FOLDER,
    BackupFile,
    DistributionChange,
    InstallRecord,
)
from tasks.stages.install.transaction.lying import (
    InstalledDistribution,
    find_distributions,
    list_distribution_files,
)
from tasks.system.voice import show_progress

_NOTHING_CHANGED = "nothing was changed"


def find_replaced_files(
    target: TargetEnvironment, made: StagedPackages
) -> tuple[Mapping[str, InstalledDistribution], dict[str, str]]:
    """What gives way, and the paths that are to be kept, each with the distribution that takes its
    place. Raises `BuildError` for what could not be put back.
    """
    old = find_distributions(target.prefix, target.sites, made.versions)
    require_record_files(target.python, old.values())
    _require_no_stray_torch(target, made, old)
    paths = {
        path: name
        for name, one in old.items()
        for path in list_distribution_files(target.prefix, one)
    }
    for path, placed in made.placed.items():
        if path not in paths and place.is_present(target.prefix / path):
            paths[path] = placed.owner
            compiled = place.list_bytecode(target.prefix / path)
            paths |= {p.relative_to(target.prefix).as_posix(): placed.owner for p in compiled}
    _require_clear_paths(target.prefix, {*paths, *made.placed}, made.placed)
    return old, paths


def require_record_files(python: str, old: Iterable[InstalledDistribution]) -> None:
    """`BuildError` for what was installed by a tool that left no list of its files."""
    for one in old:
        for info in one.unrecorded_infos:
            raise TorchyardError(
                f"{one.name} {one.version} has no RECORD, so that nobody knows which files are "
                f"its own, to keep them; {_NOTHING_CHANGED}",
                location=str(info),
                hint=f"take it out yourself ({python} -m pip uninstall {one.name}, or "
                "conda remove, or by hand), then run the same command again",
            )


def _require_no_stray_torch(
    target: TargetEnvironment, made: StagedPackages, old: Mapping[str, InstalledDistribution]
) -> None:
    """A folder torch that is nobody's would be half of the one and half of the other."""
    for site in target.sites:
        folder = target.prefix / site / "torch"
        if "torch" in made.versions and "torch" not in old and place.is_present(folder):
            raise TorchyardError(
                f"this is of no package that is installed there; {_NOTHING_CHANGED}",
                location=str(folder),
                hint="move it away, then run the same command again",
            )


def _require_clear_paths(prefix: Path, paths: Iterable[str], placed: Iterable[str]) -> None:
    """Folders are folders, of this environment, and can be written to; files are files."""
    for name in sorted(place.list_parents(paths)):
        folder = prefix / name
        if folder.is_symlink() or Path(os.path.realpath(folder)) != folder:
            raise TorchyardError(
                f"this is a link to {os.path.realpath(folder)}, which is not written to; "
                f"{_NOTHING_CHANGED}",
                location=str(folder),
                hint="put a folder in its place, or uninstall what made it",
            )
        if folder.exists() and not folder.is_dir():
            raise TorchyardError(
                f"a folder is to be here, and a file is in its way; {_NOTHING_CHANGED}",
                location=str(folder),
                hint="move the file away",
            )
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            raise build_unwritable_error(str(folder))
    for name in placed:
        if (prefix / name).is_dir() and not (prefix / name).is_symlink():
            raise TorchyardError(
                f"a file is to be here, and a folder is in its way; {_NOTHING_CHANGED}",
                location=str(prefix / name),
                hint="move the folder away",
            )


def back_up_files(
    stamp: Path,
    target: TargetEnvironment,
    made: StagedPackages,
    wheels: Mapping[str, str],
    when: str,
) -> InstallRecord:
    """Keep what gives way in the folder of the change, and say what is to be exchanged. `wheels`
    are the sha256 of wheels by the distribution's name.
    """
    old, paths = find_replaced_files(target, made)
    kept = {}
    for number, (path, owner) in enumerate(sorted(paths.items())):
        if number % 500 == 0:
            show_progress(f"keeping what is there: {number:,} of {len(paths):,} files")
        kept[path] = _back_up_file(
            target.prefix / path, stamp / PENDING_FOLDER / BACKUP_FOLDER / path, owner
        )
    there = place.list_parents({*paths, *made.placed})
    return InstallRecord(
        python=target.python,
        prefix=str(target.prefix),
        sites=target.sites,
        when=when,
        parts=_build_distribution_changes(stamp / PENDING_FOLDER / "staged", made, old, wheels),
        kept=kept,
        placed=made.placed,
        folders={
            name: (target.prefix / name).stat().st_mode & 0o7777
            for name in sorted(there)
            if (target.prefix / name).is_dir()
        },
    )


def _back_up_file(path: Path, store: Path, owner: str) -> BackupFile:
    place.link_or_copy(path, store)
    if path.is_symlink():
        return BackupFile(owner, "", place.read_link(path))
    return BackupFile(owner, place.compute_sha256(store))


def _build_distribution_changes(
    staged: Path,
    made: StagedPackages,
    old: Mapping[str, InstalledDistribution],
    wheels: Mapping[str, str],
) -> dict[str, DistributionChange]:
    return {
        name: DistributionChange(
            before=old[name].version if name in old else "",
            record_before=old[name].record_digest if name in old else "",
            after=version,
            record=place.compute_sha256(staged / made.records[name]),
            path=made.records[name],
            wheel=wheels.get(name, ""),
        )
        for name, version in made.versions.items()
    }
