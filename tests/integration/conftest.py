"""A yard with a toy tree and a toy extension: everything real but the size."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.toyextension import make_extension
from tests.toytree import make_tree
from tests.yard import Yard


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "checkout")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout of the toy tree at one commit."""
    folder = make_tree(tmp_path / "pytorch")
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "first")
    return folder


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    return make_extension(tmp_path / "extension", switches=tmp_path)


def git(folder: Path, *argv: str) -> str:
    who = ("-c", "user.name=upstream", "-c", "user.email=upstream@example.invalid")
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *argv], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, message: str) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def source_profile(tree: Path, extension: Path | None = None) -> dict[str, object]:
    """A CPU build of the toy tree, with the toy extension where one is given."""
    listed = [{"name": "toy", "path": str(extension), "imports": ["toyext"]}] if extension else []
    return {
        "target": {"gpus": []},
        "torch": {"strategy": "source", "version": "2.6.0"},
        "source": {"path": str(tree), "submodules": False},
        "extensions": listed,
    }
