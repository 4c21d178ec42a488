"""Tests of the source action on real trees: clones, archives and the user's folders."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tasks.core.errors import LostEditsError, TorchyardError
from tasks.stages.source import run as action
from tasks.stages.source.model import SourceJob, SourceKind, SourceTree
from tasks.stages.source.tree_changes_io import preview_source_changes
from tasks.system import files, manifests
from tasks.system.git import checkout_state
from tests.support.checkout import Heard
from tests.support.systems import needs_git

PATCH = """--- a/setup.py
+++ b/setup.py
@@ -1 +1 @@
-one
+patched
"""


def run_git(where: Path, *args: str) -> None:
    person = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *person, *args], cwd=where, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "torch").mkdir(parents=True)
    (folder / "c10").mkdir()
    for name in ("CMakeLists.txt", "torch/__init__.py", "c10/core.h"):
        (folder / name).touch()
    (folder / "version.txt").write_text("2.9.0a0\n", encoding="utf-8")
    (folder / "setup.py").write_text("one\n", encoding="utf-8")
    (folder / ".gitignore").write_text("*.so\n", encoding="utf-8")
    return folder


@pytest.fixture
def checkout(tree: Path) -> Path:
    run_git(tree, "init", "--quiet", "--initial-branch=main")
    run_git(tree, "add", "--all")
    run_git(tree, "commit", "--quiet", "--message", "first")
    run_git(tree, "tag", "v1")
    return tree


def job(
    tmp_path: Path, kind: SourceKind, location: Path, *patches: Path, ref: str = "v1"
) -> SourceJob:
    state = tmp_path / "build" / "src"
    return SourceJob(
        kind=kind,
        location=str(location),
        ref=ref,
        submodules=True,
        sha256=None,
        patches=patches,
        mirrors={},
        tree=location if kind == "path" else state / "pytorch",
        state=state,
        manifest=tmp_path / "build" / "source.json",
        log=tmp_path / "build" / "source.log",
    )


def run(given: SourceJob) -> SourceTree:
    """Run the action like the task graph, then write its manifest."""
    (outputs,) = action.run(given)
    manifests.write_manifest(given.manifest, outputs)
    return outputs


@pytest.fixture
def patch(tmp_path: Path) -> Path:
    path = tmp_path / "fix.patch"
    path.write_text(PATCH, encoding="utf-8")
    return path


def second(checkout: Path) -> None:
    (checkout / "more").touch()
    run_git(checkout, "add", "--all")
    run_git(checkout, "commit", "--quiet", "--message", "second")


def packed(tree: Path) -> Path:
    path = tree.parent / "pytorch.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tree, "pytorch-1")
    return path


@needs_git
def test_unchanged_clone_yields_same_outputs(tmp_path: Path, checkout: Path) -> None:
    given = job(tmp_path, "git", checkout)
    first = run(given)
    assert first == run(given)
    assert first.commit == checkout_state.read_git_state(checkout).commit
    assert first.edits == ""


@needs_git
def test_manifest_is_removed_before_tree_changes(tmp_path: Path, checkout: Path) -> None:
    given = job(tmp_path, "git", checkout)
    run(given)
    action.run(given)
    assert Path(given.manifest).exists()
    second(checkout)
    action.run(job(tmp_path, "git", checkout, ref="main"))
    assert not Path(given.manifest).exists()


@needs_git
def test_other_ref_is_refused_with_uncommitted_edits(
    tmp_path: Path, checkout: Path, patch: Path
) -> None:
    given = job(tmp_path, "git", checkout, patch)
    before = run(given)
    (Path(given.tree) / ".gitignore").write_text("mine\n", encoding="utf-8")
    second(checkout)
    with pytest.raises(LostEditsError, match="uncommitted edits"):
        run(job(tmp_path, "git", checkout, patch, ref="main"))
    after = run(given)
    assert (after.commit, after.patches) == (before.commit, before.patches)
    assert (Path(given.tree) / ".gitignore").read_text(encoding="utf-8") == "mine\n"
    assert (Path(given.tree) / "setup.py").read_text(encoding="utf-8") == "patched\n"


@needs_git
def test_user_edit_is_kept_and_recorded(tmp_path: Path, checkout: Path) -> None:
    given = job(tmp_path, "git", checkout)
    clean = run(given)
    edited = Path(given.tree) / "setup.py"
    edited.write_text("mine\n", encoding="utf-8")
    assert run(given).edits != clean.edits
    assert edited.read_text(encoding="utf-8") == "mine\n"


@needs_git
def test_digest_of_folder_without_git_covers_only_sources(tmp_path: Path, tree: Path) -> None:
    given = job(tmp_path, "path", tree)
    first = run(given)
    (tree / "build").mkdir()
    (tree / "build" / "a.cpp").touch()
    (tree / "torch" / "_C.so").touch()
    assert run(given) == first
    (tree / "torch" / "new.py").touch()
    assert run(given).digest != first.digest


@needs_git
def test_patch_is_applied_once_and_reverted(tmp_path: Path, checkout: Path, patch: Path) -> None:
    given = job(tmp_path, "git", checkout)
    clean = run(given)
    patched = run(dataclasses.replace(given, patches=(patch,)))
    assert patched == run(dataclasses.replace(given, patches=(patch,)))
    assert patched.edits
    assert len(patched.patches) == 1
    patch.unlink()
    assert run(given) == clean


@needs_git
def test_patch_works_in_folder_without_git(tmp_path: Path, tree: Path, patch: Path) -> None:
    run(job(tmp_path, "path", tree, patch))
    assert (tree / "setup.py").read_text(encoding="utf-8") == "patched\n"
    run(job(tmp_path, "path", tree))
    assert (tree / "setup.py").read_text(encoding="utf-8") == "one\n"


@needs_git
def test_patch_does_not_block_other_ref(tmp_path: Path, checkout: Path, patch: Path) -> None:
    run(job(tmp_path, "git", checkout, patch))
    second(checkout)
    moved = run(job(tmp_path, "git", checkout, patch, ref="main"))
    assert moved.commit == checkout_state.read_git_state(checkout).commit
    assert (Path(moved.tree) / "setup.py").read_text(encoding="utf-8") == "patched\n"


@needs_git
def test_patch_with_edited_lines_is_not_reverted(
    tmp_path: Path, checkout: Path, patch: Path
) -> None:
    given = job(tmp_path, "git", checkout, patch)
    run(given)
    (Path(given.tree) / "setup.py").write_text("mine\n", encoding="utf-8")
    with pytest.raises(LostEditsError, match="cannot revert a patch"):
        run(dataclasses.replace(given, patches=()))
    assert (Path(given.tree) / "setup.py").read_text(encoding="utf-8") == "mine\n"


@needs_git
def test_failing_patch_is_reported(tmp_path: Path, tree: Path, patch: Path) -> None:
    (tree / "setup.py").write_text("other\n", encoding="utf-8")
    with pytest.raises(TorchyardError, match=r"fix\.patch does not apply"):
        run(job(tmp_path, "path", tree, patch))


@needs_git
def test_patch_already_in_tree_is_recognized(tmp_path: Path, tree: Path, patch: Path) -> None:
    (tree / "setup.py").write_text("patched\n", encoding="utf-8")
    assert len(run(job(tmp_path, "path", tree, patch)).patches) == 1


@needs_git
def test_archive_is_unpacked_once(tmp_path: Path, tree: Path) -> None:
    given = job(tmp_path, "tarball", packed(tree))
    first = run(given)
    made = Path(given.tree) / "made.so"
    made.touch()
    assert run(given) == first
    assert made.exists()
    assert first.edits == ""
    (Path(given.tree) / "setup.py").write_text("mine\n", encoding="utf-8")
    assert run(given).edits


def test_other_archive_moves_previous_tree_aside(tmp_path: Path, tree: Path) -> None:
    given = job(tmp_path, "tarball", packed(tree))
    run(given)
    mine = Path(given.tree) / "mine"
    mine.touch()
    (tree / "new").touch()
    packed(tree)
    run(given)
    assert (Path(given.tree) / "new").exists()
    assert not mine.exists()
    assert (Path(given.tree).with_name("pytorch.1") / "mine").exists()


@needs_git
def test_patch_reverted_by_user_is_reapplied(tmp_path: Path, checkout: Path, patch: Path) -> None:
    given = job(tmp_path, "path", checkout, patch)
    patched = run(given)
    subprocess.run(["git", "-C", str(checkout), "checkout", "-q", "--", "."], check=True)
    assert (checkout / "setup.py").read_text(encoding="utf-8") != "patched\n"
    assert run(given) == patched
    assert (checkout / "setup.py").read_text(encoding="utf-8") == "patched\n"
    assert run(given) == patched


def _commit(tree: Path, text: str) -> None:
    (tree / "setup.py").write_text(text, encoding="utf-8")
    run_git(tree, "commit", "--quiet", "--message", "upstream", "--", "setup.py")


@needs_git
def test_patch_broken_by_pull_is_not_considered_applied(
    tmp_path: Path, checkout: Path, patch: Path
) -> None:
    given = job(tmp_path, "path", checkout, patch)
    run(given)
    _commit(checkout, "upstream's\n")
    with pytest.raises(TorchyardError, match=r"fix\.patch does not apply"):
        run(given)
    run(job(tmp_path, "path", checkout))
    assert (checkout / "setup.py").read_text(encoding="utf-8") == "upstream's\n"


@needs_git
def test_patch_merged_upstream_is_not_reverted(
    tmp_path: Path, checkout: Path, patch: Path, heard: Heard
) -> None:
    given = job(tmp_path, "path", checkout, patch)
    run(given)
    _commit(checkout, "patched\n")
    assert not run(given).edits
    clean = run(job(tmp_path, "path", checkout))
    assert (checkout / "setup.py").read_text(encoding="utf-8") == "patched\n"
    assert not clean.edits
    assert "applying it again" not in heard.text


@needs_git
def test_tree_with_merge_conflicts_is_refused_unchanged(
    tmp_path: Path, checkout: Path, patch: Path
) -> None:
    run_git(checkout, "checkout", "--quiet", "-b", "theirs")
    (checkout / "c10" / "core.h").write_text("theirs\n", encoding="utf-8")
    run_git(checkout, "commit", "--all", "--quiet", "--message", "theirs")
    run_git(checkout, "checkout", "--quiet", "main")
    (checkout / "c10" / "core.h").write_text("ours\n", encoding="utf-8")
    run_git(checkout, "commit", "--all", "--quiet", "--message", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        run_git(checkout, "merge", "theirs")
    with pytest.raises(TorchyardError, match=r"1 file has merge conflicts: c10/core\.h") as caught:
        run(job(tmp_path, "path", checkout, patch))
    assert caught.value.location == "source.path"
    assert f"git -C {checkout} merge --abort" in caught.value.hint
    assert (checkout / "setup.py").read_text(encoding="utf-8") == "one\n"
    run_git(checkout, "merge", "--abort")
    assert run(job(tmp_path, "path", checkout, patch)).patches


def _with_inner(tmp_path: Path, checkout: Path) -> Path:
    """Add a submodule to the checkout."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "setup.py").write_text("one\n", encoding="utf-8")
    run_git(inner, "init", "--quiet")
    run_git(inner, "add", "--all")
    run_git(inner, "commit", "--quiet", "--message", "inner")
    added = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner))
    run_git(checkout, *added, "third_party/inner")
    run_git(checkout, "commit", "--quiet", "--message", "with inner")
    return checkout / "third_party" / "inner"


@needs_git
def test_patch_of_submodule_is_reverted(tmp_path: Path, checkout: Path) -> None:
    theirs = _with_inner(tmp_path, checkout) / "setup.py"
    patch = tmp_path / "inner.patch"
    patch.write_text(PATCH.replace("/setup.py", "/third_party/inner/setup.py"), encoding="utf-8")
    run(job(tmp_path, "path", checkout, patch))
    assert theirs.read_text(encoding="utf-8") == "patched\n"
    run(job(tmp_path, "path", checkout))
    assert theirs.read_text(encoding="utf-8") == "one\n"


@needs_git
def test_source_changes_and_outdated_submodules_are_reported(
    tmp_path: Path, checkout: Path, heard: Heard
) -> None:
    inner = _with_inner(tmp_path, checkout)
    given = job(tmp_path, "path", checkout)
    before = run(given)
    assert not heard
    (inner / "setup.py").write_text("mine\n", encoding="utf-8")
    run_git(inner, "commit", "--all", "--quiet", "--message", "mine")
    _commit(checkout, "upstream's\n")
    (outputs,) = action.run(given)
    moved, submodules, left = heard
    assert moved == f"commit {before.commit[:8]} → {outputs.commit[:8]}"
    assert submodules == "submodules changed"
    assert "third_party/inner" in left
    assert "submodule update" in left
    assert tuple(preview_source_changes(given)) == (moved, submodules, left)


def other_build(tmp_path: Path, location: Path, name: str, ref: str = "v1") -> SourceJob:
    """Return a job for the same source in another build folder."""
    build = tmp_path / "build" / name
    state = build / "src"
    given = job(tmp_path, "git", location, ref=ref)
    return dataclasses.replace(
        given,
        tree=state / "pytorch",
        state=state,
        manifest=build / "source.json",
        others=tmp_path / "build",
    )


@needs_git
def test_second_build_reuses_git_objects_of_first(
    checkout: Path, tmp_path: Path, heard: Heard
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    run_git(inner, "init", "--quiet", "--initial-branch=main")
    (inner / "code.h").write_text("1\n", encoding="utf-8")
    run_git(inner, "add", "--all")
    run_git(inner, "commit", "--quiet", "--message", "inner")
    allowed = ("-c", "protocol.file.allow=always")
    run_git(checkout, *allowed, "submodule", "--quiet", "add", str(inner), "third_party/inner")
    run_git(checkout, "commit", "--quiet", "--message", "a submodule")
    run_git(checkout, "tag", "v2")
    first = other_build(tmp_path, checkout, "p.one", "v2")
    run(first)
    second(checkout)
    run_git(checkout, "tag", "v3")
    shutil.rmtree(inner)  # the submodule's remote is gone

    found = run(other_build(tmp_path, checkout, "p.two", "v3"))
    assert f"reused the git objects of {first.tree}" in heard.text
    tree = Path(found.tree)
    assert (tree / "third_party" / "inner" / "code.h").read_text(encoding="utf-8") == "1\n"
    assert found.edits == ""
    assert found.commit != manifests.read_manifest(first.manifest, SourceTree).commit
    files.remove_owned(tmp_path / "build" / "p.one" / "src")
    run_git(tree, "fsck", "--full")
    assert run(other_build(tmp_path, checkout, "p.two", "v3")) == found


def test_archive_of_other_build_is_not_fetched_again(tree: Path, tmp_path: Path) -> None:
    archive = tmp_path / "tree.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tree, "tree")
    digest = files.read_artifact(archive).sha256
    one, two = (
        dataclasses.replace(
            other_build(tmp_path, archive, name),
            kind="tarball",
            sha256=digest,
            location=archive.as_uri(),
        )
        for name in ("p.one", "p.two")
    )
    run(one)
    archive.unlink()
    assert run(two).digest == digest


@needs_git
def test_clone_of_other_project_is_refused(tmp_path: Path, checkout: Path) -> None:
    run_git(checkout, "rm", "--quiet", "version.txt", "torch/__init__.py")
    run_git(checkout, "commit", "--quiet", "--message", "another project")
    given = job(tmp_path, "git", checkout, ref="main")
    with pytest.raises(TorchyardError, match=r"lacks version\.txt, torch/__init__\.py") as caught:
        run(given)
    assert str(given.tree) in caught.value.message
    assert str(checkout) in caught.value.message
    assert caught.value.location == "source.git"
    assert "source.ref" in caught.value.hint
    assert not Path(given.manifest).exists()
    right = run(job(tmp_path, "git", checkout, ref="v1"))
    assert right.commit == checkout_state.read_git_state(Path(right.tree)).commit


def test_archive_or_folder_of_other_project_is_refused(tmp_path: Path, tree: Path) -> None:
    (tree / "version.txt").unlink()
    for kind, place in (("tarball", packed(tree)), ("path", tree)):
        with pytest.raises(TorchyardError, match=r"lacks version\.txt") as caught:
            run(job(tmp_path, kind, place))  # type: ignore[arg-type]
        assert caught.value.location == f"source.{kind}"


@pytest.mark.parametrize(
    ("release", "warned"),
    [("2.9.0", False), ("2.9.0rc1", False), ("2.9.1", False), ("2.15.0", True)],
)
def test_archive_of_other_release_is_reported_with_setting(
    tmp_path: Path, tree: Path, heard: Heard, release: str, warned: bool
) -> None:
    given = dataclasses.replace(job(tmp_path, "tarball", packed(tree)), release=release)
    run(given)
    assert any('set torch.version: "2.9.0a0"' in line for line in heard) == warned


@needs_git
@pytest.mark.parametrize("head", [None, ""])
def test_start_of_a_repository_is_replaced(
    tmp_path: Path, checkout: Path, head: str | None
) -> None:
    """SIGKILL during `git init` leaves a folder that git does not take for a repository."""
    given = job(tmp_path, "git", checkout)
    files.create_owned_folder(given.state)
    git_folder = Path(given.tree, ".git")
    (git_folder / "refs").mkdir(parents=True)
    if head is not None:
        (git_folder / "HEAD").write_text(head, encoding="utf-8")
    assert run(given).commit
