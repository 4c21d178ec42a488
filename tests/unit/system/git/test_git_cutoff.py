"""Submodules, locks and patched files are repaired after git was killed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tasks.core.errors import TorchyardError
from tasks.system.git import clones, interrupted_update
from tasks.system.git.interrupted_update import UpdateNote, read_submodule_head
from tests.integration.conftest import git as run
from tests.support.smallclones import with_submodule
from tests.support.systems import needs_git

pytestmark = needs_git


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a managed clone with the submodule `inner`."""
    return with_submodule(tmp_path, {"a": "a\n", "b": "b\n"})


def killed(tree: Path, began: float = 0.0) -> None:
    """Leave the state of a SIGKILL during an update of `inner`, which was clean."""
    heads = {"inner": read_submodule_head(tree / "inner")}
    interrupted_update.write_update_note(
        tree, UpdateNote(("inner",), clean=("inner",), heads=heads, began=began)
    )


def of_a_person(clone: Path, tmp_path: Path) -> Path:
    """Return a clone in an unmanaged folder."""
    tree = tmp_path / "theirs"
    run(tmp_path, "-c", "protocol.file.allow=always", "clone", "-q", "--recursive",
        str(tmp_path / "outer"), str(tree))  # fmt: skip
    return tree


def age(tree: Path, seconds: float) -> float:
    """Move the last sign of life of our git into the past."""
    path = interrupted_update.find_note_path(tree)
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))
    return then


def is_in_order(tree: Path) -> bool:
    there = [(tree / "inner" / name).is_file() for name in "ab"]
    return (
        all(there)
        and run(tree, "status", "--porcelain") == ""
        and not interrupted_update.read_update_note(tree)
    )


@pytest.mark.parametrize("lost", ["index", "objects"])
def test_partially_cloned_submodule_is_cloned_again(clone: Path, lost: str) -> None:
    """git sees the required HEAD and does nothing, or fails."""
    stored = clone / ".git" / "modules" / "inner"
    shutil.rmtree(stored / lost) if (stored / lost).is_dir() else (stored / lost).unlink()
    (clone / "inner" / "b").unlink()
    interrupted_update.write_update_note(clone, UpdateNote(("inner",), fresh=("inner",), began=0.0))
    (stored / "index.lock").touch()
    assert clones.list_stale_submodules(clone, "") == ("inner",)
    clones.update_submodules(clone)
    assert is_in_order(clone)


def test_interrupted_submodule_checkout_is_repaired(clone: Path) -> None:
    killed(clone)
    (clone / ".git" / "modules" / "inner" / "index.lock").touch()
    (clone / "inner" / "a").unlink()
    (clone / "inner" / "b").write_text("half", "utf-8")
    clones.update_submodules(clone)
    assert is_in_order(clone)
    assert run(clone / "inner", "show", "refs/torchyard/interrupted:b") == "half"


def test_user_edit_after_failure_is_kept(clone: Path) -> None:
    with (
        pytest.raises(TorchyardError),
        interrupted_update.track_submodule_update(clone, ("inner",)),
    ):
        raise TorchyardError("the disk is full")
    mine = clone / "inner" / "a"
    mine.write_text("mine\n", "utf-8")
    later = (clone / ".git" / "torchyard-under-way.json").stat().st_mtime + 10
    os.utime(mine, (later, later))
    clones.update_submodules(clone)
    assert mine.read_text("utf-8") == "mine\n"


def test_lock_older_than_interrupted_git_is_kept(clone: Path) -> None:
    lock = clone / ".git" / "index.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    with interrupted_update.track_submodule_update(clone):
        pass
    interrupted_update.write_update_note(clone, UpdateNote(began=time.time()))
    interrupted_update.repair_interrupted_update(clone)
    assert lock.exists()
