"""`doit explain` against what `doit build` then does, on the toy tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import commit, source_profile
from tests.support.ninjalog import made, products
from tests.support.yard import Yard

pytestmark = pytest.mark.integration


def document(yard: Yard) -> dict[str, Any]:
    out = yard.folder / "explain.json"
    yard.must("explain", "--json", str(out))
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def explained(yard: Yard) -> dict[str, dict[str, Any]]:
    return {row["stage"]: row for row in document(yard)["stages"]}


def decided(found: dict[str, Any]) -> dict[str, str]:
    return {row["key"]: row["value"] for row in found["decisions"]}


def verdicts(yard: Yard) -> dict[str, str]:
    return {name: row["verdict"] for name, row in explained(yard).items()}


def everything(folder: Path) -> dict[str, int]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".doit.db" not in path.name)
    return {str(path): path.stat().st_mtime_ns for path in found if path.name != "explain.json"}


@pytest.mark.long
def test_explain_foresees_what_build_does_and_changes_nothing(yard: Yard, tree: Path) -> None:
    yard.profile(**source_profile(tree))
    first = explained(yard)
    assert {row["verdict"] for row in first.values()} == {"runs"}
    assert first["compile"]["reasons"] == ["first time"]
    assert not yard.build.exists()
    before_build = document(yard)
    assert decided(before_build)["compiler"] == "g++, else clang++"
    assert before_build["expected"]["unknown"] == []
    assert before_build["expected"]["disk_gib"] > 1  # by the facts: nothing was built here yet

    yard.must("build")
    assert set(verdicts(yard).values()) == {"up to date"}
    cxx = yard.manifest("deps")["cxx"]
    assert decided(document(yard))["compiler"] == f"{cxx['path']} {cxx['version']}"
    assert document(yard)["expected"]["unknown"] == []

    text = tree / "c10" / "text.cpp"
    text.write_text(text.read_text(encoding="utf-8") + "\nint more = 1;\n", encoding="utf-8")
    before = everything(tree), everything(yard.build)
    edited = explained(yard)
    assert (everything(tree), everything(yard.build)) == before
    assert edited["source"]["reasons"] == ["uncommitted edits changed"]
    assert edited["compile"]["verdict"] == "may run"
    assert edited["compile"]["folder"]["decision"] == "reuse"
    assert edited["compile"]["folder"]["objects"] == 1
    log = made(tree / "build")
    yard.must("build")
    objects = {name for name in products(log, made(tree / "build")) if name.endswith(".o")}
    assert objects == {"text.cpp.o"}

    commit(tree, "the same, committed")
    assert explained(yard)["source"]["reasons"][0].startswith("commit ")
    yard.must("build")

    yard.profile(**source_profile(tree), build={"flags": {"USE_LOUD": True}})
    switched = explained(yard)
    assert switched["env"]["verdict"] == "runs"
    assert switched["compile"]["reasons"] == ["build.flags.USE_LOUD: now true, was not set"]
    assert switched["compile"]["folder"]["decision"] == "reconfigure"
    assert switched["compile"]["folder"]["objects"] is None
    assert switched["deps"]["verdict"] == "up to date"
    assert document(yard)["expected"]["seconds"] > 0
    out = yard.must("build")
    assert "reconfigure the build folder: build.flags.USE_LOUD nothing → 1" in out
    assert set(verdicts(yard).values()) == {"up to date"}


def test_explain_of_a_broken_profile_tells_what_is_wrong(yard: Yard) -> None:
    yard.profile(tagret={})
    code, out = yard.doit("explain")
    assert code == 3
    assert 'did you mean "target"?' in out
