"""The scikit-build-core adapter on a project of that backend from the index, which like PyTorch's
tree installs its libraries into its Python package.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tasks.stages.compile.backends import BACKENDS, detect
from tasks.stages.compile.work import Step, Work
from tasks.system.network import archive
from tasks.system.python import environments, packages
from tests.support.ninjalog import made, products

pytestmark = pytest.mark.real

PROJECT = "spglib==2.8.0"
NEEDED = ("build", "cmake", "ninja", "numpy", "pybind11", "scikit-build-core", "setuptools-scm")
SCIKIT = BACKENDS["scikit_build_core"]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    """The unpacked project, a build folder of ours, and the tools."""
    folder = tmp_path_factory.mktemp("scikit")
    uv, log = environments.find_uv(), folder / "log"
    environments.create_venv(folder / "venv", sys.executable, uv, log)
    python = str(environments.python_of(folder / "venv"))
    packages.Packages(python, uv, log).install(NEEDED)
    landing = folder / "landing"
    sdist = packages.download(packages.Download(python, PROJECT, "", landing, log, sdist=True))
    archive.extract(sdist, folder / "tree")
    scripts = environments.scripts_folder(folder / "venv")
    return Work(
        tree=folder / "tree",
        ours=folder / "ours",
        python=python,
        cmake=str(scripts / "cmake"),
        ninja=str(scripts / "ninja"),
        type="Release",
        definitions={},
        target=None,
        jobs=2,
    )


def run(work: Work, step: Step) -> str:
    path = f"{Path(work.cmake).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, **step.env, "PATH": path}
    argv = [part.replace("{dest}", str(Path(work.ours) / "out")) for part in step.argv]
    done = subprocess.run(argv, cwd=work.tree, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compiled(work: Work) -> set[str]:
    """Names of the objects and libraries that Ninja made for it.

    Not of what describes the version, which this project, as PyTorch's tree, makes each time.
    """
    if not (Path(SCIKIT.folder(work)) / "build.ninja").exists():
        run(work, SCIKIT.configure_step(work))
        assert not products({}, made(SCIKIT.folder(work)))
    before = made(SCIKIT.folder(work))
    run(work, SCIKIT.compile_step(work))
    return products(before, made(SCIKIT.folder(work)))


def test_the_project_is_known_by_its_backend(work: Work) -> None:
    text = (Path(work.tree) / "pyproject.toml").read_text(encoding="utf-8")
    assert detect(text) == "scikit_build_core"


def test_the_second_build_in_the_kept_folder_compiles_nothing(work: Work) -> None:
    first = compiled(work)
    assert {"cell.c.o", "spacegroup.c.o"} < first
    assert not compiled(work)


def test_a_changed_source_makes_its_object_and_what_links_it(work: Work) -> None:
    compiled(work)
    with (Path(work.tree) / "src" / "cell.c").open("a", encoding="utf-8") as stream:
        stream.write("\nint added_by_hand = 1;\n")
    again = compiled(work)
    assert {name for name in again if name.endswith(".o")} == {"cell.c.o"}
    assert {name for name in again if not name.endswith(".o")}


def test_the_wheel_comes_out_of_the_same_folder_and_holds_the_libraries(work: Work) -> None:
    compiled(work)
    before = made(SCIKIT.folder(work))
    run(work, SCIKIT.wheel_command(work))
    assert not products(before, made(SCIKIT.folder(work)))
    assert libraries(Path(work.ours) / "out")
    assert not libraries(Path(work.ours) / "scratch")


def test_one_target_alone_can_be_compiled(work: Work) -> None:
    alone = dataclasses.replace(work, ours=Path(work.ours) / "alone", target="Spglib_symspg")
    made_here = compiled(alone)
    assert "cell.c.o" in made_here
    assert not {name for name in made_here if name.endswith(".cpp.o")}


def libraries(folder: Path) -> list[str]:
    """Those of the one wheel in that folder."""
    (wheel,) = folder.glob("spglib-2.8.0-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        return [name for name in packed.namelist() if ".so" in name]
