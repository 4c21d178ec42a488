"""Run the stage source: provide the tree, update submodules and patches, and read its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import LostEditsError, TorchyardError
from tasks.knowledge.mirrors import apply_mirror
from tasks.stages.source import tree_changes_io
from tasks.stages.source.model import UNTRACKED_CACHE, SourceJob, SourceKind, SourceTree
from tasks.stages.source.source_checks_io import (
    TREE_DESCRIPTION,
    VERSION_FILE,
    find_other_release,
    list_missing_files,
)
from tasks.stages.source.tree_changes_io import (
    compute_tree_digest,
    describe_kept_submodules,
    describe_tree_changes,
    read_last_tree,
)
from tasks.system import files, git, manifests
from tasks.system.network import archive
from tasks.system.network.download import download_file
from tasks.system.output import print_line, print_warning

_SOURCE_HINTS: Mapping[SourceKind, str] = {
    "git": "set source.git, and source.ref, to PyTorch's repository or a fork of it",
    "tarball": "give an archive of PyTorch's tree",
    "path": f"give {TREE_DESCRIPTION}",
}


@dataclass(frozen=True)
class TreeSnapshot:
    """The state of the tree at the last read: its commit and commit date, or its archive."""

    tree: str
    commit: str = ""
    archive: str = ""
    digest: str = ""
    date: int = 0


def run(job: SourceJob) -> tuple[SourceTree]:
    """Provide the requested tree, changing only what is necessary, and return its state.

    Raises `TorchyardError` for a tree with merge conflicts, `FetchError`, `BadArtifactError`, and
    `LostEditsError` if the user's edits would be lost.
    """
    files.create_owned_folder(job.state)
    git.require_merged(job.tree, f"source.{job.kind}")
    old_tree = read_last_tree(job)
    match job.kind:
        case "git":
            _update_clone(job)
        case "tarball":
            _unpack_archive(job)
        case "path":
            pass
    _require_pytorch(job)
    _update_stale_submodules(job)
    new_tree = _read_source_tree(job, _apply_patches(job))
    _report_changes(job, old_tree, new_tree)
    return (new_tree,)


def _report_changes(job: SourceJob, before: SourceTree | None, now: SourceTree) -> None:
    """Print why later stages run: this stage runs every time, so doit reports no reason."""
    if not before or not git.is_checkout(job.tree):
        return
    if lines := tuple(describe_tree_changes(before, now)):
        for line in (*lines, *describe_kept_submodules(job)):
            print_line(line)


def _update_clone(job: SourceJob) -> None:
    git.report_newer_commit(job.location, job.ref, job.commit, job.mirrors)
    if git.is_at_ref(job.tree, job.location, job.checkout_ref, job.submodules):
        return
    manifests.remove_manifests(job.manifest)
    if Path(job.tree).exists() and not git.is_checkout(job.tree):
        _rename_old_tree(job)
    if git.is_checkout(job.tree):
        tree_changes_io.revert_patches(job.tree, job.state, job.log)
    elif reference := git.copy_reference_clone(
        job.tree, job.location, _find_in_other_builds(job, "pytorch")
    ):
        print_line(f"what {reference} holds is not fetched again")
    try:
        git.clone_at_ref(
            job.location, job.checkout_ref, job.tree, job.submodules, job.mirrors, job.log
        )
    except LostEditsError:
        tree_changes_io.update_patches(job.tree, job.state, job.patches, job.log)
        raise


def _unpack_archive(job: SourceJob) -> None:
    digest = job.sha256 or files.read_artifact(Path(job.location)).sha256
    tree = Path(job.tree)
    if tree.exists() and _read_snapshot(job).archive == digest:
        return
    manifests.remove_manifests(job.manifest)
    tarball = _download_archive(job, digest)
    if tree.exists():
        _rename_old_tree(job)
    tree_changes_io.clear_applied_patches(job.state)
    archive.extract_archive(tarball, tree)
    _write_snapshot(
        job, TreeSnapshot(str(tree), archive=digest, digest=_compute_content_digest(job))
    )


def _download_archive(job: SourceJob, expected: str) -> Path:
    name = PurePosixPath(urlsplit(job.location).path.replace("\\", "/")).name
    candidates = (
        path for path in _find_in_other_builds(job, f"downloads/{name}") if path.is_file()
    )
    local_copy = next(
        (path for path in candidates if files.read_artifact(path).sha256 == expected), None
    )
    source = str(local_copy or apply_mirror(job.location, job.mirrors))
    return download_file(source, job.state / "downloads" / name, expected, job.log)


def _find_in_other_builds(job: SourceJob, name: str) -> Iterator[Path]:
    """Yield the same path in other builds of this checkout, such as other matrix entries."""
    own_state = Path(job.state)
    for build in sorted(Path(job.others).iterdir()) if job.others else ():
        other_state = build / own_state.name
        if other_state != own_state and (other_state / name).exists():
            yield other_state / name


def _rename_old_tree(job: SourceJob) -> None:
    """Rename the existing tree instead of deleting it: it may contain the user's work."""
    tree, number = Path(job.tree), 1
    while (backup := tree.with_name(f"{tree.name}.{number}")).exists():
        number += 1
    tree.rename(backup)
    tree_changes_io.clear_applied_patches(job.state)
    print_warning(
        f"the tree that was in {tree} is now {backup}; remove it when nothing in it is needed"
    )


def _require_pytorch(job: SourceJob) -> None:
    """Raise `TorchyardError` if the tree is not PyTorch, before a build that takes hours.

    Warn if its release differs from the planned one; for a folder, loading the settings warned
    already.
    """
    tree = Path(job.tree)
    if missing := list_missing_files(tree):
        origin = "" if job.kind == "path" else f", which came from {job.location},"
        raise TorchyardError(
            f"{tree}{origin} is not the source tree of PyTorch: it lacks {', '.join(missing)}",
            location=f"source.{job.kind}",
            hint=_SOURCE_HINTS[job.kind],
        )
    if job.kind != "path" and (release := find_other_release(tree, job.release)):
        print_warning(
            f"the tree is {release} by its {VERSION_FILE}, and torch.version is "
            f"{job.release}: facts are "
            f'those of that release, and the wheel is called so. Set torch.version: "{release}"'
        )


def _update_stale_submodules(job: SourceJob) -> None:
    """Update the submodules that the user's `git pull` did not update."""
    if not job.submodules or not git.is_checkout(job.tree):
        return
    stale = git.list_stale_submodules(job.tree, _read_snapshot(job).commit)
    if stale:
        print_line(f"bringing submodules to what the tree records: {', '.join(stale)}")
        manifests.remove_manifests(job.manifest)
        git.update_submodules(job.tree, stale, mirrors=job.mirrors, log=job.log)


def _apply_patches(job: SourceJob) -> tuple[str, ...]:
    if tree_changes_io.read_applied_patches(job.tree, job.state) != tree_changes_io.hash_patches(
        job.patches
    ):
        manifests.remove_manifests(job.manifest)
    return tree_changes_io.update_patches(job.tree, job.state, job.patches, job.log)


def _read_source_tree(job: SourceJob, patches: tuple[str, ...]) -> SourceTree:
    tree = str(job.tree)
    if git.is_checkout(job.tree):
        state = git.read_git_state(job.tree, Path(job.state) / UNTRACKED_CACHE)
        date = _find_commit_date(job, state.commit)
        _write_snapshot(job, TreeSnapshot(tree, commit=state.commit, date=date))
        return SourceTree(
            tree, job.kind, state.commit, state.submodules, state.edits, "", patches, date
        )
    content = _compute_content_digest(job)
    snapshot = _read_snapshot(job)
    if job.kind != "tarball":
        return SourceTree(tree, job.kind, "", {}, "", content, patches)
    edits = "" if content == snapshot.digest else content
    return SourceTree(tree, job.kind, "", {}, edits, snapshot.archive, patches)


def _find_commit_date(job: SourceJob, commit: str) -> int:
    """Return the date of the commit; git is called once for each commit."""
    snapshot = _read_snapshot(job)
    return (
        snapshot.date
        if snapshot.commit == commit and snapshot.date
        else git.read_commit_time(job.tree)
    )


def _compute_content_digest(job: SourceJob) -> str:
    return compute_tree_digest(job.tree, job.state / "listing.git")


def _read_snapshot(job: SourceJob) -> TreeSnapshot:
    path = Path(job.state) / "seen.json"
    snapshot = (
        manifests.read_manifest(path, TreeSnapshot)
        if path.exists()
        else TreeSnapshot(str(job.tree))
    )
    return snapshot if snapshot.tree == str(job.tree) else TreeSnapshot(str(job.tree))


def _write_snapshot(job: SourceJob, seen: TreeSnapshot) -> None:
    if seen != _read_snapshot(job):
        files.write_atomic(job.state / "seen.json", format_canonical_json(seen))


def find_user_changes(state: Path) -> dict[Path, tuple[str, ...]]:
    """Return the local changes in each tree, by its path; trees without changes are left out."""
    trees = [*state.glob("pytorch"), *state.glob("pytorch.*")]  # with a number: a renamed tree
    changes = {tree: _list_user_changes(tree, state) for tree in sorted(trees)}
    return {tree: changed_files for tree, changed_files in changes.items() if changed_files}


def _list_user_changes(tree: Path, state: Path) -> tuple[str, ...]:
    if git.is_checkout(tree):
        patches = [
            tree_changes_io.find_patch_copy(state, digest)
            for digest in tree_changes_io.read_applied_patches(tree, state)
        ]
        return git.list_local_changes(tree, patches)
    return () if _is_unchanged_archive(tree, state) else ("edits",)


def _is_unchanged_archive(tree: Path, state: Path) -> bool:
    """Return True if an unpacked archive has no edits.

    An applied patch changes the digest too, and cannot be told apart from an edit.
    """
    path = state / "seen.json"
    snapshot = manifests.read_manifest(path, TreeSnapshot) if path.exists() else TreeSnapshot("")
    return (
        snapshot.tree == str(tree)
        and compute_tree_digest(tree, state / "listing.git") == snapshot.digest
    )
