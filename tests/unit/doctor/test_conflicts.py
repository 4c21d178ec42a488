"""Merge conflicts in the user's sources are problems before a build begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from tasks.core.check_ids import GATE_CHECK_IDS, CheckId
from tasks.core.project import Project
from tasks.doctor.examine_host import build_probe_request, check_host
from tasks.doctor.host_facts_io import read_host_facts
from tests.integration.conftest import commit, git
from tests.support.checkout import KNOWLEDGE
from tests.support.surroundings import LINUX, LINUX_HOST, profile_on
from tests.support.systems import needs_git
from tests.support.toyextension import make_extension
from tests.support.toytree import make_tree

WANTED: frozenset[CheckId] = frozenset({"conflicts"})


def with_conflict(tree: Path) -> Path:
    """Turn a folder into a checkout with a conflicting merge."""
    git(tree, "init", "-q", "-b", "main")
    commit(tree, "first")
    for branch in ("theirs", "ours"):
        git(tree, "checkout", "-q", "-b", branch, "main")
        (tree / "setup.py").write_text(branch, "utf-8")
        commit(tree, branch)
    with pytest.raises(CalledProcessError):
        git(tree, "merge", "theirs")
    return tree


@needs_git
def test_conflicts_in_source_tree_and_extension_are_problems(tmp_path: Path) -> None:
    torch = with_conflict(make_tree(tmp_path / "pytorch"))
    rast = with_conflict(make_extension(tmp_path / "rast"))
    extension = {"name": "toy", "path": str(rast), "imports": ["toy"]}
    profile = profile_on(
        LINUX, torch={"strategy": "source"}, source={"path": str(torch)}, extensions=[extension]
    )
    asked = replace(
        build_probe_request(Project.of_checkout(tmp_path), LINUX_HOST, profile), build=tmp_path
    )
    found = check_host(read_host_facts(asked, WANTED), profile, KNOWLEDGE, WANTED)
    assert [(one.level, one.subject) for one in found] == [
        ("problem", "source.path"),
        ("problem", "extensions (toy).path"),
    ]
    assert found[0].seen == f"in {torch} 1 file has merge conflicts: setup.py"
    assert f"git -C {torch} merge --abort" in found[0].todo
    assert WANTED <= GATE_CHECK_IDS
    for tree in (torch, rast):
        git(tree, "merge", "--abort")
    (clean,) = check_host(read_host_facts(asked, WANTED), profile, KNOWLEDGE, WANTED)
    assert clean.level == "ok"
