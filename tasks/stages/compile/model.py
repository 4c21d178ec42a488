"""The job and the manifest of the `compile` stage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from tasks.core.model import Layout
from tasks.settings.compile_workers import DistributionSettings

BackendName = Literal["setup_py", "scikit_build_core", "cmake"]
DESTINATION = "{dest}"  # placeholder for the folder of the wheel or the libraries
BUILD_OPTION = "--build-option"  # the PEP 517 config setting for options of bdist_wheel
ASSEMBLY_FOLDER = "bdist.torchyard"  # in setup.py's build folder, for bdist_wheel


@dataclass(frozen=True)
class CompileJob:
    """The inputs of the `compile` stage.

    `jobs` is the maximum number of parallel compilers; `None` derives it from cores and memory.
    With `jobs_exact`, exactly `jobs` compilers run regardless of memory. `build` is the build
    folder, except for setup.py, which uses ./build in the tree. `runs` is the build history.
    `cache_remote` is the URL of the remote cache, if any.
    """

    layout: Layout
    backend: Literal["auto", "setup_py", "scikit_build_core", "cmake"]
    type: str
    target: str | None
    jobs: int | None
    build: PurePath
    runs: PurePath
    log: PurePath
    cache_remote: str = ""
    workers: DistributionSettings = field(default_factory=DistributionSettings)
    jobs_exact: bool = False


@dataclass(frozen=True)
class CompileResult:
    """The manifest compile.json.

    `build` is the folder that CMake worked in, `products` a digest of all libraries. `wheel` is the
    command that makes the wheel or, for the backend `cmake`, an install prefix. The command runs in
    `tree`, with `variables` added to the environment of env.json.
    """

    backend: BackendName
    tree: str
    build: str
    target: str | None
    products: str
    wheel: tuple[str, ...]
    variables: Mapping[str, str]

    def build_wheel_command(self, dest: PurePath, *, plain: bool = False) -> tuple[str, ...]:
        """Return the command that makes the wheel, or the install prefix, in `dest`.

        With `plain`, the command omits the options for bdist_wheel, which some trees reject.
        """
        arguments = (p for p in self.wheel if not (plain and p.startswith(f"-C{BUILD_OPTION}")))
        return tuple(part.replace(DESTINATION, str(dest)) for part in arguments)
