"""doit validate as a person meets it: before the build, after it, and when something moved."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.integration.conftest import source_profile
from tests.support.yard import Yard

pytestmark = pytest.mark.integration


def profile(tree: Path, extension: Path | None = None, **more: object) -> dict[str, object]:
    """What can be asked of the toy torch, which computes nothing."""
    only = {"only": ["import", "version", "extensions"]}
    return {**source_profile(tree, extension), "validation": only, **more}


def states(yard: Yard) -> dict[str, str]:
    return {check["name"]: check["status"] for check in yard.manifest("validate")["checks"]}


def test_validate_looks_and_builds_nothing(yard: Yard, tree: Path, extension: Path) -> None:
    yard.profile(**profile(tree))
    code, out = yard.doit("validate")
    assert code == 1
    assert "profile trial has no torch yet" in out
    assert "→ run: doit build profile=trial" in out
    assert not yard.build.exists()

    yard.must("build")
    out = yard.must("validate")
    assert "warning" not in out
    assert states(yard)["import"] == "passed"

    yard.profile(**profile(tree, extension))
    code, out = yard.doit("validate")
    assert code == 1
    assert "not built yet" in out
    assert {name: state for name, state in states(yard).items() if state == "failed"} == {
        "toy: import": "failed"
    }
    assert states(yard)["import"] == "passed"
    assert not (yard.build / "extensions").exists()

    yard.must("build")
    yard.profile(**profile(tree, extension, build={"type": "Debug"}))
    out = yard.must("validate")
    told = out.index("warning  the build does not match the current settings (")
    assert told < out.index("passed")
    assert "now Debug, was Release" in out
    assert "doit build profile=trial" in out

    root = ET.parse(yard.build / "validate.xml").getroot()
    assert {case.get("name") for case in root.iter("testcase")} == set(states(yard))
    assert root.findtext("testsuite/system-err", "").startswith(
        "the build does not match the current settings"
    )

    yard.must("clean", "validate")
    assert not [*yard.build.glob("validate.xml"), *yard.build.glob("validate.json")]


def test_another_torch_in_the_environment_is_told_and_a_build_puts_it_back(
    yard: Yard, tree: Path, extension: Path
) -> None:
    """What somebody's pip does: another version in its place; then a broken extension."""
    yard.profile(**profile(tree, extension))
    yard.must("build")
    folder = Path(yard.manifest("wheel")["folder"])
    version = folder / "version.py"
    version.write_text(version.read_text(encoding="utf-8").replace("2.6.0", "2.5.0"), "utf-8")
    code, out = yard.doit("validate")
    assert code == 1
    assert "was imported, not torch 2.6.0" in " ".join(out.split()), out
    yard.must("build")
    yard.must("validate")

    (library,) = yard.manifest("extensions:toy")["libraries"]
    broken(Path(library))
    code, out = yard.doit("validate")
    assert code == 1
    assert "this extension was built against another torch" in out
    (failed,) = [one for one in yard.manifest("validate")["checks"] if one["status"] == "failed"]
    assert (failed["name"], failed["cause"]) == ("toy: import", "abi-undefined-symbol")
    yard.must("clean", "extensions")
    yard.must("build")
    yard.must("validate")
    assert json.loads((yard.build / "validate.json").read_text(encoding="utf-8"))["schema"] == 2


def broken(library: Path) -> None:
    """Another library in its place, which calls what no torch has."""
    code = library.with_suffix(".c")
    code.write_text(
        "int _ZN2at4_ops3add4callEv(void);\n"
        "void *PyInit__C(void) { return _ZN2at4_ops3add4callEv() ? 0 : 0; }\n",
        encoding="utf-8",
    )
    library.unlink()
    argv = ["cc", "-shared", "-fPIC", "-o", str(library), str(code)]
    subprocess.run(argv, check=True)
    code.unlink()
