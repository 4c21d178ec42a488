"""Untracked files are found as in a full walk, but unchanged folders are not walked."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.system.git import checkout_state
from tests.support.rows import long_but
from tests.support.systems import needs_git
from tests.unit.system.git.test_git import commit, repository, run

LONG_AGO = 1_700_000_000
pytestmark = needs_git


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = repository(tmp_path / "tree")
    for name in ("one", "two/deep"):
        (made / name).mkdir(parents=True)
        (made / name / "known.txt").write_text("known\n", encoding="utf-8")
    commit(made)
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Record every git command."""
    found: list[tuple[str, ...]] = []
    state = sys.modules[
        "tasks.system.git.checkout_state"
    ]  # the package calls its function by that name
    ask: Callable[..., str] = state.capture_git_output

    def run_and_record(tree: Path, *args: str, **options: str) -> str:
        found.append(args)
        return ask(tree, *args, **options)

    monkeypatch.setattr(state, "capture_git_output", run_and_record)
    return found


def age(tree: Path) -> None:
    """Move all modification times into the past."""
    for folder, _, _ in os.walk(tree):
        os.utime(folder, (LONG_AGO, LONG_AGO))
    for name in ("index", "info/exclude"):
        os.utime(tree / ".git" / name, (LONG_AGO, LONG_AGO))


def walked(asked: list[tuple[str, ...]]) -> bool:
    return any("--others" in args for args in asked)


def test_unchanged_folders_are_not_walked(
    tree: Path, tmp_path: Path, asked: list[tuple[str, ...]]
) -> None:
    kept = tmp_path / "kept.json"
    (tree / "one" / "new.txt").write_text("new\n", encoding="utf-8")
    age(tree)
    first = checkout_state.read_git_state(tree, kept)
    assert walked(asked)
    asked.clear()
    assert checkout_state.read_git_state(tree, kept) == first
    assert not walked(asked)
    (tree / "one" / "new.txt").write_text("newer\n", encoding="utf-8")  # its folder is unchanged
    assert (
        checkout_state.read_git_state(tree, kept).edits
        == checkout_state.read_git_state(tree).edits
        != first.edits
    )


def test_recently_changed_folders_are_walked_again(
    tree: Path, tmp_path: Path, asked: list[tuple[str, ...]]
) -> None:
    kept = tmp_path / "kept.json"
    checkout_state.read_git_state(tree, kept)
    asked.clear()
    checkout_state.read_git_state(tree, kept)
    assert walked(asked)


@pytest.mark.parametrize(
    "held", ["", "[]", "{}", '{"commit": 1, "git": 2, "folders": 3, "names": 4}']
)
def test_corrupt_cache_is_ignored(tree: Path, tmp_path: Path, held: str) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(held, encoding="utf-8")
    (tree / "new.txt").touch()
    assert checkout_state.read_git_state(tree, kept) == checkout_state.read_git_state(tree)


def add(tree: Path, number: int) -> None:
    (tree / "one" / f"added{number}.txt").write_text(str(number), encoding="utf-8")


def add_folder(tree: Path, number: int) -> None:
    (tree / "two" / f"folder{number}" / "below").mkdir(parents=True)
    (tree / "two" / f"folder{number}" / "below" / "file").touch()


def remove(tree: Path, number: int) -> None:
    new = sorted(run(tree, "ls-files", "--others").splitlines())
    if new:
        (tree / new[number % len(new)]).unlink()


def ignore(tree: Path, number: int) -> None:
    name = ("one", "two", ".")[number % 3]
    (tree / name / ".gitignore").write_text(f"added{number}*\nfolder*\n", encoding="utf-8")


def unignore(tree: Path, number: int) -> None:
    for found in tree.rglob(".gitignore"):
        found.unlink()


def forget(tree: Path, number: int) -> None:
    run(tree, "rm", "--quiet", "--cached", "--ignore-unmatch", "one/known.txt")


def commit_all(tree: Path, number: int) -> None:
    (tree / "a").write_text(str(number), encoding="utf-8")
    commit(tree)


STEPS = (add, add_folder, remove, ignore, unignore, forget, commit_all)


@pytest.mark.parametrize("seed", long_but([0, 1], range(6)))
def test_cached_state_equals_full_walk_after_any_change(
    tree: Path, tmp_path: Path, seed: int
) -> None:
    kept, chance = tmp_path / "kept.json", random.Random(seed)
    for number in range(25):
        chance.choice(STEPS)(tree, number)
        assert checkout_state.read_git_state(tree, kept) == checkout_state.read_git_state(tree)
        if chance.random() < 0.5:
            # recent changes look old, by a different amount each time, as time passes
            for folder, _, _ in os.walk(tree):
                when = Path(folder).stat().st_mtime
                if when > LONG_AGO + 10**7:
                    os.utime(folder, (LONG_AGO + number, LONG_AGO + number))
            os.utime(tree / ".git" / "index", (LONG_AGO + number, LONG_AGO + number))
            assert checkout_state.read_git_state(tree, kept) == checkout_state.read_git_state(tree)
