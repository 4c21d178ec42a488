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

from tasks.core.model import Command
from tasks.stages.compile.build_backends import BACKENDS, BuildSpec, detect_backend
from tasks.system import environments, package_installer
from tasks.system.network import archive
from tests.support.ninjalog import made, products

pytestmark = pytest.mark.real

PROJECT = "spglib==2.8.0"
NEEDED = ("build", "cmake", "ninja", "numpy", "pybind11", "scikit-build-core", "setuptools-scm")
SCIKIT = BACKENDS["scikit_build_core"]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> BuildSpec:
    """The unpacked project, a build folder of ours, and the tools."""
    folder = tmp_path_factory.mktemp("scikit")
    uv, log = environments.find_uv(), folder / "log"
    environments.create_venv(folder / "venv", sys.executable, uv, log)
    python = str(environments.find_venv_python(folder / "venv"))
    package_installer.PackageInstaller(python, uv, log).install_requirements(NEEDED)
    landing = folder / "landing"
    sdist = package_installer.download_distribution(
        package_installer.DownloadRequest(python, PROJECT, "", landing, log, sdist=True)
    )
    archive.extract_archive(sdist, folder / "tree")
    scripts = environments.find_scripts_folder(folder / "venv")
    return BuildSpec(
        tree=folder / "tree",
        build_root=folder / "ours",
        python=python,
        cmake=str(scripts / "cmake"),
        ninja=str(scripts / "ninja"),
        type="Release",
        definitions={},
        target=None,
        jobs=2,
    )


def run(work: BuildSpec, step: Command) -> str:
    path = f"{Path(work.cmake).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, **step.env, "PATH": path}
    argv = [part.replace("{dest}", str(Path(work.build_root) / "out")) for part in step.argv]
    done = subprocess.run(argv, cwd=work.tree, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compiled(work: BuildSpec) -> set[str]:
    """Names of the objects and libraries that Ninja made for it.

    Not of what describes the version, which this project, as PyTorch's tree, makes each time.
    """
    if not (Path(SCIKIT.find_build_folder(work)) / "build.ninja").exists():
        run(work, SCIKIT.create_configure_step(work))
        assert not products({}, made(SCIKIT.find_build_folder(work)))
    before = made(SCIKIT.find_build_folder(work))
    run(work, SCIKIT.create_compile_step(work))
    return products(before, made(SCIKIT.find_build_folder(work)))


def test_the_project_is_known_by_its_backend(work: BuildSpec) -> None:
    text = (Path(work.tree) / "pyproject.toml").read_text(encoding="utf-8")
    assert detect_backend(text) == "scikit_build_core"


def test_the_second_build_in_the_kept_folder_compiles_nothing(work: BuildSpec) -> None:
    first = compiled(work)
    assert {"cell.c.o", "spacegroup.c.o"} < first
    assert not compiled(work)


def test_a_changed_source_makes_its_object_and_what_links_it(work: BuildSpec) -> None:
    compiled(work)
    with (Path(work.tree) / "src" / "cell.c").open("a", encoding="utf-8") as stream:
        stream.write("\nint added_by_hand = 1;\n")
    again = compiled(work)
    assert {name for name in again if name.endswith(".o")} == {"cell.c.o"}
    assert {name for name in again if not name.endswith(".o")}


def test_the_wheel_comes_out_of_the_same_folder_and_holds_the_libraries(work: BuildSpec) -> None:
    compiled(work)
    before = made(SCIKIT.find_build_folder(work))
    run(work, SCIKIT.create_wheel_step(work))
    assert not products(before, made(SCIKIT.find_build_folder(work)))
    assert libraries(Path(work.build_root) / "out")
    assert not libraries(Path(work.build_root) / "scratch")


def test_one_target_alone_can_be_compiled(work: BuildSpec) -> None:
    alone = dataclasses.replace(
        work, build_root=Path(work.build_root) / "alone", target="Spglib_symspg"
    )
    made_here = compiled(alone)
    assert "cell.c.o" in made_here
    assert not {name for name in made_here if name.endswith(".cpp.o")}


def libraries(folder: Path) -> list[str]:
    """Those of the one wheel in that folder."""
    (wheel,) = folder.glob("spglib-2.8.0-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        return [name for name in packed.namelist() if ".so" in name]
