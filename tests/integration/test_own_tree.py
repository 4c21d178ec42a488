"""A tree of one's own, or what was taken for one: known before anything is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import commit, git, source_profile
from tests.support.ninjalog import made
from tests.support.yard import Yard

pytestmark = pytest.mark.integration

_NO_RELEASE = {"strategy": "source"}  # the tree says which


def _is_called(tree: Path, version: str) -> str:
    (tree / "version.txt").write_text(f"{version}\n", encoding="utf-8")
    return commit(tree, version)


def test_a_pull_that_moves_version_txt_renames_the_wheel_and_compiles_nothing(
    yard: Yard, tree: Path
) -> None:
    yard.profile(**{**source_profile(tree), "torch": _NO_RELEASE})
    head = _is_called(tree, "2.14.0a0")
    assert "torch 2.14.0a0 (CPU)" in yard.must("build")
    assert yard.manifest("wheel")["version"] == f"2.14.0a0+cpu.g{head[:7]}"
    deps, before = yard.manifest("deps"), made(tree / "build")

    head = _is_called(tree, "2.15.0a0")
    out = yard.must("build")
    assert yard.manifest("wheel")["version"] == f"2.15.0a0+cpu.g{head[:7]}"
    assert "installed only the changes: 1 file\n" in out  # torch/version.py
    assert yard.manifest("deps") == deps
    after = made(tree / "build")
    assert {name for name in after if after[name] != before.get(name)} <= {
        "CMakeFiles/install.util"
    }


def test_a_clone_of_another_project_is_exit_1_before_anything_is_compiled(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    other = tmp_path / "vision"
    git(tmp_path, "clone", "-q", str(tree), str(other))
    git(other, "rm", "-rq", "torch", "c10")
    commit(other, "another project")
    torch = {"strategy": "source", "version": "2.15.0"}
    for place, code in ((other, 1), (tree, 0)):
        source = {"git": place.as_uri(), "ref": "main", "submodules": False}
        yard.profile(target={"gpus": []}, torch=torch, source=source)
        ended, out = yard.doit("source")
        said = " ".join(out.split())
        assert ended == code, out
        assert ("lacks torch/__init__.py, c10" in said) == (code == 1)
        assert "Traceback" not in out
    assert 'set torch.version: "2.6.0"' in said
