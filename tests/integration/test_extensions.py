"""Extensions against a torch that changes: rebuilt when what they are built against moved, and only
then; what works stays until something better is proven.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import commit, installed, source_profile
from tests.support.toyextension import make_extension
from tests.support.yard import Yard, kill_when, processes_with

pytestmark = pytest.mark.integration

CORE = "c10/core.cpp"
HEADER = "c10/core.h"


def make(folder: Path, name: str, answer: str = "42") -> dict[str, Any]:
    """The settings of a toy extension of that name; its switches are `folder`'s."""
    make_extension(folder / name, answer, switches=folder / f"{name}.switches", name=name)
    (folder / f"{name}.switches").mkdir(exist_ok=True)
    return {"name": name, "path": str(folder / name), "imports": [name]}


def profile(yard: Yard, tree: Path, *extensions: dict[str, Any], version: str = "2.6.0") -> None:
    settings = source_profile(tree)
    yard.profile(
        **{
            **settings,
            "torch": {"strategy": "source", "version": version},
            "extensions": list(extensions),
        }
    )


def builds(yard: Yard, *names: str) -> list[int]:
    """How often each was compiled so far."""
    records = yard.build / "records" / "extensions"
    return [len((records / f"{name}.jsonl").read_text("utf-8").splitlines()) for name in names]


def edit(tree: Path, name: str, old: str, new: str) -> None:
    path = tree / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    commit(tree, f"{old} → {new}")


def test_only_what_extensions_are_built_against_builds_them_again(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    names = ("one", "two")
    profile(yard, tree, *(make(tmp_path, name) for name in names))
    yard.must("build")
    assert builds(yard, *names) == [1, 1]
    torch = yard.manifest("wheel")["version"]

    edit(tree, CORE, "return 42;", "return 43;")
    out = yard.must("build")
    assert yard.manifest("wheel")["version"] != torch
    assert "Building extensions" not in out
    assert builds(yard, *names) == [1, 1]

    edit(tree, HEADER, "int c10_answer();", 'int c10_answer();\nextern "C" int c10_new();')
    told = yard.must("explain")
    assert "extensions:one  may run" in told
    out = yard.must("build")
    assert "include/c10/core.h" in out
    assert builds(yard, *names) == [2, 2]

    include = "#include <c10/core.h>"
    edit(tree, CORE, include, f'{include}\nextern "C" int c10_new() {{ return 1; }}')
    out = yard.must("build")
    assert "c10_new" in out
    assert builds(yard, *names) == [3, 3]


@pytest.mark.long
def test_a_torch_switch_builds_them_again_and_keeps_the_old_wheels(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    extension = make(tmp_path, "toy")
    profile(yard, tree, extension)
    yard.must("build")
    first = yard.manifest("extensions:toy")
    (tree / "version.txt").write_text("2.7.0\n", encoding="utf-8")
    commit(tree, "2.7.0")
    profile(yard, tree, extension, version="2.7.0")
    yard.must("build")
    second = yard.manifest("extensions:toy")
    for built, torch in ((first, "2.6.0"), (second, "2.7.0")):
        name = built["artifact"]["name"]
        label = f"torch{torch}.s{built['surface']}.cpu"
        assert re.match(rf"toy-1\.0\+{label}\.d[0-9a-f]{{6}}-", name)  # it is no checkout
        assert (yard.folder / "wheelhouse" / name).is_file()
    ask = "from importlib.metadata import version; print(version('toy'))"
    assert installed(yard, ask) == second["artifact"]["name"].split("-")[1]


@pytest.mark.long
def test_one_that_does_not_compile_or_import_leaves_the_working_one_installed(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    good, other = make(tmp_path, "good"), make(tmp_path, "other")
    profile(yard, tree, good, other)
    yard.must("build")
    answer = "import good; print(good.answer())"
    for broken, told in (("nonsense", "error: "), ("missing()", "undefined symbol: missing")):
        make(tmp_path, "good", f"({broken})" if broken == "nonsense" else broken)
        make(tmp_path, "other", str(len(broken)))
        code, out = yard.doit("build")
        assert code == 1
        assert told in out
        assert "Traceback" not in out
        assert installed(yard, answer) == "42"
        assert installed(yard, "import other; print(other.answer())") == str(len(broken))
        assert not (yard.build / "extensions" / "good.json").exists()
    make(tmp_path, "good", "43")
    out = yard.must("build")
    assert installed(yard, answer) == "43"
    assert "extensions:other" not in out


@pytest.mark.long
def test_an_interrupt_while_two_are_at_work_ends_both_and_the_same_command_finishes(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    names = ("one", "two")
    profile(yard, tree, *(make(tmp_path, name) for name in names))
    for name in names:
        (tmp_path / f"{name}.switches" / "slow").touch()
    child = yard.start("build")
    for name in names[:1]:
        code, out = kill_when(child, tmp_path / f"{name}.switches" / "reached", signal.SIGINT)
    assert code == 130
    assert "Interrupted" in out
    assert "Failed" not in out
    assert not processes_with(str(yard.folder))
    for name in names:
        (tmp_path / f"{name}.switches" / "slow").unlink()
    yard.must("build")
    assert installed(yard, "import one, two; print(one.answer() + two.answer())") == "84"


def test_what_an_extension_asks_for_is_installed_and_torch_is_never_replaced(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    extension = make(tmp_path, "toy")
    setup = tmp_path / "toy" / "setup.py"
    text = setup.read_text(encoding="utf-8")
    asked = 'install_requires=["torch<1", "pluggy"], '
    text = f"import iniconfig\n{text}".replace("setup(", f"setup({asked}")
    setup.write_text(text, encoding="utf-8")
    profile(yard, tree, {**extension, "requires": ["iniconfig"]})
    yard.must("build")
    torch = yard.manifest("wheel")["version"]
    assert installed(yard, "import pluggy, torch; print(torch.__version__)") == torch


@pytest.mark.long
def test_what_two_builds_require_may_contradict_itself_and_stays_theirs(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    asked = []
    for name, version in (("one", "1.1.1"), ("two", "2.0.0")):
        extension = make(tmp_path, name)
        setup = tmp_path / name / "setup.py"
        wants = (
            f"from importlib.metadata import version\nassert version('iniconfig') == '{version}'\n"
        )
        setup.write_text(wants + setup.read_text(encoding="utf-8"), encoding="utf-8")
        asked.append({**extension, "requires": [f"iniconfig=={version}"]})
    profile(yard, tree, *asked)
    yard.must("build")
    assert installed(yard, "import importlib.util as u; print(u.find_spec('iniconfig'))") == "None"


@pytest.mark.long
def test_two_that_are_at_work_at_once_tell_whose_each_line_is(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    profile(yard, tree, *(make(tmp_path, name) for name in ("one", "two")))
    out = yard.must("build")
    began = [line.split()[1] for line in out.splitlines() if line.lstrip().startswith("Building")]
    ended = [line.split()[1] for line in out.splitlines() if line.lstrip().startswith("Built")]
    assert sorted(began) == sorted(ended) == ["extensions:one", "extensions:two"]
    records = [yard.build / "extensions" / f"{name}.record.json" for name in ("one", "two")]
    assert all(json.loads(path.read_text(encoding="utf-8"))["seconds"] > 0 for path in records)
