"""Machines for doctor, each with what was asked for and the checks that are not ok there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.core.model import Gpu, InstalledToolkit, Interpreter
from tasks.doctor.check_result import Level
from tasks.doctor.host_facts import (
    BuildTorch,
    Disk,
    HostFacts,
    InstalledExtension,
    Leftover,
    Memory,
    MissingSubmodules,
    RequiredUrl,
    ShadowingTorch,
    Tool,
    UnmergedCheckout,
    UnsafePath,
    VisualStudio,
)
from tasks.knowledge import Knowledge
from tasks.knowledge.cpp_extension import VersionBounds
from tasks.knowledge.gpus import NvidiaDriver
from tasks.knowledge.read_facts import MAX_FACT_AGE_DAYS, ReadFacts
from tasks.knowledge.resource_estimates import ALL_PLACES
from tests.support.checkout import KNOWLEDGE, RELEASE
from tests.support.newest import NEWEST_RELEASE, NEWEST_TOOLKIT, NEXT_CUDA, NEXT_TORCH
from tests.support.surroundings import (
    LINUX,
    LINUX_HOST,
    RTX_3090,
    RTX_5090,
    SAYS,
    WINDOWS,
    WINDOWS_HOST,
)

SOURCE: dict[str, Any] = {"torch": {"strategy": "source"}}
DISTCC: dict[str, Any] = {"build": {"distribute": "distcc", "hosts": ["10.0.0.5/8"]}}
CPU: dict[str, Any] = {"target": {"gpus": []}}
MISMATCH = "Driver/library version mismatch"
GSPLAT = {
    "name": "simple-knn",
    "git": "https://gitlab.example/simple-knn.git",
    "imports": ["simple_knn._C"],
}


@dataclass(frozen=True)
class Situation:
    """A machine, what was asked for, and the checks that are not ok there."""

    s: HostFacts
    expected: dict[CheckId, Level] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    knowledge: Knowledge = KNOWLEDGE


def linux(expected: dict[CheckId, Level], asked: Any = None, **seen: Any) -> Situation:
    return Situation(replace(LINUX, **seen), expected, asked or {})


def windows(expected: dict[CheckId, Level], asked: Any = None, **seen: Any) -> Situation:
    return Situation(replace(WINDOWS, **seen), expected, asked or {})


def disk(gib: float, kind: str = "ext4", holds: tuple[str, ...] = ALL_PLACES) -> tuple[Disk, ...]:
    return (Disk(holds, "/home/me/torchyard", int(gib * 1024), kind),)


def memory(limit: float, available: float, swap: float = 0, cores: int = 8) -> Memory:
    limit, available, swap = limit * 1024, available * 1024, swap * 1024
    return Memory(64 * 1024, int(limit), int(available), int(swap), cores)


def reach(what: str, answers: bool, optional: bool = False) -> tuple[RequiredUrl, ...]:
    return (RequiredUrl(what, f"https://{what[-5:]}.example/x", answers, optional),)


def python(path: str, windows: bool = True) -> Any:
    return replace(
        WINDOWS_HOST if windows else LINUX_HOST, python=Interpreter(path, "3.12.4")
    )  # fmt: skip


def days_later(days: int) -> str:
    """Return the date so many days after the facts were recorded."""
    return (date.fromisoformat(KNOWLEDGE.date) + timedelta(days)).isoformat()


def published(torch: str, cuda: str) -> Knowledge:
    """Return the knowledge with an index whose newest releases are these."""
    index = "https://pypi.org/simple"
    return replace(KNOWLEDGE, read=ReadFacts(versions=(torch,), cuda_versions=(cuda,), index=index))


OLD = days_later(MAX_FACT_AGE_DAYS + 1)
NO_NEWS = published(NEWEST_RELEASE.patch, NEWEST_TOOLKIT.cuda)
NEWS = published(NEXT_TORCH, NEXT_CUDA)
INTO: dict[str, Any] = {"install": {"into": "/home/me/env/bin/python"}}
NO_CARD = replace(LINUX_HOST, gpus=())
PINNED = replace(LINUX_HOST, gpus=(RTX_3090,), pinned=True)
GCC_15 = Tool(
    why="g++ here is 15.1, and this CUDA toolkit takes GCC up to 14",
    todo="apt install g++-14  (torchyard then finds this g++)",
)
UNKNOWN: dict[CheckId, Level] = {"torch-checks": "not checked"}
TORCH_2_11 = BuildTorch(
    "2.11.0+cu128", "12.8", replace(SAYS, gcc={"12.8": VersionBounds("6.0", "14.0")})
)
CUDA_12_8: dict[str, Any] = {
    "host": replace(LINUX_HOST, toolkits=(InstalledToolkit("/usr/local/cuda", "12.8.93"),)),
    "nvcc": Tool("/usr/local/cuda/bin/nvcc", "12.8.93"),
    "torch": TORCH_2_11,
}
ASKED_2_11: dict[str, Any] = {"torch": {"version": "2.11.0"}, "toolkit": {"version": "12.8"}}
NO_CPP = VisualStudio("Visual Studio Community 2022", "17.14.13", "C:\\VS")
TOY = LINUX.root / "toy"
SITUATIONS: dict[str, Situation] = {
    "a workstation": linux({}),
    "a workstation that builds torch": linux({}, SOURCE),
    "a workstation that builds for the CPU": linux({}, SOURCE | CPU),
    "a server without a card": linux({}, host=NO_CARD, nvidia=NvidiaDriver()),
    "an Alpine container": linux({"os": "problem"}, glibc=""),
    "an Alpine container that builds torch": linux({}, SOURCE, glibc=""),
    "CentOS 7": linux({"os": "warning"}, glibc="2.17"),
    "a Raspberry Pi of 32 bits": linux(
        {"os": "warning", "python": "problem"},
        SOURCE | CPU, host=replace(NO_CARD, machine="armv7l"), nvidia=NvidiaDriver(),
        python_bits=32,
    ),
    "no compiler": linux({"compiler": "problem", **UNKNOWN}, cxx=Tool()),
    "a compiler too new": linux({"compiler": "problem", **UNKNOWN}, cxx=GCC_15),
    "no git for a source build": linux({"git": "problem"}, SOURCE, git=Tool()),
    "no git for a wheel": linux({"git": "warning"}, git=Tool()),
    "no uv": linux({"uv": "warning"}, uv=Tool()),
    "a driver too old": linux(
        {"driver": "problem"}, nvidia=NvidiaDriver("570.86", "12.8", (RTX_5090,))
    ),
    "a driver too old for a build for another machine": linux(
        {"driver": "warning", "targets": "warning"},
        {"target": {"gpus": ["9.0"]}}, nvidia=NvidiaDriver("570.86", "12.8", (RTX_5090,)),
    ),
    "a driver upgraded without a restart": linux(
        {"cards": "problem", "driver": "not checked"}, host=NO_CARD,
        nvidia=NvidiaDriver(trouble=MISMATCH),
    ),
    "that, with the card named": linux(
        {"cards": "warning", "driver": "not checked"},
        {"target": {"gpus": ["RTX 5090"]}}, host=NO_CARD, nvidia=NvidiaDriver(trouble=MISMATCH),
    ),
    "a card that fell off the bus": linux(
        {"cards": "warning"}, nvidia=NvidiaDriver("595.71", "13.2", (RTX_5090,), lost=1)
    ),
    "another card than was planned for": linux(
        {"cards": "warning", "targets": "warning"}, SOURCE, host=PINNED
    ),
    "two cards, one a target": linux(
        {"targets": "warning"},
        {"target": {"gpus": ["12.0"]}},
        nvidia=NvidiaDriver("595.71", "13.2", (RTX_5090, RTX_3090)),
    ),
    "PTX newer than the driver": linux(
        {"driver": "warning"}, {"target": {"ptx": True}},
        nvidia=NvidiaDriver("580.65", "13.0", (RTX_5090,)),
    ),
    "a GB10 that tells no memory": linux(
        {}, {"target": {"gpus": ["12.1"]}, **SOURCE},
        host=replace(LINUX_HOST, machine="aarch64"),
        nvidia=NvidiaDriver("595.71", "13.2", (Gpu("NVIDIA GB10", "12.1"),)),
    ),
    "a toolkit that was removed": linux({"toolkit": "problem"}, nvcc=Tool()),
    "a toolkit that was upgraded": linux(
        {"toolkit": "warning"}, nvcc=Tool("/usr/local/cuda/bin/nvcc", "13.3.73")
    ),
    "glibc 2.42 with CUDA 13.1": linux(
        {"known-bad": "problem", **UNKNOWN}, {"toolkit": {"version": "13.1"}},
        glibc="2.42", nvcc=None,
    ),
    "a CMake that somebody put into the environment": linux(
        {"cmake": "warning"},
        {"torch": {"strategy": "source", "version": RELEASE}},
        cmake=Tool("/home/me/torchyard/build/mine/venv/bin/cmake", "3.18.1"),
    ),
    "a Ninja that somebody put into the environment": linux(
        {"ninja": "warning"},
        ninja=Tool("/home/me/torchyard/build/mine/venv/bin/ninja", "1.11.1"),
    ),
    "a full disk": linux({"disk": "problem"}, disks=disk(0.5)),
    "a small disk": linux({"disk": "problem"}, disks=disk(6)),
    "a small disk for torch from source": linux({"disk": "problem"}, SOURCE, disks=disk(3)),
    "a disk that may do for torch from source": linux({"disk": "warning"}, SOURCE, disks=disk(6)),
    "a small disk where all is built": linux({}, SOURCE, disks=disk(3), begun=True),
    "a small disk of caches": linux(
        {"disk": "warning", "filesystem": "not checked"}, disks=disk(0.5, holds=("caches",))
    ),
    "a small disk of their environment": linux(
        {"disk": "warning", "filesystem": "not checked"},
        INTO,
        disks=disk(0.5, holds=("install.into",))
    ),
    "a torch that is not installed yet": linux(UNKNOWN, torch=BuildTorch()),
    "an nvcc that torch refuses": linux(
        {"toolkit": "warning", "torch-checks": "problem", "known-bad": "warning"},
        nvcc=Tool("/usr/local/cuda/bin/nvcc", "12.9.86"),
    ),
    "a compiler that torch refuses and nvcc takes": linux(
        {"known-bad": "warning", "torch-checks": "problem"}, ASKED_2_11, **CUDA_12_8
    ),
    "an extension that was cloned without a submodule": linux(
        {"submodules": "warning"},
        unfetched=(MissingSubmodules("toy", TOY, TOY, (TOY / "glm",), True),)
    ),
    "a pull that ended in a merge conflict": linux(
        {"conflicts": "problem"},
        SOURCE,
        unmerged=(
            UnmergedCheckout("source.path", "in /src 1 file has merge conflicts: a", "undo it"),
        ),
    ),
    "a disk for torch without CUDA": linux({"disk": "warning"}, SOURCE | CPU, disks=disk(5)),
    "a build folder in memory": linux({"filesystem": "warning"}, disks=disk(90, "tmpfs")),
    "a build folder on a share": linux({"filesystem": "warning"}, disks=disk(90, "nfs4")),
    "WSL on C:": linux({"filesystem": "warning"}, disks=disk(90, "9p"), wsl=True),
    "a laptop that builds torch": linux({"swap": "warning"}, SOURCE, memory=memory(16, 12)),
    "a container of 4 GiB": linux(
        {"memory": "warning", "swap": "warning"}, SOURCE, memory=memory(4, 3.5)
    ),
    "a container of 1 GiB": linux(
        {"memory": "problem", "swap": "warning"}, SOURCE, memory=memory(1, 0.9)
    ),
    "a laptop with all memory taken": linux({"memory": "warning"}, memory=memory(16, 3, 16)),
    "a C locale": linux({"locale": "warning"}, encoding="ascii"),
    "variables of a guide": linux(
        {"variables": "warning"}, environ={"TORCH_CUDA_ARCH_LIST": "12.0", "MAX_JOBS": "4"}
    ),
    "two proxies for one name": linux(
        {"proxies": "warning"},
        proxies={"https_proxy": "a.example:80", "HTTPS_PROXY": "b.example:80"},
    ),
    "a proxy without a host": linux({"proxies": "warning"}, proxies={"http_proxy": ""}),
    "one proxy": linux({}, proxies={"http_proxy": "a.example:80"}),
    "no network": linux({"index": "problem"}, reach=reach("the package index", False)),
    "no network, and all is built": linux(
        {"index": "warning"}, reach=reach("the package index", False, optional=True)
    ),
    "a git host that is away": linux(
        {"git-hosts": "problem"}, {"extensions": [GSPLAT]}, reach=reach("simple-knn", False)
    ),
    "an optional git host that is away": linux(
        {"git-hosts": "warning"}, reach=reach("simple-knn", False, optional=True)
    ),
    "workers that answer": linux(
        {}, DISTCC, hands_on=Tool("/usr/bin/distcc"), workers=reach("10.0.0.5", True)
    ),
    "a worker that is away": linux(
        {"workers": "warning"}, DISTCC, hands_on=Tool("/d"), workers=reach("10.0.0.5", False)
    ),
    "no distcc": linux(
        {"workers": "warning"}, DISTCC, hands_on=Tool(), workers=reach("10.0.0.5", True)
    ),
    "old facts and newer releases": replace(
        linux({"knowledge": "warning"}, today=OLD), knowledge=NEWS
    ),
    "old facts and a newer CUDA": replace(
        linux({"knowledge": "warning"}, today=OLD),
        knowledge=published(NEWEST_RELEASE.patch, NEXT_CUDA),
    ),
    "old facts and no newer releases": replace(linux({}, today=OLD), knowledge=NO_NEWS),
    "old facts and an index that was not asked": linux({}, today=OLD),
    "newer releases and facts that are not old": replace(
        linux({}, today=days_later(MAX_FACT_AGE_DAYS)), knowledge=NEWS
    ),
    "a run that was killed": linux(
        {"leftovers": "warning"}, leftovers=(Leftover("killed", "/b", ("ninja", "nvcc")),)
    ),
    "another run at work": linux({"leftovers": "warning"}, leftovers=(Leftover("running", "/b"),)),
    "a folder in the way": linux({"leftovers": "problem"}, leftovers=(Leftover("foreign", "/b"),)),
    "a checkout that everyone may write to": linux(
        {"trust": "warning"}, exposed=(UnsafePath("folder", "/home/me/torchyard"),)
    ),
    "programs that everyone may replace": linux(
        {"trust": "warning"}, exposed=(UnsafePath("PATH", "/opt/tools"),)
    ),
    "a PATH with a dot": linux({"trust": "warning"}, exposed=(UnsafePath("relative", "."),)),
    "a torch on PYTHONPATH": linux(
        {"torch-shadow": "warning"}, shadows=(ShadowingTorch("PYTHONPATH", "/p/torch", "2.1.0"),)
    ),
    "a torch of conda and one of the user": linux(
        {"torch-shadow": "warning"},
        shadows=(
            ShadowingTorch("conda", "/c/torch", "2.1.0"), ShadowingTorch("user site", "/u/torch"),
        ),
    ),
    "a file torch.py": linux(
        {"torch-shadow": "warning"}, shadows=(ShadowingTorch("checkout", "torch.py"),)
    ),
    "simple-knn of the index": linux(
        {"names": "warning"},
        installed=(InstalledExtension("simple-knn", "1.2", "/site", indexed=True),)
    ),
    "simple-knn of ours": linux(
        {}, installed=(InstalledExtension("simple-knn", "0.0.0", "/site", indexed=False),)
    ),
    "a checkout with a space": linux(
        {"paths": "warning"}, root=type(LINUX.root)("/home/me/my work/torchyard")
    ),
    "Windows": windows({}),
    "Windows that builds torch": windows({}, SOURCE),
    "Windows for the CPU": windows({}, CPU),
    "Windows on ARM": windows(
        {"os": "warning"}, SOURCE | CPU, host=replace(WINDOWS_HOST, machine="arm64")
    ),
    "Windows without Visual Studio": windows(
        {"visual-studio": "problem", "compiler": "problem", **UNKNOWN},
        cxx=Tool(), visual_studio=(),
    ),
    "Windows in a prompt of Visual Studio that vswhere does not know": windows(
        {"visual-studio": "warning"}, visual_studio=()
    ),
    "Windows without the C++ workload": windows(
        {"visual-studio": "problem", "compiler": "problem", **UNKNOWN},
        cxx=Tool(), visual_studio=(NO_CPP,),
    ),
    "Windows where vswhere is missing": windows(
        {"visual-studio": "not checked"}, visual_studio=None
    ),
    "Windows without an SDK": windows({"windows-sdk": "problem"}, windows_sdk=()),
    "Windows with VS 2026 and CUDA 13.0": windows(
        {"known-bad": "problem", **UNKNOWN}, {"toolkit": {"version": "13.0"}},
        cxx=Tool("C:\\VS\\cl.exe", "14.50.35717"),
        visual_studio=(VisualStudio("VS 2026", "18.0.1", "C:\\VS", "14.50.35717"),),
    ),
    "Windows with Python in Program Files": windows(
        {"paths": "warning"}, host=python("C:\\Program Files\\Python312\\python.exe")
    ),
    "Windows that builds torch with that Python": windows(
        {"paths": "problem"}, SOURCE, host=python("C:\\Program Files\\Python312\\python.exe")
    ),
    "Windows with a user called Jürgen": windows(
        {"paths": "warning"}, host=python("C:\\Users\\Jürgen\\Python312\\python.exe")
    ),
    "Windows with the Store's Python": windows(
        {"python": "warning"}, host=python("C:\\Users\\me\\AppData\\WindowsApps\\python.exe")
    ),
    "Windows with a Python of 32 bits": windows({"python": "problem"}, python_bits=32),
    "Windows without long paths": windows({"long-paths": "warning"}, long_paths=False),
    "Windows without long paths, deep down, that builds torch": windows(
        {"long-paths": "problem"}, SOURCE, long_paths=False,
        root=type(WINDOWS.root)("C:/Users/somebody/Documents/projects/machine-learning/torchyard"
                                "/a-checkout-that-was-renamed"),
    ),
    "Windows where the registry is closed": windows({"long-paths": "not checked"}, long_paths=None),
    "Windows without git": windows({"git": "problem"}, SOURCE, git=Tool()),
    "Windows with an old driver": windows(
        {"driver": "problem"}, nvidia=NvidiaDriver("560.94", "12.6", (RTX_5090,))
    ),
    "Windows with a Ninja that loops": windows(
        {"ninja": "warning"},
        ninja=Tool("C:\\src\\torchyard\\build\\mine\\venv\\Scripts\\ninja.exe", "1.11.1"),
    ),
    "Windows that runs out of memory": windows(
        {"memory": "warning", "swap": "warning"}, SOURCE, memory=memory(4, 3.5)
    ),
    "Windows without performance counters": windows(
        {"swap": "not checked"}, SOURCE, memory=replace(memory(64, 60), swap_mib=None)
    ),
    "Windows with a small disk for temporary files": windows(
        {"disk": "problem", "filesystem": "not checked"},
        disks=disk(0.2, "NTFS", ("temporary files",)),
    ),
}  # fmt: skip
