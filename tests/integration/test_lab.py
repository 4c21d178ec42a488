"""A lab: one machine builds the cells of a matrix and publishes, others install from its index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import commit, git, installed
from tests.support.smallwheels import theirs
from tests.support.toytree import make_tree
from tests.support.webserver import served
from tests.support.yard import Yard

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="the toy tree's loader is POSIX's"),
]
RELEASES = ("2.6.0", "2.7.0")


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """The toy tree as a repository, with a tag for each release."""
    tree = make_tree(tmp_path / "upstream")
    git(tree, "init", "-q", "-b", "main")
    for release in RELEASES:
        (tree / "version.txt").write_text(f"{release}\n", encoding="utf-8")
        commit(tree, release)
        git(tree, "tag", f"v{release}")
    return tree


@pytest.mark.long
def test_what_one_machine_built_is_installed_and_verified_by_others(
    tmp_path: Path, upstream: Path
) -> None:
    index = tmp_path / "index"
    builder = Yard(tmp_path / "builder")
    builder.profile(
        target={"gpus": []},
        torch={"strategy": "source"},
        source={"git": upstream.as_uri(), "submodules": False},
        matrix={"torch": list(RELEASES)},
        publish={"dest": str(index)},
    )
    builder.must("matrix", "--build")
    with served(index) as url:
        _by_pip(tmp_path / "by-pip", f"{url}/simple", "2.7.0")
        local = _local_version(index, "2.6.0")
        _by_torchyard(tmp_path / "by-torchyard", f"{url}/simple", "2.6.0", local)


def _local_version(index: Path, release: str) -> str:
    """What a lab tells those whose cards it is for."""
    (wheel,) = (index / "files").glob(f"torch-{release}+*.whl")
    return wheel.name.split("-")[1].partition("+")[2]


def _by_pip(folder: Path, index: str, release: str) -> None:
    """As docs/publish.md has it."""
    mine = theirs(folder)
    argv = ("install", "-q", "--no-deps", "--index-url", index, f"torch=={release}.*")
    env = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "127.0.0.1"}
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", mine.python, *argv], env=env, check=True
    )
    said = mine.says("import torch; print(torch.__version__, torch.add(40, 2))")
    assert said.startswith(f"{release}+cpu.g")
    assert said.endswith(" 42.0")


def _by_torchyard(folder: Path, index: str, release: str, local: str) -> None:
    """A checkout that takes torch from the lab's index, and the rest from where it always does."""
    user = Yard(folder)
    user.profile(
        target={"gpus": []},
        torch={"strategy": "prebuilt", "version": release, "local": local, "index": index},
    )
    user.must("build")
    assert installed(user, "import torch; print(torch.add(40, 2))") == "42.0"
    (wheel,) = (user.folder / "wheelhouse").rglob("torch-*.whl")
    assert wheel.name.startswith(f"torch-{release}+{local}-")
    out = user.must("verify", str(wheel))
    assert "this profile built the wheel" in out
    assert "failed" not in out
