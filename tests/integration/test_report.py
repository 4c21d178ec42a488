"""`doit report` after real builds: what a build records is what the report tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.conftest import source_profile
from tests.support.yard import Yard

pytestmark = pytest.mark.integration


def test_a_build_and_one_that_failed_are_told(yard: Yard, tree: Path, extension: Path) -> None:
    yard.profile(**source_profile(tree, extension))
    yard.must("build")
    said = yard.must("report")
    folder = yard.build / "report"
    assert str(folder / "report.html") in said
    page = (folder / "report.html").read_text(encoding="utf-8")
    for told in (
        "extensions:toy",
        "CMakeFiles/c10.dir",
        "first time",
        yard.manifest("wheel")["version"],
    ):
        assert told in page
    assert str(yard.folder) not in page
    trace = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    assert {"core.cpp.o", "compile"} <= {one["name"] for one in trace["traceEvents"]}

    source = tree / "c10" / "core.cpp"
    source.write_text(f"{source.read_text(encoding='utf-8')}\nint broken(", encoding="utf-8")
    assert yard.doit("build")[0] == 1
    yard.must("report")
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "compile failed" in text
    assert "first error: `" in text
    assert "expected primary-expression" in text
    assert "not reached" in text
