"""The settings, key by key. Their docstrings are the reference; config/default.yaml shows every key
in use.

Extra keys are refused and values are frozen. Only what a value alone can tell is checked here; what
needs facts about GPUs, toolkits or this host is judged by the plan.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tasks.settings import forms
from tasks.settings.build import Build
from tasks.settings.extension import Extension, ExtensionItem
from tasks.settings.matrix import Matrix
from tasks.settings.section import Section
from tasks.settings.values import (
    CompanionName,
    DoctorCheckName,
    EnvironmentVariables,
    GitRef,
    GitUrl,
    Name,
    UserPath,
    ValidationCheckName,
)


class Target(Section):
    """What the machine code is for."""

    gpus: Literal["auto"] | tuple[str, ...] = "auto"
    """`auto` (the cards here, else an RTX 5090), or a list of names ("RTX 5060 Ti") and
    capabilities ("12.0"). An empty list means a build for the CPU.
    """
    ptx: bool = False
    """Also keep PTX of the newest target, which later cards can compile at load."""


class Toolkit(Section):
    """The CUDA toolkit that compiles torch or the extensions."""

    provider: Literal["auto", "system", "pypi", "path"] = "auto"
    """`auto` takes the system's toolkit when its version is the one wanted, else Python packages
    (13.0 and later).
    """
    version: str = Field(default="auto", pattern=forms.CUDA_PATTERN)
    """Major.minor ("13.2"); `auto` is the CUDA that the torch was, or will be, built with."""
    path: UserPath | None = None
    """CUDA_HOME, with provider `path`."""


class Torch(Section):
    """Which torch, and which of the three ways to it."""

    strategy: Literal["auto", "source", "prebuilt", "existing"] = "auto"
    """`prebuilt` takes an official wheel, `source` builds one, `existing` uses the one that
    `python` already has; `auto` is prebuilt where an official wheel holds code for every target,
    else source.
    """
    version: str = Field(default="2.15.0", pattern=forms.RELEASE_PATTERN)
    """The release, without a local part; with `source.path`, where nothing is said, the tree's."""
    index: UserPath = "auto"
    """Package index for a prebuilt torch: a URL or a folder of wheels; `auto`: one that has it."""
    local: str | None = Field(default=None, pattern=forms.LOCAL_PART_PATTERN)
    """Which rebuild of it, where the index has several: its local version. Null is the highest."""
    sha256: str | None = Field(default=None, pattern=forms.SHA256_PATTERN)
    """The prebuilt wheel's digest, where it must be exactly that one."""


class Source(Section):
    """PyTorch's own tree. The most local of path, tarball and git that is set is used."""

    git: GitUrl | None = "https://github.com/pytorch/pytorch.git"
    """Where to clone from."""
    ref: GitRef = "auto"
    """Tag, branch or commit; `auto` is v<torch.version>."""
    submodules: bool = True
    """Fetch submodules, recursively."""
    path: UserPath | None = None
    """A tree that is there already. It is read and built in, never reset, never cleaned."""
    tarball: UserPath | None = None
    """A source archive: file or URL."""
    sha256: str | None = Field(default=None, pattern=forms.SHA256_PATTERN)
    """The tarball's digest; needed where it is a URL."""
    patches: tuple[UserPath, ...] = ()
    """Patch files, applied in order."""
    mirrors: dict[str, str] = {}
    """Prefix of a URL → what to fetch instead: of git (insteadOf), a tarball, an index."""


class Runtime(Section):
    """What programs run with under `build/PROFILE/run`."""

    env: EnvironmentVariables = {}
    """Variables for training and serving; an empty one is unset on Windows."""
    launch_blocking: bool = False
    """CUDA_LAUNCH_BLOCKING=1: an error is told at the kernel that made it, and all is slower."""


class Wheel(Section):
    """What is made of the build."""

    local_version: str = Field(default="auto", pattern=forms.LOCAL_VERSION_PATTERN)
    """`auto` names CUDA, archs, a build.type other than Release, and commit
    (2.6.0+cu130.sm120.g1a2b3c4, 2.6.0+cpu.debug.g1a2b3c4); `none` leaves it out."""
    cuda: Literal["auto", "packages", "toolkit"] = "auto"
    """Where a torch built on Linux takes CUDA from: NVIDIA's `packages`, declared, or `toolkit`."""
    wheelhouse: UserPath = "wheelhouse"
    """Folder for wheels, shared by all profiles; relative to the checkout."""


class Install(Section):
    """What becomes of the wheels once they are made."""

    into: UserPath | None = None
    """The Python of your own environment (conda, a project's venv) that torch and the extensions
    are put into, too: a path, relative to the checkout, or a name on PATH. `doit restore` puts back
    what was there.
    """
    partial: bool = False
    """Install torch and the extensions that were built even if another extension failed; the exit
    code is still 1.
    """


class Publish(Section):
    """The package index that `doit publish` puts the wheels on."""

    dest: str | None = None
    """A folder, relative to the checkout; `user@host:path`, by rsync; or a command that has
    `{index}` where the folder to send is to stand.
    """
    keep: Annotated[int, Field(ge=1)] | None = None
    """How many rebuilds of the same release, for the same Python, platform, CUDA and archs, stay on
    it; all of them where nothing is said.
    """


class Validation(Section):
    """What `doit validate` looks at."""

    only: Literal["all"] | Annotated[tuple[ValidationCheckName, ...], Field(min_length=1)] = "all"
    """`all`, or a list that picks some of import, version, cuda, archs, machine_code, device,
    matmul, reduction, convolution, autograd, graph, speed, compile, nccl, extensions.
    """
    timeout: int = Field(default=600, ge=1)
    """Seconds after which a check that hangs has failed."""


class Doctor(Section):
    """What `doit doctor`, and a build before it starts, look at."""

    ignore: tuple[DoctorCheckName, ...] = ()
    """Checks whose problems do not stop a build, by the names that `doit doctor` shows ("disk")."""


class Notify(Section):
    """Who is told when a build has finished or failed."""

    bell: bool = True
    """The terminal's bell, after more than 10 seconds; none in CI, none where it is no terminal."""
    command: tuple[str, ...] = ()
    """A program and its arguments, without a shell, at most 10 seconds of it. It finds
    TORCHYARD_OUTCOME ("done", "failed"), TORCHYARD_PROFILE, TORCHYARD_SECONDS and TORCHYARD_MESSAGE
    in its environment.
    """


def _require_distinct(names: Iterable[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f'the name "{name}" is used twice')


def _require_distinct_extensions(extensions: tuple[Extension, ...]) -> tuple[Extension, ...]:
    _require_distinct(extension.name for extension in extensions)
    return extensions


def _require_distinct_companions(names: tuple[CompanionName, ...]) -> tuple[CompanionName, ...]:
    _require_distinct(names)
    return names


class Settings(Section):
    """Everything that can be asked for."""

    python: str = "auto"
    """Interpreter of the built environment: `auto` (the one that runs doit), a version ("3.12") or
    a path. With strategy `existing`, the interpreter that has the torch.
    """
    target: Target = Target()
    toolkit: Toolkit = Toolkit()
    torch: Torch = Torch()
    source: Source = Source()
    build: Build = Build()
    runtime: Runtime = Runtime()
    wheel: Wheel = Wheel()
    install: Install = Install()
    companions: Annotated[
        tuple[CompanionName, ...], AfterValidator(_require_distinct_companions)
    ] = ()
    """What belongs to one torch: torchvision, torchaudio, triton. Prebuilt where one for this torch
    exists, else built from source.
    """
    extensions: Annotated[
        tuple[ExtensionItem, ...], AfterValidator(_require_distinct_extensions)
    ] = ()
    """Extensions; each is built by itself, in the order of the list but for what its `after` asks.
    """
    publish: Publish = Publish()
    matrix: Matrix = Matrix()
    validation: Validation = Validation()
    doctor: Doctor = Doctor()
    notify: Notify = Notify()
    mirrors: tuple[Name, ...] = ()
    """Public mirrors of PyPI and PyTorch's index, by name; the first that has a thing counts."""
    lock: bool = True
    """Build what torchyard.lock holds, where it has this profile; `doit lock` writes it."""
    offline: UserPath | None = None
    """A bundle (`doit bundle`), folder or tar, to take everything from: no network is asked."""
