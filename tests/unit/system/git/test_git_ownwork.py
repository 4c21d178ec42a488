"""A user's changes in a managed clone are distinguished from changes by torchyard."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.system.git import local_changes
from tests.integration.conftest import commit
from tests.integration.conftest import git as run
from tests.support.smallclones import with_submodule
from tests.support.systems import needs_git

pytestmark = needs_git

PATCH = """--- a/a
+++ b/a
@@ -1 +1 @@
-a
+patched
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+new
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a managed clone with a submodule `inner`."""
    content = {"a": "a\n", ".gitignore": "*.so\n"}
    return with_submodule(tmp_path_factory.mktemp("clones"), content)


@pytest.fixture
def clone(made: Path, tmp_path: Path) -> Path:
    """Return a copy of the clone for one test."""
    return Path(shutil.copytree(made, tmp_path / "tree", symlinks=True))


@pytest.fixture
def patch(tmp_path: Path) -> Path:
    path = tmp_path / "our.patch"
    path.write_text(PATCH, "utf-8", newline="")
    return path


def edit(tree: Path) -> None:
    (tree / "a").write_text("mine\n", "utf-8")


def stage(tree: Path) -> None:
    (tree / "b").write_text("mine\n", "utf-8")
    run(tree, "add", "b")


def save(tree: Path) -> None:
    """Commit on a branch that is no longer checked out."""
    run(tree, "checkout", "-q", "-b", "mine")
    run(tree, "commit", "-q", "--allow-empty", "-m", "mine")
    run(tree, "checkout", "-q", "--detach", "HEAD~1")


def stash(tree: Path) -> None:
    edit(tree)
    run(tree, "stash")


WORK: dict[str, tuple[Callable[[Path], object], str]] = {
    "an edit": (edit, "edits"),
    "a new file": (lambda tree: (tree / "b").touch(), "edits"),
    "a staged file": (stage, "edits"),
    "a file that is gone": (lambda tree: (tree / "a").unlink(), "edits"),
    "a commit": (save, "commits"),
    "a stash": (stash, "stashes"),
    "a work tree elsewhere": (
        lambda tree: run(tree, "worktree", "add", "-q", "../mine"),
        "other work trees",
    ),
    "an edit in a submodule": (lambda tree: edit(tree / "inner"), "edits"),
    "a commit in a submodule": (lambda tree: save(tree / "inner"), "commits"),
    "a stash in a submodule": (lambda tree: stash(tree / "inner"), "stashes"),
}


@pytest.mark.parametrize("name", WORK)
def test_user_change_is_detected(clone: Path, patch: Path, name: str) -> None:
    do, kind = WORK[name]
    do(clone)
    assert local_changes.list_local_changes(clone) == (kind,)
    if local_changes.can_apply_patch(clone, patch):
        local_changes.apply_patch(clone, patch)
        assert local_changes.list_local_changes(clone, (patch,)) == (kind,)


def test_changes_by_torchyard_or_build_are_not_local_changes(
    clone: Path, patch: Path, tmp_path: Path
) -> None:
    assert local_changes.list_local_changes(clone) == ()
    local_changes.apply_patch(clone, patch)
    (clone / "lib.so").touch()
    (clone / "inner" / "made").touch()
    assert local_changes.list_local_changes(clone, (patch,)) == ()
    assert local_changes.list_local_changes(clone) == ("edits",)
    assert "A  new" not in run(clone, "status", "--porcelain")  # its index is unchanged
    assert local_changes.list_local_changes(tmp_path) == ()


def test_pulled_and_pushed_commits_are_not_local_changes(clone: Path) -> None:
    outer = Path(run(clone, "config", "remote.origin.url"))
    (outer / "b").touch()
    commit(outer, "theirs")
    run(clone, "pull", "-q", "--ff-only", "origin", "main")
    assert local_changes.list_local_changes(clone) == ()
    run(clone, "commit", "-q", "--allow-empty", "-m", "mine")
    assert local_changes.list_local_changes(clone) == ("commits",)
    run(clone, "push", "-q", "origin", "HEAD:refs/heads/mine")
    run(clone, "fetch", "-q", "origin")
    assert local_changes.list_local_changes(clone) == ()


def test_unfinished_clone_has_no_local_changes(clone: Path) -> None:
    run(clone, "symbolic-ref", "HEAD", "refs/heads/none")
    assert local_changes.list_local_changes(clone) == ()


def test_unreadable_repository_may_have_local_changes(clone: Path) -> None:
    (clone / ".git" / "index").write_bytes(b"none")
    assert local_changes.list_local_changes(clone) == ("files that git cannot read",)


def test_missing_git_may_have_local_changes(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert local_changes.list_local_changes(clone) == ("files that git cannot read",)
