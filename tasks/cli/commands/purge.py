"""`doit purge`: remove what this profile built and no other profile needs.

Files that may be the only copy are kept: backups of install.into, sources with local changes.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tasks.cli.commands.report import read_manifest_or_empty
from tasks.core.errors import NotOwnedError
from tasks.core.text_formatting import format_size
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.stages.install import install_journal_io
from tasks.stages.source.run import find_user_changes
from tasks.system import files
from tasks.system.git import local_changes
from tasks.system.invocation import format_profile_argument
from tasks.system.output import print_report
from tasks.wheels import wheelhouse_io


def run(subject: SelectedProfile, yes: bool = False) -> None:
    """Show what would be removed; with `yes`, remove it."""
    layout = subject.require_profile().layout
    build = Path(layout.build)
    if build.exists() and not files.is_owned(build):
        message = "torchyard did not create this folder, so it will not remove it"
        raise NotOwnedError(message, location=str(build))
    others = (folder for folder in build.parent.glob("*") if folder != build)
    needed = {name for other in others for name in _list_wheel_names(other)}
    wheels = [Path(layout.wheelhouse) / name for name in {*_list_wheel_names(build)} - needed]
    wheels = sorted(filter(Path.is_file, wheels))
    if not build.exists() and not wheels:
        print_report("nothing to remove: this profile built nothing")
        return
    kept_folders = dict(_list_kept_folders(build))
    for path in filter(Path.exists, (build, *wheels)):
        content = (one for one in (path, *path.rglob("*")) if not one.is_dir())
        size = format_size(sum(one.lstat().st_size for one in content) / 2**20)
        print_report(f"{'removing' if yes else 'would remove'} {path} ({size})")
    for name, reason in kept_folders.items():
        print_report(f"{build / name} is kept: {reason}")
    if not yes:
        profile = format_profile_argument(subject.name)
        print_report(f"nothing was removed yet; to remove these files: doit purge --yes{profile}")
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
    """Yield the path in `build` of each folder to keep, and the reason."""
    backups = list(install_journal_io.list_stamps(build / "replaced"))
    records = filter(None, map(install_journal_io.read_latest_record, backups))
    if prefixes := ", ".join(record.prefix for record in records):
        reason = f"it holds the packages that were replaced in {prefixes}"
        yield "replaced", f"{reason}; to restore them: doit restore"
    elif any((backup / install_journal_io.ASIDE_FOLDER).is_dir() for backup in backups):
        yield "replaced", "it holds files of yours; remove the folder if you do not need them"
    if trees := find_user_changes(build / "src"):
        yield "src", "; ".join(_explain_kept_work(tree, changes) for tree, changes in trees.items())
    for clone in sorted(build.glob("extensions/*/clone")):
        if changes := local_changes.list_local_changes(clone):
            yield clone.relative_to(build).as_posix(), _explain_kept_work(clone, changes)


def _explain_kept_work(tree: Path, changes: Iterable[str]) -> str:
    hint = "push or copy your work, then remove the folder"
    return f"{tree} has your own {' and '.join(changes)}; {hint}"


def _list_wheel_names(build: Path) -> Iterator[str]:
    """Yield the names of the wheels that are listed in the manifests of a build folder."""
    for path in [*build.glob("*.json"), *build.glob("extensions/*.json")]:
        artifact = read_manifest_or_empty(path).get("artifact")
        if isinstance(artifact, dict):
            yield Path(str(artifact.get("name", ""))).name
