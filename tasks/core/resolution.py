"""What the settings mean on this host: strategy, targets, torch and toolkit, each with the reason
said aloud.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tasks.core.errors import SettingsError
from tasks.core.model import Arch, Host, Interpreter, Strategy, System


@dataclass(frozen=True)
class Combination:
    """What would be built with what.

    None is unknown. `cuda` is nvcc's version, full where it is known. `msvc` is _MSC_VER ("1944"),
    `msvc_tools` the version of its toolset ("14.44.35207"), `visual_studio` that of the
    installation ("17.14.36"); none of the three follows from another. `driver` is NVIDIA's
    ("580.65.06"); `extensions`: whether any CUDA extension is built.
    """

    system: System | None = None
    cuda: str | None = None
    torch: str | None = None
    gcc: str | None = None
    glibc: str | None = None
    msvc: str | None = None
    cmake: str | None = None
    setuptools: str | None = None
    archs: tuple[Arch, ...] | None = None
    strategy: Strategy | None = None
    clang: str | None = None
    python: str | None = None
    driver: str | None = None
    ninja: str | None = None
    msvc_tools: str | None = None
    visual_studio: str | None = None
    extensions: bool | None = None


class UnsatisfiableError(SettingsError):
    """What is asked for is understood, and cannot be on this host as the facts are. `todo` is what
    helps where no change of the settings does; `tasks.planning.suggestions` looks for one.
    """


@dataclass(frozen=True)
class ToolkitResolution:
    """Which CUDA toolkit compiles: `none` for a CPU build, and where nothing is compiled. `home` is
    known for `system` and `path`.
    """

    provider: Literal["none", "system", "pypi", "path"]
    version: str = ""
    home: str = ""
    why: str = ""

    @property
    def reason(self) -> str:
        """The reason, where it stands without the provider beside it."""
        return f"none: {self.why}" if self.provider == "none" else self.why

    def find_full_version(self, host: Host) -> str | None:
        """The version with its patch where it is one that was found there ("13.2.86"), else the
        release; None where there is none.
        """
        found = {kit.home: kit.version for kit in host.toolkits if kit.home}
        return found.get(self.home) or self.version or None


@dataclass(frozen=True)
class Resolution:
    """The decisions that every stage's plan starts from.

    `torch` is the release without local part; `cuda` its CUDA as "13.2", None for a CPU torch.
    `index` is the package index of a prebuilt torch, empty for the default one. `extensions`:
    whether any is built against it, a companion included. `machine` is the host's, as the system
    names it.
    """

    system: System
    strategy: Strategy
    strategy_why: str
    targets: tuple[Arch, ...]
    targets_why: str
    ptx: bool
    torch: str
    cuda: str | None
    toolkit: ToolkitResolution
    python: Interpreter
    index: str = ""
    extensions: bool = False
    machine: str = ""

    @property
    def needs_compiler(self) -> bool:
        """Whether anything is compiled: what a compiler has to be there for."""
        return self.strategy == "source" or self.extensions

    @property
    def label(self) -> str:
        """CUDA and archs as they stand in a wheel's local version: `cu132.sm90.sm120`, or `cpu`."""
        if not self.cuda:
            return "cpu"
        archs = (arch.sm.replace("_", "") for arch in self.targets)
        return ".".join([f"cu{self.cuda.replace('.', '')}", *archs])

    def build_combination(self, host: Host) -> Combination:
        """What would be built with what, as far as planning knows: who looked at compilers, driver
        and the like adds them with `replace`.
        """
        return Combination(
            system=self.system,
            cuda=self.toolkit.find_full_version(host),
            torch=self.torch,
            archs=self.targets,
            strategy=self.strategy,
            python=self.python.version,
            extensions=self.extensions,
        )


def should_use_cuda_packages(choice: Resolution, asked: str) -> bool:
    """Return whether a torch that is built here takes CUDA's libraries from NVIDIA's Python
    packages. `asked` is the setting wheel.cuda; auto follows the provider of the toolkit.

    Raises `SettingsError` if it cannot be on this system.
    """
    if choice.strategy != "source" or not choice.cuda:
        return False
    if asked == "packages" and choice.system != "linux":
        raise SettingsError(
            "packages is for Linux: elsewhere torch does not look for CUDA in NVIDIA's packages",
            location="wheel.cuda",
            hint="set it to auto",
        )
    by_packages = choice.toolkit.provider == "pypi" if asked == "auto" else asked == "packages"
    return by_packages and choice.system == "linux"
