"""Two builds of the same inputs in different folders: each wheel carries what it was made from, and
what the two differ in is measured.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import commit, git, installed, source_profile
from tests.support.sharedlibrary import linux
from tests.support.toytree import make_tree
from tests.support.yard import Yard

pytestmark = pytest.mark.integration

# As torch's cpp_extension: absolute sources; and the path of the source is in what is compiled
_SETUP = """
from pathlib import Path
from setuptools import Extension, setup
source = Path(__file__).absolute().parent / "toyext" / "toy.cpp"
setup(name="toyext", version="1.0", packages=["toyext"],
      ext_modules=[Extension("toyext._C", [str(source)])])
"""
_SOURCE = """
#include <Python.h>
static PyObject *where(PyObject *, PyObject *) { return PyUnicode_FromString(__FILE__ __DATE__); }
static PyMethodDef methods[] = {{"where", where, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", "", -1, methods};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
"""


@dataclass(frozen=True)
class Twin:
    """A checkout with its tree and extension, all in a folder of its own, and built."""

    yard: Yard
    tree: Path

    @property
    def wheels(self) -> dict[str, Path]:
        """Distribution → its wheel in the wheelhouse."""
        found = (self.yard.folder / "wheelhouse").glob("*.whl")
        return {path.name.partition("-")[0]: path for path in found}


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Twin, Twin]]:
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "the-other-one"))
    tree = make_tree(first / "pytorch")
    git(tree, "init", "-q", "-b", "main")
    commit(tree, "first")
    git(first, "clone", "-q", str(tree), str(second / "elsewhere"))
    yield _built(first, tree), _built(second, second / "elsewhere")
    for folder in (first, second):
        shutil.rmtree(folder)


def _built(folder: Path, tree: Path) -> Twin:
    extension = folder / "extension"
    (extension / "toyext").mkdir(parents=True)
    (extension / "setup.py").write_text(_SETUP, encoding="utf-8")
    (extension / "toyext" / "__init__.py").write_text("from toyext._C import where\n", "utf-8")
    (extension / "toyext" / "toy.cpp").write_text(_SOURCE, encoding="utf-8")
    yard = Yard(folder / "checkout")
    yard.profile(**source_profile(tree, extension), build={"env": {"SOME_FOLDER": str(tree)}})
    yard.must("build")
    return Twin(yard, tree)


def members(wheel: Path) -> dict[str, tuple[Any, ...]]:
    """Each member with all that an archive says of it, in their order."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            one.filename: (one.date_time, one.external_attr, one.compress_size, archive.read(one))
            for one in archive.infolist()
        }


def sbom(wheel: Path) -> dict[str, Any]:
    (text,) = (one[-1] for name, one in members(wheel).items() if name.endswith("yard.cdx.json"))
    found: dict[str, Any] = json.loads(text)
    return found


def statement(wheel: Path) -> dict[str, Any]:
    beside = wheel.with_name(f"{wheel.name}.provenance.json")
    found: dict[str, Any] = json.loads(beside.read_text(encoding="utf-8"))
    return found


@pytest.mark.long
def test_each_wheel_tells_what_it_was_made_from_and_nothing_of_this_machine(
    twins: tuple[Twin, Twin],
) -> None:
    one, _ = twins
    parts = {part["bom-ref"]: part for part in sbom(one.wheels["torch"])["components"]}
    assert parts["source"]["version"] == git(one.tree, "rev-parse", "HEAD")
    torch = {part["bom-ref"]: part for part in sbom(one.wheels["toyext"])["components"]}["torch"]
    surface = one.yard.manifest("extensions:toy")["surface"]
    assert torch["properties"] == [{"name": "torchyard:surface", "value": surface}]
    for wheel in one.wheels.values():
        for text in (json.dumps(sbom(wheel)), json.dumps(statement(wheel))):
            assert str(one.tree.parent) not in text
            assert str(Path.home()) not in text
    asked = statement(one.wheels["torch"])["predicate"]["buildDefinition"]["externalParameters"]
    assert asked["settings"]["source"]["path"] == "{source}"


def different(twins: tuple[Twin, Twin], name: str) -> list[str]:
    """The members of a wheel that are not the same, RECORD aside, which lists the others."""
    one, other = (members(twin.wheels[name]) for twin in twins)
    assert list(one) == list(other)
    assert [info[:2] for info in one.values()] == [info[:2] for info in other.values()]
    return [name for name in one if one[name] != other[name] and not name.endswith("/RECORD")]


@linux
@pytest.mark.long
def test_an_extension_comes_out_as_the_same_bytes_in_any_folder(twins: tuple[Twin, Twin]) -> None:
    assert different(twins, "toyext") == []
    one, other = (twin.wheels["toyext"] for twin in twins)
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()
    where = installed(twins[0].yard, "import toyext; print(toyext.where())")
    assert where == "./extensions/toy/tree/toyext/toy.cppJan  1 1980"


@linux
@pytest.mark.long
def test_torch_comes_out_as_the_same_bytes_in_any_folder(twins: tuple[Twin, Twin]) -> None:
    assert different(twins, "torch") == []  # CMAKE_BUILD_RPATH_USE_ORIGIN; see docs/provenance.md
    one, other = (twin.wheels["torch"] for twin in twins)
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()
    for name in ("torch", "toyext"):
        definitions = [statement(t.wheels[name])["predicate"]["buildDefinition"] for t in twins]
        assert definitions[0] == definitions[1]


def test_a_rebuild_of_the_same_changes_no_byte(twins: tuple[Twin, Twin]) -> None:
    yard = twins[0].yard
    before = {path: path.read_bytes() for path in (yard.folder / "wheelhouse").iterdir()}
    assert "Up to date" in yard.must("build")
    yard.must("clean", "wheel")
    assert "the same content" in yard.must("wheel")
    assert {path: path.read_bytes() for path in (yard.folder / "wheelhouse").iterdir()} == before


def test_verify_holds_wheels_against_all_that_is_recorded(twins: tuple[Twin, Twin]) -> None:
    yard, made = twins[0].yard, twins[0].wheels
    out = yard.must("verify", *map(str, made.values()))
    assert out.count("this profile built the wheel") == len(made)
    assert "failed" not in out
    cut = yard.folder / made["toyext"].name
    cut.write_bytes(made["toyext"].read_bytes()[:-40])
    code, out = yard.doit("verify", "--wheel", str(cut))
    assert code == 1
    assert "failed   RECORD" in out
    assert "Traceback" not in out
