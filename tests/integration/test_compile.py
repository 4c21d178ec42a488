"""compile on the toy tree with a real CMake, Ninja and compiler, through the actions."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

from tasks.choice import Choice, ToolkitChoice
from tasks.digest import canonical
from tasks.effects import environments, files, manifests, packages
from tasks.errors import BuildError, CommandFailedError
from tasks.model import Interpreter, Layout
from tasks.settings.schema import Settings
from tasks.stages.compile import action
from tasks.stages.compile.job import CompileJob
from tasks.stages.compile.plan import plan
from tasks.stages.deps.job import Deps, Program
from tasks.stages.env.job import Environment
from tasks.stages.source.job import SourceTree
from tests.toytree import Backend, make_tree

pytestmark = pytest.mark.integration

NEEDED = ("build", "cmake", "ninja", "scikit-build-core", "setuptools", "wheel")


@pytest.fixture(scope="session")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tools")
    uv, log = environments.find_uv(), folder / "log"
    environments.create_venv(folder / "venv", sys.executable, uv, log)
    python = environments.python_of(folder / "venv")
    packages.Packages(str(python), uv, log).install(NEEDED)
    return folder / "venv"


@dataclasses.dataclass(frozen=True)
class Yard:
    """A build folder with the manifests that compile reads."""

    layout: Layout
    tree: Path
    venv: Path

    def job(self, **build: object) -> CompileJob:
        choice = Choice(
            system="linux",
            strategy="source",
            strategy_why="",
            targets=(),
            targets_why="",
            ptx=False,
            torch="2.6.0",
            cuda=None,
            toolkit=ToolkitChoice("none"),
            python=Interpreter(sys.executable, "3.12.0"),
        )
        settings = Settings.model_validate({"build": {"jobs": 2, **build}})
        self._publish(settings)
        job = plan(settings, self.layout, choice).job
        assert isinstance(job, CompileJob)
        return job

    def _publish(self, settings: Settings) -> None:
        scripts = environments.scripts_folder(self.venv)
        flags = {name: str(int(bool(value))) for name, value in settings.build.flags.items()}
        environment = Environment(
            set={**flags, "CMAKE_BUILD_TYPE": settings.build.type},
            prepend={"PATH": (str(scripts),)},
            unset=(),
            separator=os.pathsep,
        )
        source = SourceTree(str(self.tree), "path", "", {}, "", "")
        for name, value in (("source", source), ("deps", deps(self.venv)), ("env", environment)):
            manifests.publish(self.layout.manifest(name), value)


def deps(venv: Path) -> Deps:
    suffix = ".exe" if sys.platform == "win32" else ""
    scripts = environments.scripts_folder(venv)
    found = {name: Program(str(scripts / f"{name}{suffix}"), "") for name in ("cmake", "ninja")}
    return Deps(
        python=str(environments.python_of(venv)),
        python_version="3.12.0",
        identity="1",
        overlay=None,
        scripts=str(scripts),
        toolkit=None,
        cuobjdump=None,
        cc=Program("", ""),
        cxx=Program("", ""),
        git=None,
        **found,
    )


@pytest.fixture
def yard(tmp_path: Path, venv: Path) -> Yard:
    return make_yard(tmp_path, venv, "setup_py")


def make_yard(tmp_path: Path, venv: Path, backend: Backend) -> Yard:
    layout = Layout(tmp_path, "p", tmp_path / "wheelhouse")
    files.own(layout.build)
    return Yard(layout, make_tree(tmp_path / "pytorch", backend=backend), venv)


def compiled(job: CompileJob) -> tuple[str, list[str]]:
    """The manifest's bytes, and the sources that were compiled for it."""
    folder = _cmake_folder(job)
    before = steps(folder)
    (outputs,) = action.run(job)
    return canonical(outputs), steps(folder)[len(before) :]


def _cmake_folder(job: CompileJob) -> Path:
    tree = Path(manifests.read(job.source, SourceTree).tree)
    is_setup_py = (tree / "setup.py").exists() and job.backend == "auto"
    return tree / "build" if is_setup_py else Path(job.build) / "cmake"


def steps(folder: PurePath) -> list[str]:
    """Sources that Ninja compiled, in the order in which it logged them."""
    log = Path(folder) / ".ninja_log"
    if not log.exists():
        return []
    outputs = [line.split("\t")[3] for line in log.read_text(encoding="utf-8").splitlines()[1:]]
    return [Path(name).stem for name in outputs if name.endswith((".cpp.o", ".cpp.obj"))]


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("backend", ["setup_py", "scikit_build_core"])
def test_second_run_makes_nothing_and_a_changed_file_makes_its_object(
    tmp_path: Path, venv: Path, backend: Backend
) -> None:
    yard = make_yard(tmp_path, venv, backend)
    first, made = compiled(yard.job())
    assert sorted(made) == ["add.cpp", "core.cpp", "text.cpp"]
    assert compiled(yard.job()) == (first, [])
    change(yard.tree / "c10" / "text.cpp", ".size()", ".length() + 1")
    second, again = compiled(yard.job())
    assert second != first
    assert again == ["text.cpp"]


def test_docs_change_leaves_the_same_bytes(yard: Yard) -> None:
    first, _ = compiled(yard.job())
    change(yard.tree / "docs" / "README.md", "Nothing", "Still nothing")
    assert compiled(yard.job()) == (first, [])


@pytest.mark.parametrize("backend", ["setup_py", "scikit_build_core"])
def test_one_target_compiles_nothing_else(tmp_path: Path, venv: Path, backend: Backend) -> None:
    yard = make_yard(tmp_path, venv, backend)
    first, made = compiled(yard.job(target="c10"))
    assert sorted(made) == ["core.cpp", "text.cpp"]
    assert compiled(yard.job(target="c10")) == (first, [])


@pytest.mark.parametrize("backend", ["setup_py", "scikit_build_core"])
def test_wheel_comes_out_of_what_was_compiled(tmp_path: Path, venv: Path, backend: Backend) -> None:
    yard = make_yard(tmp_path, venv, backend)
    job = yard.job()
    (outputs,) = action.run(job)
    before = steps(Path(outputs.build))
    scripts = environments.scripts_folder(venv)
    env = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    env["PYTORCH_BUILD_VERSION"] = "2.6.0+cpu.g1234567"
    argv = outputs.wheel_argv(tmp_path / "out")
    subprocess.run(argv, cwd=outputs.tree, env=env, check=True, capture_output=True)
    (wheel,) = (tmp_path / "out").iterdir()
    assert wheel.name.startswith("torch-2.6.0+cpu.g1234567-cp")
    assert steps(Path(outputs.build)) == before


def test_libraries_alone_are_found_by_find_package(yard: Yard, tmp_path: Path) -> None:
    (outputs,) = action.run(yard.job(backend="cmake", type="Debug"))
    subprocess.run(outputs.wheel_argv(tmp_path / "libtorch"), check=True, capture_output=True)
    program = tmp_path / "program"
    program.mkdir()
    (program / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(p CXX)\nfind_package(Torch REQUIRED)\n"
        "add_executable(p p.cpp)\ntarget_link_libraries(p torch)\n",
        encoding="utf-8",
    )
    (program / "p.cpp").write_text(
        "#include <aten/add.h>\nint main() { return torch_add(1, 1) == 2 ? 0 : 1; }\n",
        encoding="utf-8",
    )
    cmake = deps(yard.venv).cmake.path
    prefix = f"-DCMAKE_PREFIX_PATH={tmp_path / 'libtorch'}"
    for argv in (
        ("-S", str(program), "-B", str(program / "b"), prefix),
        ("--build", program / "b"),
    ):
        subprocess.run([cmake, *argv], check=True, capture_output=True)
    if sys.platform != "win32":  # where the libraries would have to be on PATH
        subprocess.run([program / "b" / "p"], check=True)


def test_changed_switch_is_refused_and_the_build_is_as_it_was(yard: Yard) -> None:
    first, _ = compiled(yard.job())
    cache = (yard.tree / "build" / "CMakeCache.txt").read_bytes()
    with pytest.raises(BuildError, match=r"build\.flags\.USE_LOUD"):
        action.run(yard.job(flags={"USE_LOUD": True}))
    assert (yard.tree / "build" / "CMakeCache.txt").read_bytes() == cache
    assert compiled(yard.job()) == (first, [])


def test_remedy_of_a_refused_switch_works(yard: Yard) -> None:
    first, _ = compiled(yard.job(flags={"USE_LOUD": False}))
    with pytest.raises(BuildError):
        action.run(yard.job(flags={"USE_LOUD": True}))
    shutil.rmtree(yard.tree / "build")
    second, _ = compiled(yard.job(flags={"USE_LOUD": True}))
    assert second != first


def test_scikit_takes_a_changed_switch(tmp_path: Path, venv: Path) -> None:
    yard = make_yard(tmp_path, venv, "scikit_build_core")
    compiled(yard.job(flags={"USE_LOUD": False}))
    _, made = compiled(yard.job(flags={"USE_LOUD": True}))
    assert "core.cpp" in made


def test_code_that_does_not_compile_shows_its_first_error(yard: Yard) -> None:
    change(yard.tree / "c10" / "core.cpp", "return 42;", "return nonsense;")
    with pytest.raises(CommandFailedError, match="nonsense") as caught:
        action.run(yard.job())
    assert "compile.log:" in caught.value.where
