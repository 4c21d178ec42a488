"""Configure, compile and make the wheel: the commands of each PyTorch build backend."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tasks.stages.compile.build_folder_decision import format_cmake_paths
from tasks.stages.compile.model import ASSEMBLY_FOLDER, BUILD_OPTION, DESTINATION, BackendName

# setup.py: a wheel without compression, assembled in the folder where the wheel stage has already
# put the files. setuptools before 64 ignores these options and makes an ordinary wheel.
_QUICK_OPTIONS = (
    f"{BUILD_OPTION}=--compression=stored",
    f"{BUILD_OPTION}=--bdist-dir=build/{ASSEMBLY_FOLDER}/wheel",
)


@dataclass(frozen=True)
class BuildSpec:
    """The parameters of a PyTorch build. Folders and tools are absolute paths.

    `definitions` are the CMake cache entries that are passed as -D. `target` is the CMake target,
    or None for everything. `jobs` is the number of parallel compilers; None leaves it to a
    jobserver.
    """

    tree: PurePath
    build_root: PurePath
    python: str
    cmake: str
    ninja: str
    type: str
    definitions: Mapping[str, str]
    target: str | None
    jobs: int | None


@dataclass(frozen=True)
class BuildStep:
    """A command of a build, which runs in the source tree with the additional variables `env`."""

    description: str
    argv: tuple[str, ...]
    env: Mapping[str, str]


class CMakeBackend:
    """The backend without Python packaging: CMake makes C++ libraries and an install prefix.

    The subclasses override the methods that differ.
    """

    def find_build_folder(self, work: BuildSpec) -> PurePath:
        """Return the CMake build folder."""
        return work.build_root / "cmake"

    def list_output_folders(self, work: BuildSpec) -> tuple[PurePath, ...]:
        """Return the folders of the compiled libraries; a folder may not exist yet."""
        return (self.find_build_folder(work),)

    def create_configure_step(self, work: BuildSpec) -> BuildStep:
        """Return the command that configures an empty build folder without compiling."""
        folder, python = str(self.find_build_folder(work)), format_cmake_paths(work.python)
        definitions = {"BUILD_SHARED_LIBS": "ON", "BUILD_PYTHON": "OFF", **work.definitions}
        definitions |= {"CMAKE_BUILD_TYPE": work.type, "Python_EXECUTABLE": python}
        definitions.pop("CMAKE_GENERATOR", None)  # given as -G
        argv = (
            *(work.cmake, "-S", str(work.tree), "-B", folder, "-G", "Ninja"),
            f"-DCMAKE_MAKE_PROGRAM={format_cmake_paths(work.ninja)}",
            f"-DPYTHON_EXECUTABLE={python}",
            *(f"-D{name}={value}" for name, value in sorted(definitions.items())),
        )
        return BuildStep("configure PyTorch", argv, {})

    def create_compile_step(self, work: BuildSpec) -> BuildStep:
        """Return the command that compiles everything that Ninja finds out of date."""
        return create_cmake_build(work, self.find_build_folder(work))

    def create_wheel_step(self, work: BuildSpec) -> BuildStep:
        """Return the command that installs the C++ libraries into the prefix `DESTINATION`."""
        folder = str(self.find_build_folder(work))
        argv = (work.cmake, "--install", folder, "--prefix", DESTINATION)
        return BuildStep("install the libraries", argv, {})


class SetupPyBackend(CMakeBackend):
    """The setup.py backend, for PyTorch up to 2.13. CMake builds in ./build, installs to ./torch.

    The commands follow PyTorch's tools/setup_helpers/cmake.py.
    """

    def find_build_folder(self, work: BuildSpec) -> PurePath:
        """Return the folder build in the tree, the only build folder that setup.py supports."""
        return work.tree / "build"

    def list_output_folders(self, work: BuildSpec) -> tuple[PurePath, ...]:
        """Return CMake's library folder, and the library folder of the package torch."""
        return (work.tree / "build" / "lib", work.tree / "torch" / "lib")

    def create_configure_step(self, work: BuildSpec) -> BuildStep:
        """Return the setup.py command, which passes the paths of Python and NumPy to CMake."""
        argv = (work.python, "setup.py", "build", "--cmake-only")
        return BuildStep("configure PyTorch", argv, self._build_variables(work))

    def create_compile_step(self, work: BuildSpec) -> BuildStep:
        """Return the command that builds the requested target, or install like setup.py."""
        return create_cmake_build(work, self.find_build_folder(work), everything="install")

    def create_wheel_step(self, work: BuildSpec) -> BuildStep:
        """Return the command that makes the wheel from the compiled files in ./build."""
        argv = build_wheel_argv(work, *_QUICK_OPTIONS)
        return BuildStep("make the wheel", argv, self._build_variables(work))

    @staticmethod
    def _build_variables(work: BuildSpec) -> dict[str, str]:
        return {"CMAKE_BUILD_TYPE": work.type, **build_job_variables(work, "MAX_JOBS")}


class ScikitBuildBackend(CMakeBackend):
    """The scikit-build-core backend, for PyTorch 2.14 and later, with a persistent build folder.

    scikit-build-core cannot only configure. The configure step makes a wheel without libraries,
    which is discarded.
    """

    def create_configure_step(self, work: BuildSpec) -> BuildStep:
        """Return the command that makes a wheel of CMake's target help; nothing compiles."""
        config = (*self._build_config(work), "build.targets=help", "install.components=nothing")
        argv = build_wheel_argv(work, *config, dest=str(work.build_root / "scratch"))
        return BuildStep("configure PyTorch", argv, self._build_variables(work))

    def create_wheel_step(self, work: BuildSpec) -> BuildStep:
        """Return the command that makes the wheel from the compiled build folder."""
        argv = build_wheel_argv(work, *self._build_config(work))
        return BuildStep("make the wheel", argv, self._build_variables(work))

    def _build_config(self, work: BuildSpec) -> tuple[str, ...]:
        return (f"build-dir={self.find_build_folder(work)}", f"cmake.build-type={work.type}")

    @staticmethod
    def _build_variables(work: BuildSpec) -> dict[str, str]:
        return build_job_variables(work, "MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")


BACKENDS: Mapping[BackendName, CMakeBackend] = {
    "setup_py": SetupPyBackend(),
    "scikit_build_core": ScikitBuildBackend(),
    "cmake": CMakeBackend(),
}


def detect_backend(pyproject: str) -> BackendName:
    """Return the build backend of a tree. `pyproject` is the text of pyproject.toml, or ""."""
    return "scikit_build_core" if "scikit_build_core.build" in pyproject else "setup_py"


def create_cmake_build(work: BuildSpec, folder: PurePath, everything: str = "all") -> BuildStep:
    """Return the `cmake --build` step for `work.target`, or for the target `everything` if None."""
    argv = (work.cmake, "--build", str(folder), "--target", work.target or everything)
    description = f"compile {work.target or 'PyTorch'}"
    return BuildStep(description, argv, build_job_variables(work, "CMAKE_BUILD_PARALLEL_LEVEL"))


def create_reconfigure_step(
    work: BuildSpec, folder: PurePath, arguments: tuple[str, ...]
) -> BuildStep:
    """Return the CMake command that changes cache entries of a configured folder."""
    return BuildStep("reconfigure PyTorch", (work.cmake, *arguments, str(folder)), {})


def build_job_variables(work: BuildSpec, *names: str) -> dict[str, str]:
    """Return the variables `names` with the job count; empty if a jobserver limits the jobs."""
    return dict.fromkeys(names, str(work.jobs)) if work.jobs else {}


def build_wheel_argv(work: BuildSpec, *config: str, dest: str = DESTINATION) -> tuple[str, ...]:
    """Return the command that makes a wheel with the tree's build backend and `config` settings.

    `python -m build` runs the backend in the tree, so the compiled files are reused; pip is not
    needed. The dependency check is skipped, because CMake and Ninja may come from the system.
    """
    options = ("--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", dest)
    return (work.python, "-m", "build", *options, *(f"-C{entry}" for entry in config), ".")
