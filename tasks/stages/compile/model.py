"""What compile is given and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from tasks.settings.compile_workers import DistributionSettings

BackendName = Literal["setup_py", "scikit_build_core", "cmake"]
DESTINATION = "{dest}"  # stands for the folder that the wheel, or the libraries, go to
BUILD_OPTION = "--build-option"  # how PEP 517 hands an option to setuptools' bdist_wheel
ASSEMBLY_FOLDER = (
    "bdist.torchyard"  # in setup.py's build folder: where setuptools puts a wheel together
)


@dataclass(frozen=True)
class CompileJob:
    """What to build and where.

    The switches come with the environment; `jobs` is how many compilers run at once at most, None
    by cores and memory; with `jobs_exact` so many, whatever memory there is. `build` is our own
    build folder, for backends that take one; setup.py has its own in the tree. `source`, `deps` and
    `environment` are the manifests it reads, `knowledge` the folder of facts. `runs` is the file
    that each run adds a line to, `pool` the folder of the jobs that all builds of the checkout
    share, `cache` the manifest that names the compiler cache, and `manifest` that of compile
    itself. `cache_remote` is the URL of the cache that machines share, `workers` the machines that
    compile for this one.
    """

    backend: Literal["auto", "setup_py", "scikit_build_core", "cmake"]
    type: str
    target: str | None
    jobs: int | None
    build: PurePath
    source: PurePath
    deps: PurePath
    environment: PurePath
    knowledge: PurePath
    runs: PurePath
    pool: PurePath
    cache: PurePath
    manifest: PurePath
    log: PurePath
    cache_remote: str = ""
    workers: DistributionSettings = field(default_factory=DistributionSettings)
    jobs_exact: bool = False


@dataclass(frozen=True)
class CompileResult:
    """The manifest compile.json.

    `build` is the folder CMake worked in, `target` the partial target, `products` a digest of all
    libraries by path and content. `wheel` is the command that makes the wheel, or the install
    prefix, out of that folder, run in `tree` with the environment of env.json; `variables` go into
    that environment too.
    """

    backend: BackendName
    tree: str
    build: str
    target: str | None
    products: str
    wheel: tuple[str, ...]
    variables: Mapping[str, str]

    def build_wheel_command(self, dest: PurePath, *, plain: bool = False) -> tuple[str, ...]:
        """The command that leaves the wheel, or the libraries, in `dest`; a `plain` one without
        options for setuptools, which not every tree takes.
        """
        kept = (p for p in self.wheel if not (plain and p.startswith(f"-C{BUILD_OPTION}")))
        return tuple(part.replace(DESTINATION, str(dest)) for part in kept)
