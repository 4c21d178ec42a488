"""`doit matrix --build`: each cell by itself, in turn; what fails costs no other."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from tasks.lock.lock_file import split_sections
from tests.support import smallwheels
from tests.support.yard import NAME, Yard, kill_when, processes_with

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals"),
]
CODE = """
import os, time
from torch.version import __version__
if os.path.exists({folder!r} + "/slow"):
    open({folder!r} + "/reached", "w").close()
    time.sleep(300)
if os.path.exists({folder!r} + "/broken"):
    raise ImportError("broken here")
"""
SETUP = """
import torch
from setuptools import setup
setup(name="toyext", version="1", py_modules=["toyext"])
"""
ODD, GOOD, ABSENT = "torch2.14.0-cpu", "torch2.15.0-cpu", "torch2.15.0-py3.99-sm120"


def torch(index: Path, version: str, code: str) -> None:
    content: dict[str, bytes | str] = {
        "torch/__init__.py": code,
        "torch/version.py": f"__version__ = '{version}'\ncuda = None\n",
    }
    smallwheels.wheel(index, "torch", version, content)  # +ours goes before an index's +cpu


@pytest.fixture
def matrix(yard: Yard, tmp_path: Path) -> Yard:
    """Two releases, of which the first can wait or break, and one Python that is not here."""
    torch(tmp_path / "index", "2.14.0+ours", CODE.format(folder=str(tmp_path)))
    torch(tmp_path / "index", "2.15.0+ours", "from torch.version import __version__\n")
    extension = tmp_path / "extension"
    extension.mkdir()
    (extension / "setup.py").write_text(SETUP, encoding="utf-8")
    (extension / "toyext.py").write_text("answer = 42\n", encoding="utf-8")
    yard.profile(
        target={"gpus": []},
        publish={"dest": str(tmp_path / "published")},
        extensions=[{"name": "toy", "path": str(extension), "imports": ["toyext"]}],
        torch={"strategy": "prebuilt", "index": str(tmp_path / "index")},
        matrix={
            "torch": ["2.14.0", "2.15.0"],
            "gpus": [[]],
            "include": [{"torch": "2.15.0", "python": "3.99", "gpus": "12.0"}],
        },
    )
    return yard


def states(yard: Yard, *argv: str) -> tuple[int, str, dict[str, str]]:
    table = yard.folder / "table.json"
    code, out = yard.doit("matrix", *argv, "--json", str(table))
    cells = json.loads(table.read_text(encoding="utf-8"))["cells"]
    return code, out, {one["cell"]: one["state"] for one in cells}


def test_what_is_stale_is_built_and_what_fails_costs_no_other(matrix: Yard, tmp_path: Path) -> None:
    (tmp_path / "slow").touch()
    code, out = kill_when(matrix.start("matrix", "--build"), tmp_path / "reached", signal.SIGINT)
    assert code == 128 + signal.SIGINT, out
    assert "Traceback" not in out
    assert not processes_with(str(matrix.folder))
    assert not (matrix.folder / "build" / f"{NAME}.{GOOD}").exists(), "the next was begun"
    (tmp_path / "slow").rename(tmp_path / "broken")

    code, out, found = states(matrix, "--build")
    assert code == 1, out
    assert found == {ODD: "failed", GOOD: "built", ABSENT: "impossible"}
    assert f"2 of 3 builds of the matrix are not finished: {ODD}, {ABSENT}" in out
    assert f"doit diagnose profile={NAME}@{ODD}" in out
    table = " ".join(out.partition("Finished")[2].split())
    assert "broken here" in table, "it says why"
    (tmp_path / "broken").unlink()

    code, out, found = states(matrix, "--build")
    assert found == {ODD: "built", GOOD: "up to date", ABSENT: "impossible"}
    assert f"1 of 1: {ODD}" in out
    for cell, release in ((ODD, "2.14.0"), (GOOD, "2.15.0")):
        wheel = json.loads((matrix.folder / "build" / f"{NAME}.{cell}" / "wheel.json").read_text())
        assert wheel["version"] == f"{release}+ours"
    page = (tmp_path / "published" / "simple" / "torch" / "index.html").read_text(encoding="utf-8")
    assert "torch-2.14.0+ours" in page.replace("%2B", "+")
    assert "torch-2.15.0+ours" in page.replace("%2B", "+")
    kept = {path.name for path in (matrix.folder / "wheelhouse").rglob("torch-*.whl")}
    assert len(kept) == 2, "one wheelhouse for all of them"

    assert f"{NAME}@{ABSENT}: unchanged, because this machine cannot build it" in matrix.must(
        "lock"
    )
    text = (matrix.folder / "torchyard.lock").read_text(encoding="utf-8")
    assert set(split_sections(text)) == {f"{NAME}@{ODD}", f"{NAME}@{GOOD}"}
    assert f"{NAME}@{GOOD} matches the build" in matrix.must("lock", "--check")
    stand = {ODD: "up to date", GOOD: "up to date", ABSENT: "impossible"}
    assert states(matrix)[2] == stand, "a lock runs nothing"
