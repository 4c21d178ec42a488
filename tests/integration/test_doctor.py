"""doctor on the machine that runs the tests, and what it keeps a build from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.core.check_ids import ALL_CHECK_IDS
from tests.integration.conftest import source_profile
from tests.support.surroundings import WINDOWS_ONLY
from tests.support.yard import Yard

pytestmark = pytest.mark.integration


def test_doctor_looks_at_this_machine(yard: Yard, tree: Path) -> None:
    away = {"name": "a", "git": "https://nowhere.invalid/a.git", "optional": True}
    yard.profile(**source_profile(tree) | {"extensions": [away]})
    before = sorted(path for path in yard.folder.rglob("*") if "__pycache__" not in path.parts)
    out_file = yard.folder.parent / "doctor.json"
    yard.doit("list")  # Python's own caches are not what is measured
    code, out = yard.doit("doctor", "--json", str(out_file))
    found = json.loads(out_file.read_text(encoding="utf-8"))
    assert found["profile"] == "trial"
    assert code == (1 if found["problems"] else 0), out
    assert {symptom["id"] for symptom in found["found"]} >= ALL_CHECK_IDS - WINDOWS_ONLY
    assert "not checked" not in {symptom["level"] for symptom in found["found"]}, out
    (host,) = [symptom for symptom in found["found"] if symptom["id"] == "git-hosts"]
    assert (host["level"], host["subject"]) == ("warning", "a")
    after = (path for path in yard.folder.rglob("*") if "__pycache__" not in path.parts)
    assert [path for path in after if path not in before and ".doit.db" not in path.name] == []


def test_a_problem_stops_build_and_writes_nothing(yard: Yard, tree: Path) -> None:
    profile = source_profile(tree) | {"build": {"env": {"CXX": "/nowhere/g++"}}}
    yard.profile(**profile)
    code, out = yard.doit("build")
    assert code == 1, out
    assert "1 problem: compiler; nothing was built or changed" in out
    assert "/nowhere/g++" in out
    assert "doctor.ignore" not in out, "deps would refuse it all the same"
    assert "Traceback" not in out
    assert not (yard.folder / "build").exists()
    yard.profile(**profile | {"doctor": {"ignore": ["compiler"]}})
    code, out = yard.doit("build")
    assert code == 1, out
    assert "nothing was built or changed" not in out
    assert yard.build.exists(), "deps went as far as it could"
