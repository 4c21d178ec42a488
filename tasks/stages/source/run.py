"""Run the `source` stage: provide the tree, update submodules and patches, record the state."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import urlsplit

from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import LostEditsError, TorchyardError
from tasks.knowledge.mirrors import apply_mirror
from tasks.stages.source import source_checks_io, tree_changes_io
from tasks.stages.source.model import UNTRACKED_CACHE, SourceJob, SourceKind, SourceTree
from tasks.stages.source.tree_changes_io import compute_tree_digest
from tasks.system import files, manifests
from tasks.system.git import checkout_state, clones, local_changes, shared_clones
from tasks.system.network import archive
from tasks.system.network.shared_downloads import download_shared_file
from tasks.system.output import print_line, print_warning

_SOURCE_HINTS: Mapping[SourceKind, str] = {
    "git": "set source.git and source.ref to PyTorch's repository or a fork of it",
    "tarball": "set source.tarball to an archive of PyTorch's tree",
    "path": f"set source.path to {source_checks_io.TREE_DESCRIPTION}",
}


@dataclass(frozen=True)
class TreeSnapshot:
    """The last state of the tree (seen.json). An archive has digests instead of a commit."""

    tree: str
    commit: str = ""
    archive: str = ""
    digest: str = ""
    date: int = 0


def run(job: SourceJob) -> tuple[SourceTree]:
    """Provide the requested tree, changing only what is necessary, and return its state.

    Raises `LostEditsError` if edits of the user would be lost. Raises `TorchyardError` for merge
    conflicts, and `FetchError` or `BadArtifactError` for a bad source.
    """
    files.create_owned_folder(job.state)
    if job.kind == "git":
        clones.remove_incomplete_repository(job.tree)
    local_changes.require_merged(job.tree, f"source.{job.kind}")
    old_tree = tree_changes_io.read_last_tree(job)
    if job.kind == "git":
        _update_clone(job)
    elif job.kind == "tarball":
        _unpack_archive(job)
    _require_pytorch(job)
    _update_stale_submodules(job)
    applied = tree_changes_io.read_applied_patches(job.tree, job.state)
    if applied != tree_changes_io.hash_patches(job.patches):
        manifests.remove_manifests(job.manifest)
    patches = tree_changes_io.update_patches(job.tree, job.state, job.patches, job.log)
    tree = _read_source_tree(job, patches)
    # this stage runs every time, so doit prints no reason why later stages run
    if old_tree and checkout_state.is_checkout(job.tree):
        lines = list(tree_changes_io.describe_tree_changes(old_tree, tree))
        for line in (*lines, *tree_changes_io.describe_kept_submodules(job)) if lines else ():
            print_line(line)
    return (tree,)


def _update_clone(job: SourceJob) -> None:
    clones.report_newer_commit(job.location, job.ref, job.commit, job.mirrors)
    if clones.is_at_ref(job.tree, job.location, job.checkout_ref, job.submodules):
        return
    manifests.remove_manifests(job.manifest)
    if Path(job.tree).exists() and not checkout_state.is_checkout(job.tree):
        _rename_old_tree(job)
    if checkout_state.is_checkout(job.tree):
        tree_changes_io.revert_patches(job.tree, job.state, job.log)
    clone = clones.Clone(
        Path(job.tree), job.location, job.checkout_ref, job.submodules, job.log, job.mirrors
    )
    try:
        shared_clones.fetch_clone(clone, job.cache, _find_in_other_builds(job, "pytorch"))
    except LostEditsError:
        tree_changes_io.update_patches(job.tree, job.state, job.patches, job.log)
        raise


def _unpack_archive(job: SourceJob) -> None:
    digest = job.sha256 or files.read_artifact(Path(job.location)).sha256
    tree = Path(job.tree)
    if tree.exists() and _read_snapshot(job.tree, job.state).archive == digest:
        return
    manifests.remove_manifests(job.manifest)
    name = PurePosixPath(urlsplit(job.location).path.replace("\\", "/")).name
    others = [path for path in _find_in_other_builds(job, f"downloads/{name}") if path.is_file()]
    copies = (path for path in others if files.read_artifact(path).sha256 == digest)
    source = str(next(copies, None) or apply_mirror(job.location, job.mirrors))
    place = job.state / "downloads" / name
    tarball = download_shared_file(source, place, digest, job.log, job.cache)
    if tree.exists():
        _rename_old_tree(job)
    tree_changes_io.clear_applied_patches(job.state)
    archive.extract_archive(tarball, tree)
    content = compute_tree_digest(job.tree, job.state / "listing.git")
    _write_snapshot(job, TreeSnapshot(str(tree), archive=digest, digest=content))


def _find_in_other_builds(job: SourceJob, name: str) -> Iterator[Path]:
    """Yield the path of the file or folder `name` in each other build that contains it."""
    own_state = Path(job.state)
    for build in sorted(Path(job.others).iterdir()) if job.others else ():
        other_state = build / own_state.name
        if other_state != own_state and (other_state / name).exists():
            yield other_state / name


def _rename_old_tree(job: SourceJob) -> None:
    """Rename the existing tree instead of deleting it, because it may contain the user's work."""
    tree, number = Path(job.tree), 1
    while (backup := tree.with_name(f"{tree.name}.{number}")).exists():
        number += 1
    tree.rename(backup)
    tree_changes_io.clear_applied_patches(job.state)
    print_warning(f"moved the old tree from {tree} to {backup}: remove it if you do not need it")


def _require_pytorch(job: SourceJob) -> None:
    """Raise `TorchyardError` if the tree is not PyTorch; warn if it is another release.

    For source.path, the warning was printed when the settings were loaded.
    """
    tree = Path(job.tree)
    if missing := source_checks_io.list_missing_files(tree):
        origin = "" if job.kind == "path" else f" (from {job.location})"
        raise TorchyardError(
            f"{tree}{origin} is not the source tree of PyTorch: it lacks {', '.join(missing)}",
            location=f"source.{job.kind}",
            hint=_SOURCE_HINTS[job.kind],
        )
    release = source_checks_io.find_other_release(tree, job.release)
    if job.kind != "path" and release:
        print_warning(
            f"torch.version is {job.release}, but {source_checks_io.VERSION_FILE} of this tree "
            f"says {release}. The wheel gets the number {job.release}. To give it "
            f'the number {release}, set torch.version: "{release}"'
        )


def _update_stale_submodules(job: SourceJob) -> None:
    """Update the submodules that the user's `git pull` did not update."""
    if not job.submodules or not checkout_state.is_checkout(job.tree):
        return
    if stale := clones.list_stale_submodules(job.tree, _read_snapshot(job.tree, job.state).commit):
        print_line(f"updating submodules to the commits that PyTorch requires: {', '.join(stale)}")
        manifests.remove_manifests(job.manifest)
        clones.update_submodules(job.tree, stale, mirrors=job.mirrors, log=job.log)


def _read_source_tree(job: SourceJob, patches: tuple[str, ...]) -> SourceTree:
    tree, snapshot = str(job.tree), _read_snapshot(job.tree, job.state)
    if checkout_state.is_checkout(job.tree):
        state = checkout_state.read_git_state(job.tree, Path(job.state) / UNTRACKED_CACHE)
        date = snapshot.date if snapshot.commit == state.commit else 0
        date = date or checkout_state.read_commit_time(job.tree)
        _write_snapshot(job, TreeSnapshot(tree, commit=state.commit, date=date))
        commit, submodules, edits = state.commit, state.submodules, state.edits
        return SourceTree(tree, job.kind, commit, submodules, edits, "", patches, date)
    content = compute_tree_digest(job.tree, job.state / "listing.git")
    if job.kind != "tarball":
        return SourceTree(tree, job.kind, "", {}, "", content, patches)
    edits = "" if content == snapshot.digest else content
    return SourceTree(tree, job.kind, "", {}, edits, snapshot.archive, patches)


def _read_snapshot(tree: PurePath, state: PurePath) -> TreeSnapshot:
    path, new = Path(state) / "seen.json", TreeSnapshot(str(tree))
    snapshot = manifests.read_manifest(path, TreeSnapshot) if path.exists() else new
    return snapshot if snapshot.tree == new.tree else new


def _write_snapshot(job: SourceJob, snapshot: TreeSnapshot) -> None:
    if snapshot != _read_snapshot(job.tree, job.state):
        files.write_atomic(job.state / "seen.json", format_canonical_json(snapshot))


def find_user_changes(state: Path) -> dict[Path, tuple[str, ...]]:
    """Return the kinds of user changes, such as "edits", in each changed tree below `state`."""
    trees = [*state.glob("pytorch"), *state.glob("pytorch.*")]  # pytorch.1 is a renamed tree
    changes: dict[Path, tuple[str, ...]] = {}
    for tree in sorted(trees):
        if checkout_state.is_checkout(tree):
            digests = tree_changes_io.read_applied_patches(tree, state)
            patches = [tree_changes_io.find_patch_copy(state, digest) for digest in digests]
            changes[tree] = local_changes.list_local_changes(tree, patches)
        else:  # an unpacked archive: compare digests; an applied patch counts as an edit
            expected = _read_snapshot(tree, state).digest
            is_same = expected and compute_tree_digest(tree, state / "listing.git") == expected
            changes[tree] = () if is_same else ("edits",)
    return {tree: found for tree, found in changes.items() if found}
