"""A user's commits, edits, files and locks survive the repair of an interrupted update."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.core.errors import LostEditsError, TorchyardError
from tasks.system.git import clones, interrupted_update
from tasks.system.git.interrupted_update import UpdateNote
from tests.integration.conftest import commit
from tests.integration.conftest import git as run
from tests.support.systems import linux_only, needs_git
from tests.unit.system.git.test_git_cutoff import age, clone, killed, of_a_person

__all__ = ["clone"]  # the fixture
pytestmark = needs_git


def work_on(inner: Path) -> str:
    """Create a branch, a commit and an uncommitted edit."""
    run(inner, "checkout", "-q", "-b", "mine")
    (inner / "a").write_text("committed\n", "utf-8")
    made = commit(inner, "mine")
    (inner / "b").write_text("edited\n", "utf-8")
    return made


@pytest.mark.parametrize("ours", [True, False])
def test_user_work_in_submodule_after_kill_is_kept(clone: Path, tmp_path: Path, ours: bool) -> None:
    tree = clone if ours else of_a_person(clone, tmp_path)
    killed(tree)
    age(tree, 60)
    made = work_on(tree / "inner")
    assert clones.list_stale_submodules(tree, "") == ()
    clones.update_submodules(tree)
    assert run(tree / "inner", "symbolic-ref", "HEAD") == "refs/heads/mine"
    assert run(tree / "inner", "rev-parse", "HEAD") == made
    assert (tree / "inner" / "b").read_text("utf-8") == "edited\n"
    assert run(tree / "inner", "for-each-ref", "refs/torchyard") == ""


def test_uncommitted_edit_after_kill_is_kept(clone: Path) -> None:
    killed(clone)
    mine = clone / "inner" / "b"
    mine.write_text("edited\n", "utf-8")
    later = interrupted_update.find_note_path(clone).stat().st_mtime + 60
    os.utime(mine, (later, later))
    clones.update_submodules(clone)
    assert mine.read_text("utf-8") == "edited\n"


def test_missing_files_in_user_clone_are_restored_after_kill(clone: Path, tmp_path: Path) -> None:
    tree = of_a_person(clone, tmp_path)
    killed(tree)
    (tree / "inner" / "a").unlink()
    (tree / "inner" / "b").write_text("", "utf-8")
    clones.update_submodules(tree)
    assert run(tree / "inner", "status", "--porcelain") == ""
    assert interrupted_update.read_update_note(tree) is None


@pytest.mark.parametrize("ours", [True, False])
def test_interrupted_checkout_of_other_commit_is_resumed(
    clone: Path, tmp_path: Path, ours: bool
) -> None:
    """Files that exist only in the other commit are already there, but untracked."""
    tree, upstream = clone if ours else of_a_person(clone, tmp_path), tmp_path / "inner"
    before = run(tree, "rev-parse", "HEAD")
    (upstream / "new").write_text("new\n", "utf-8", newline="\n")
    (upstream / "a").write_text("a2\n", "utf-8", newline="\n")
    wanted = commit(upstream, "second")
    run(tree / "inner", "fetch", "-q", str(upstream), "main")
    run(tree, "update-index", "--cacheinfo", f"160000,{wanted},inner")
    killed(tree)
    (tree / "inner" / "new").write_text("new\n", "utf-8", newline="\n")
    (tree / "inner" / "a").write_text("a2\n", "utf-8", newline="\n")
    assert clones.list_stale_submodules(tree, before) == ("inner",)
    clones.update_submodules(tree, ("inner",))
    assert run(tree / "inner", "rev-parse", "HEAD") == wanted
    assert run(tree / "inner", "status", "--porcelain") == ""


def test_ambiguous_change_in_user_clone_is_left_to_user(clone: Path, tmp_path: Path) -> None:
    tree = of_a_person(clone, tmp_path)
    killed(tree)
    (tree / "inner" / "a").unlink()
    (tree / "inner" / "b").write_text("whose?", "utf-8")
    with pytest.raises(LostEditsError, match="checkout --force"):
        clones.update_submodules(tree)
    assert (tree / "inner" / "b").read_text("utf-8") == "whose?"
    run(tree / "inner", "checkout", "--force", "HEAD")
    clones.update_submodules(tree)
    assert interrupted_update.read_update_note(tree) is None


def test_clean_submodule_on_user_branch_is_kept_after_failure(clone: Path) -> None:
    with (
        pytest.raises(TorchyardError),
        interrupted_update.track_submodule_update(clone, ("inner",)),
    ):
        raise TorchyardError("the host does not answer")
    made = work_on(clone / "inner")
    run(clone / "inner", "checkout", "-q", "--", "b")
    assert clones.list_stale_submodules(clone, "") == ()
    clones.update_submodules(clone)
    assert run(clone / "inner", "symbolic-ref", "HEAD") == "refs/heads/mine"
    assert run(clone / "inner", "rev-parse", "HEAD") == made


def test_changes_saved_twice_get_two_refs(clone: Path) -> None:
    for held in ("first", "second"):
        killed(clone)
        (clone / "inner" / "b").write_text(held, "utf-8")
        clones.update_submodules(clone)
    assert run(clone / "inner", "show", "refs/torchyard/interrupted:b") == "first"
    assert run(clone / "inner", "show", "refs/torchyard/interrupted-2:b") == "second"


def test_running_git_updates_its_note(clone: Path) -> None:
    with interrupted_update.track_submodule_update(clone):
        os.utime(interrupted_update.find_note_path(clone), (1, 1))
        while interrupted_update.find_note_path(clone).stat().st_mtime == 1:
            pass


def test_lock_after_failure_is_kept(clone: Path) -> None:
    """git removes its own locks when it exits normally."""
    with pytest.raises(TorchyardError), interrupted_update.track_submodule_update(clone):
        raise TorchyardError("the disk is full")
    lock = clone / ".git" / "index.lock"
    lock.touch()
    interrupted_update.repair_interrupted_update(clone)
    assert lock.exists()


def test_lock_newer_than_kill_is_kept(clone: Path) -> None:
    killed(clone)
    age(clone, 60)
    lock = clone / ".git" / "index.lock"
    lock.touch()
    interrupted_update.repair_interrupted_update(clone)
    assert lock.exists()


@linux_only
def test_lock_is_kept_while_git_runs(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user's `git commit` waits for an editor."""
    lock, inner = clone / ".git" / "modules" / "inner" / "index.lock", clone / "inner"
    (inner / "a").write_text("mine\n", "utf-8")
    editor = f'{sys.executable} -c "print(flush=True); input()" #'
    env = {**os.environ, "GIT_EDITOR": editor}
    who = ("-c", "user.name=me", "-c", "user.email=me@example.invalid")
    with subprocess.Popen(
        ("git", *who, "commit", "-a"), cwd=inner, env=env,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as child:  # fmt: skip
        assert child.stdout
        child.stdout.readline()
        killed(clone)
        interrupted_update.remove_stale_locks(
            clone, interrupted_update.read_update_note(clone) or UpdateNote()
        )
        there = lock.exists()
        child.communicate(b"\n")
    assert there
    assert f"{lock} exists: git may be running in" in capsys.readouterr().out


def test_files_unpacked_over_submodule_are_moved_aside(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = clone / "inner"
    (inner / ".git").unlink()
    (inner / "mine").write_text("unpacked by hand", "utf-8")
    interrupted_update.write_update_note(clone, UpdateNote(("inner",), fresh=("inner",), began=0.0))
    clones.update_submodules(clone)
    assert (clone / "inner.1" / "mine").read_text("utf-8") == "unpacked by hand"
    assert f"to {clone / 'inner.1'}" in capsys.readouterr().out
    assert (inner / ".git").exists()


def test_partial_clone_with_later_edits_is_moved_aside(clone: Path) -> None:
    (clone / ".git" / "modules" / "inner" / "index").unlink()
    interrupted_update.write_update_note(clone, UpdateNote(("inner",), fresh=("inner",), began=0.0))
    age(clone, 60)
    (clone / "inner" / "b").write_text("edited\n", "utf-8")
    clones.update_submodules(clone)
    assert (clone / "inner.1" / "b").read_text("utf-8") == "edited\n"
    assert (clone / ".git" / "modules" / "inner.1").is_dir()
    assert run(clone / "inner", "status", "--porcelain") == ""
