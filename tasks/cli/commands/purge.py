"""`doit purge`: remove what this profile built and no other profile needs.

Files that may be the only copy are kept: backups of install.into, sources with local changes.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tasks.core.errors import NotOwnedError
from tasks.core.text_formatting import format_size
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.stages.install import install_journal_io
from tasks.stages.source.run import find_user_changes
from tasks.system import files, git
from tasks.system.output import print_report
from tasks.system.profile_hint import format_profile_argument
from tasks.wheels import wheelhouse_io


def run(subject: SelectedProfile, yes: bool = False) -> None:
    """Show what would be removed; with `yes`, remove it."""
    layout = subject.require_profile().layout
    build = Path(layout.build)
    if build.exists() and not files.is_owned(build):
        message = "torchyard did not make this folder and does not remove it"
        raise NotOwnedError(message, location=str(build))
    wheels = sorted(_find_unshared_wheels(build, Path(layout.wheelhouse)))
    if not build.exists() and not wheels:
        print_report("nothing to remove: this profile built nothing")
        return
    kept_folders = dict(_list_kept_folders(build))
    for path in filter(Path.exists, (build, *wheels)):
        size = format_size(_measure_bytes(path) / 2**20)
        print_report(f"{'removing' if yes else 'would remove'} {path} ({size})")
    for name, reason in kept_folders.items():
        print_report(f"{build / name} is kept: {reason}")
    if not yes:
        profile = format_profile_argument(subject.name)
        print_report(f"nothing was removed; to remove it: doit purge --yes{profile}")
    elif build.exists():
        _remove_build(build, wheels, but=tuple(kept_folders))


def _remove_build(build: Path, wheels: Iterable[Path], but: tuple[str, ...]) -> None:
    with files.lock_folder(build):  # no other run may use the folder
        for wheel in wheels:  # also remove its origin file and its provenance statement
            wheel.unlink()
            wheelhouse_io.resolve_statement_path(wheel).unlink(missing_ok=True)
            Path(wheelhouse_io.resolve_origin_path(wheel)).unlink(missing_ok=True)
        if but:
            files.empty_owned(build, but=but)
    if not but:
        files.remove_owned(build)


def _list_kept_folders(build: Path) -> Iterator[tuple[str, str]]:
    """Yield each folder to keep: its path in the build folder, and the reason with a hint."""
    if reason := _explain_kept_backup(build / "replaced"):
        yield "replaced", reason
    if trees := find_user_changes(build / "src"):
        yield "src", "; ".join(_explain_kept_work(tree, changes) for tree, changes in trees.items())
    for clone in sorted(build.glob("extensions/*/clone")):
        if changes := git.list_local_changes(clone):
            yield clone.relative_to(build).as_posix(), _explain_kept_work(clone, changes)


def _explain_kept_work(tree: Path, changes: Iterable[str]) -> str:
    return (
        f"{tree} has your own {' and '.join(changes)}; push or copy them, then remove the folder "
        "yourself"
    )


def _explain_kept_backup(replaced: Path) -> str:
    """Return why the backups in `replaced` are kept, with a hint; "" if there are no backups."""
    stamps = list(install_journal_io.list_stamps(replaced))
    if prefixes := [
        one.prefix for stamp in stamps if (one := install_journal_io.read_latest_record(stamp))
    ]:
        places = ", ".join(prefixes)
        return f"it has the replaced packages of {places}; to restore them: doit restore"
    has_files = any((stamp / install_journal_io.ASIDE_FOLDER).is_dir() for stamp in stamps)
    return "it has files of yours; remove it yourself if you do not need them" if has_files else ""


def _find_unshared_wheels(build: Path, wheelhouse: Path) -> Iterator[Path]:
    others = (other for other in build.parent.glob("*") if other != build)
    needed = {name for other in others for name in _list_wheel_names(other)}
    wheels = (wheelhouse / name for name in set(_list_wheel_names(build)) - needed)
    yield from (wheel for wheel in wheels if wheel.is_file())


def _list_wheel_names(build: Path) -> Iterator[str]:
    """Yield the names of the wheels that are listed in the manifests of a build folder."""
    for manifest in [*build.glob("*.json"), *build.glob("extensions/*.json")]:
        try:
            document = json.loads(manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(document, dict) and isinstance(document.get("artifact"), dict):
            yield Path(str(document["artifact"].get("name", ""))).name


def _measure_bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(item.lstat().st_size for item in path.rglob("*") if not item.is_dir())
