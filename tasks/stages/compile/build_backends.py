"""The commands with which each build backend configures, compiles and packs PyTorch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from tasks.core.model import Command
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

    `definitions` are the CMake cache entries that are passed as -D. `target` is the CMake target;
    `None` means everything. `jobs` is the number of parallel compilers; `None` means a jobserver
    decides.
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


class CMakeBackend:
    """The backend `cmake`, which builds only the C++ libraries, and the base of the others.

    Each command runs in the source tree.
    """

    everything = "all"  # the CMake target that builds everything

    def find_build_folder(self, work: BuildSpec) -> PurePath:
        """Return the CMake build folder."""
        return work.build_root / "cmake"

    def list_output_folders(self, work: BuildSpec) -> tuple[PurePath, ...]:
        """Return the folders of the compiled libraries; a folder may not exist yet."""
        return (self.find_build_folder(work),)

    def create_configure_step(self, work: BuildSpec) -> Command:
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
        return Command(argv, {}, "configure PyTorch")

    def create_compile_step(self, work: BuildSpec) -> Command:
        """Return the command that compiles what is out of date."""
        folder, target = str(self.find_build_folder(work)), work.target or self.everything
        variables = build_job_variables(work, "CMAKE_BUILD_PARALLEL_LEVEL")
        argv = (work.cmake, "--build", folder, "--target", target)
        return Command(argv, variables, f"compile {work.target or 'PyTorch'}")

    def create_wheel_step(self, work: BuildSpec) -> Command:
        """Return the command that installs the libraries (this backend has no wheel)."""
        folder = str(self.find_build_folder(work))
        argv = (work.cmake, "--install", folder, "--prefix", DESTINATION)
        return Command(argv, {}, "install the libraries")


class SetupPyBackend(CMakeBackend):
    """The setup.py backend, for PyTorch up to 2.13.

    CMake builds in ./build of the tree and installs to ./torch. The commands follow PyTorch's file
    tools/setup_helpers/cmake.py.
    """

    everything = "install"

    def find_build_folder(self, work: BuildSpec) -> PurePath:
        """Return `build` in the tree, the only build folder that setup.py supports."""
        return work.tree / "build"

    def list_output_folders(self, work: BuildSpec) -> tuple[PurePath, ...]:
        """Return CMake's library folder and the library folder of the package `torch`."""
        return (work.tree / "build" / "lib", work.tree / "torch" / "lib")

    def create_configure_step(self, work: BuildSpec) -> Command:
        """Return setup.py's configure command, which passes paths of Python and NumPy to CMake."""
        argv = (work.python, "setup.py", "build", "--cmake-only")
        variables = {"CMAKE_BUILD_TYPE": work.type, **build_job_variables(work, "MAX_JOBS")}
        return Command(argv, variables, "configure PyTorch")

    def create_wheel_step(self, work: BuildSpec) -> Command:
        """Return the command that makes the wheel from the compiled files in ./build."""
        argv = build_wheel_argv(work, *_QUICK_OPTIONS)
        return replace(self.create_configure_step(work), argv=argv, step_name="make the wheel")


class ScikitBuildBackend(CMakeBackend):
    """The scikit-build-core backend, for PyTorch 2.14 and later, with a persistent build folder.

    scikit-build-core configures only while it makes a wheel. The configure step therefore makes
    a wheel, which is discarded.
    """

    def create_configure_step(self, work: BuildSpec) -> Command:
        """Return the command that configures without compiling."""
        config, dest = ("build.targets=help", "install.components=nothing"), work.build_root
        return self._create_build_step(work, config, str(dest / "scratch"), "configure PyTorch")

    def create_wheel_step(self, work: BuildSpec) -> Command:
        """Return the command that makes the wheel from the compiled build folder."""
        return self._create_build_step(work, (), DESTINATION, "make the wheel")

    def _create_build_step(
        self, work: BuildSpec, config: tuple[str, ...], dest: str, step_name: str
    ) -> Command:
        folder = f"build-dir={self.find_build_folder(work)}"
        argv = build_wheel_argv(work, folder, f"cmake.build-type={work.type}", *config, dest=dest)
        variables = build_job_variables(work, "MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
        return Command(argv, variables, step_name)


BACKENDS: Mapping[BackendName, CMakeBackend] = {
    "setup_py": SetupPyBackend(),
    "scikit_build_core": ScikitBuildBackend(),
    "cmake": CMakeBackend(),
}


def detect_backend(pyproject: str) -> BackendName:
    """Return the build backend of a tree from the text of its pyproject.toml (may be empty)."""
    return "scikit_build_core" if "scikit_build_core.build" in pyproject else "setup_py"


def create_reconfigure_step(
    work: BuildSpec, folder: PurePath, arguments: tuple[str, ...]
) -> Command:
    """Return the command that runs CMake again, with `arguments`, in a configured folder."""
    return Command((work.cmake, *arguments, str(folder)), {}, "reconfigure PyTorch")


def build_job_variables(work: BuildSpec, *names: str) -> dict[str, str]:
    """Return `names` with the job count as value, or {} if a jobserver limits the jobs."""
    return dict.fromkeys(names, str(work.jobs)) if work.jobs else {}


def build_wheel_argv(work: BuildSpec, *config: str, dest: str = DESTINATION) -> tuple[str, ...]:
    """Return the command that makes a wheel. `config` has settings for the tree's build backend.

    The wheel is made in the tree, so that compiled files are reused.
    """
    options = ("--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", dest)
    return (work.python, "-m", "build", *options, *(f"-C{entry}" for entry in config), ".")
