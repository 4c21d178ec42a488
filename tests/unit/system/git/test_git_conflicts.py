"""Merge conflicts in a checkout are reported with the git command that aborts the operation."""

from __future__ import annotations

import shutil
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from tasks.core.errors import TorchyardError
from tasks.system.git import local_changes
from tests.integration.conftest import commit
from tests.integration.conftest import git as run
from tests.support.checkout import Heard
from tests.support.smallclones import with_submodule
from tests.support.systems import needs_git

pytestmark = needs_git


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clone with a submodule `inner`."""
    return with_submodule(tmp_path_factory.mktemp("clones"), {"a": "a\n", "b": "b\n"})


@pytest.fixture
def clone(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "my tree", symlinks=True))


def diverge(tree: Path) -> None:
    """Let the branches `ours`, which is checked out, and `theirs` change the same lines."""
    run(tree, "checkout", "-q", "-B", "ours")
    for branch in ("theirs", "ours"):
        run(tree, "checkout", "-q", "-B", branch, "ours")
        (tree / "a").write_text(f"{branch}\n", "utf-8")
        commit(tree, f"a of {branch}")


def conflict(tree: Path, operation: str) -> None:
    """Run the git operation, which ends with a conflict in the file `a`."""
    diverge(tree)
    patch = tree.parent / "theirs.patch"
    patch.write_text(run(tree, "format-patch", "-1", "--stdout", "theirs") + "\n", "utf-8")
    if operation == "stash pop":
        (tree / "a").write_text("mine\n", "utf-8")
        run(tree, "stash")
        (tree / "a").write_text("later\n", "utf-8")
        commit(tree, "later")
    argv = {"am": ["am", "-3", str(patch)], "revert": ["revert", "--no-edit", "HEAD~1"]}
    if operation == "revert":
        (tree / "a").write_text("later\n", "utf-8")
        commit(tree, "later")
    theirs = [] if operation == "stash pop" else ["theirs"]
    with pytest.raises(CalledProcessError):
        run(tree, *argv.get(operation, [*operation.split(), *theirs]))


@pytest.mark.parametrize(
    ("operation", "hint", "where"),
    [
        ("merge", "merge --abort", "clone"),
        ("rebase", "rebase --abort", "clone"),
        ("rebase --apply", "rebase --abort", "clone"),
        ("cherry-pick", "cherry-pick --abort", "clone"),
        ("revert", "revert --abort", "clone"),
        ("am", "am --abort", "clone"),
        ("stash pop", "add FILE", "clone"),
        ("merge", "merge --abort", "submodule"),
        ("stash pop", "add FILE", "submodule"),
        ("merge", "merge --abort", "worktree"),
        ("rebase", "rebase --abort", "worktree"),
    ],
)
def test_conflicts_are_reported_with_abort_command(
    clone: Path, operation: str, hint: str, where: str
) -> None:
    assert local_changes.find_conflicts(clone) is None
    top = clone.parent / "beside" if where == "worktree" else clone
    tree = clone / "inner" if where == "submodule" else top
    if where == "worktree":
        run(clone, "worktree", "add", "-q", str(tree))
    conflict(tree, operation)
    before = run(tree, "status", "--porcelain=v2", "--branch")
    with pytest.raises(TorchyardError) as caught:
        local_changes.require_merged(top, "source.path")
    name = "inner/a" if where == "submodule" else "a"
    assert caught.value.message == f"in {top} 1 file has merge conflicts: {name}"
    assert caught.value.location == "source.path"
    quoted = f'"{tree}"' if " " in str(tree) else str(tree)
    assert f"git -C {quoted} {hint}" in caught.value.hint
    assert run(tree, "status", "--porcelain=v2", "--branch") == before
    if hint.endswith("--abort"):
        run(tree, *hint.split())
        assert local_changes.find_conflicts(top) is None


def test_many_conflicts_are_counted_and_some_named(clone: Path) -> None:
    run(clone, "checkout", "-q", "-B", "ours")
    for branch in ("theirs", "ours"):
        run(clone, "checkout", "-q", "-B", branch, "origin/main")
        for number in range(30):
            (clone / f"f{number:02}").write_text(f"{branch}\n", "utf-8")
        (clone / ".gitmodules").write_text(f"# {branch}\n", "utf-8")
        commit(clone, branch)
    with pytest.raises(CalledProcessError):
        run(clone, "merge", "theirs")
    assert "<<<<<<<" in (clone / ".gitmodules").read_text("utf-8")
    message = str(local_changes.find_conflicts(clone))
    assert message == "31 files have merge conflicts: .gitmodules, f00, f01, f02, f03 and 26 more"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([["merge", "--no-commit", "--no-ff", "-s", "ours", "theirs"]], "merge --abort"),
        ([["rebase", "--exec", "false", "HEAD~1"]], "rebase --abort"),
        ([["cherry-pick", "theirs"], ["checkout", "--ours", "a"], ["add", "a"]],
         "cherry-pick --abort"),
        ([["bisect", "start", "HEAD", "HEAD~1"]], "bisect reset"),
    ],
)  # fmt: skip
def test_operation_in_progress_without_conflicts_is_warning(
    clone: Path, heard: Heard, steps: list[list[str]], expected: str
) -> None:
    diverge(clone)
    local_changes.require_merged(clone, "source.path")
    assert not heard
    for step in steps:
        try:
            run(clone, *step)
        except CalledProcessError:
            assert step[0] in {"rebase", "cherry-pick"}
    local_changes.require_merged(clone, "source.path")
    (line,) = heard
    assert line.endswith(f'built as they are now; to end it, run git -C "{clone}" {expected}')


def test_folder_without_git_has_no_conflicts(tmp_path: Path) -> None:
    local_changes.require_merged(tmp_path, "source.path")
    local_changes.require_merged(tmp_path / "missing", "source.path")
