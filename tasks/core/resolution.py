"""Define the decisions that follow from the settings and the host, each with the reason."""

from dataclasses import dataclass
from typing import Literal

from tasks.core.errors import SettingsError
from tasks.core.model import Arch, Host, Interpreter, Strategy, System


@dataclass(frozen=True)
class Combination:
    """The versions of everything that a build combines; None means unknown.

    `cuda` is the version of nvcc, in full if known. `msvc` is _MSC_VER ("1944"), `msvc_tools` the
    version of the toolset ("14.44.35207"), `visual_studio` the version of Visual Studio
    ("17.14.36"). `driver` is NVIDIA's driver ("580.65.06"). `extensions` is True if a CUDA
    extension is built.
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
    """Valid settings that cannot work together or on this host."""


@dataclass(frozen=True)
class ToolkitResolution:
    """The CUDA toolkit to compile with. `home` is known for the providers `system` and `path`."""

    provider: Literal["none", "system", "pypi", "path"]
    version: str = ""
    home: str = ""
    why: str = ""

    @property
    def reason(self) -> str:
        """Return the reason for the decision, `none: REASON` without a toolkit."""
        return f"none: {self.why}" if self.provider == "none" else self.why

    def find_full_version(self, host: Host) -> str | None:
        """Return the toolkit version, in full ("13.2.86") if installed, None without a toolkit."""
        versions = {kit.home: kit.version for kit in host.toolkits if kit.home}
        return versions.get(self.home) or self.version or None


@dataclass(frozen=True)
class Resolution:
    """The decisions that the plans of all stages start from.

    `torch` is the release without local version. `cuda` is the CUDA release of torch ("13.2"),
    `None` for a CPU torch. `index` is the package index of a prebuilt torch, "" for the default.
    `extensions` is True if an extension or companion package is built against torch. `facts` says
    where facts come from that are not recorded: from a wheel, from a toolkit, or assumed.
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
    facts: tuple[str, ...] = ()

    @property
    def needs_compiler(self) -> bool:
        """Return True if anything is compiled, so that a compiler is required."""
        return self.strategy == "source" or self.extensions

    @property
    def label(self) -> str:
        """Return the CUDA release and the archs as text: `cu132.sm90.sm120`, `cpu` without CUDA."""
        if not self.cuda:
            return "cpu"
        archs = (arch.sm.replace("_", "") for arch in self.targets)
        return ".".join([f"cu{self.cuda.replace('.', '')}", *archs])

    def build_combination(self, host: Host) -> Combination:
        """Return the versions that planning knows; those of the compilers are unknown."""
        return Combination(
            system=self.system,
            cuda=self.toolkit.find_full_version(host),
            torch=self.torch,
            archs=self.targets,
            strategy=self.strategy,
            python=self.python.version,
            extensions=self.extensions,
        )


def should_use_cuda_packages(choice: Resolution, setting: str) -> bool:
    """Return True if a torch built from source uses CUDA's libraries from NVIDIA's Python packages.

    `setting` is the value of wheel.cuda. Raises `SettingsError` for the value `packages` on a
    system other than Linux.
    """
    if choice.strategy != "source" or not choice.cuda:
        return False
    if setting == "packages" and choice.system != "linux":
        message = "torch can use CUDA from NVIDIA's Python packages only on Linux"
        raise SettingsError(message, location="wheel.cuda", hint="set wheel.cuda: auto")
    by_packages = choice.toolkit.provider == "pypi" if setting == "auto" else setting == "packages"
    return by_packages and choice.system == "linux"
