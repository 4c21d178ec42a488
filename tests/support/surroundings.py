"""Machines that do not exist: a good one of each system, to be changed where a test wants to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.core.model import Gpu, Host, InstalledToolkit, Interpreter
from tasks.core.project import Project
from tasks.doctor.host_facts import (
    BuildTorch,
    Disk,
    HostFacts,
    Memory,
    RequiredUrl,
    Tool,
    VisualStudio,
)
from tasks.knowledge.cpp_extension import CppExtension, VersionBounds
from tasks.knowledge.gpus import NvidiaDriver
from tasks.knowledge.resource_estimates import ALL_PLACES
from tasks.lock.opened_profile_io import Profile
from tasks.planning.profile_plan import build_layout, make_plan
from tasks.settings.loaded_settings import LoadedSettings
from tasks.settings.schema import parse_settings
from tests.support.checkout import KNOWLEDGE, RELEASE, pin_torch

WINDOWS_ONLY: frozenset[CheckId] = frozenset({"visual-studio", "windows-sdk", "long-paths"})
RTX_5090 = Gpu("NVIDIA GeForce RTX 5090", "12.0", 32_607)
RTX_3090 = Gpu("NVIDIA GeForce RTX 3090", "8.6", 24_576)
LINUX_ROOT, WINDOWS_ROOT = PurePosixPath("/home/me/torchyard"), PureWindowsPath("C:/src/torchyard")
LINUX_HOST = Host(
    "linux",
    "x86_64",
    Interpreter("/usr/bin/python3.12", "3.12.4"),
    (RTX_5090,),
    (InstalledToolkit("/usr/local/cuda", "13.2.86"),),
)
WINDOWS_HOST = replace(
    LINUX_HOST,
    system="windows",
    python=Interpreter("C:\\Python312\\python.exe", "3.12.4"),
    toolkits=(),
)
# of torch 2.15.0
SAYS = CppExtension(
    standard=20,
    gcc={"12.9": VersionBounds("6.0.0", "15.0"), "13.0": VersionBounds("6.0.0", "16.0")},
    clang={"12.9": VersionBounds("7.0", "19.0"), "13.0": VersionBounds("7.0", "21.0")},
    least_gcc="5.0.0",
    least_msvc="19.20.0",
    unchecked=r"\d+\.\d+\.\d+\w+\+\w+",
)
EXTENSION = {"name": "toy", "path": "toy"}
INDEX = "https://pypi.org/simple"
BUILD_TOOLS = "C:\\Program Files (x86)\\Microsoft Visual Studio\\2022\\BuildTools"
TOOLSET = f"{BUILD_TOOLS}\\VC\\Tools\\MSVC\\14.44.35207"
CL = Tool(f"{TOOLSET}\\bin\\Hostx64\\x64\\cl.exe", "14.44.35207")
LINUX = HostFacts(
    host=LINUX_HOST,
    root=LINUX_ROOT,
    os_release="Debian GNU/Linux 13 (trixie)",
    systems=("debian-13", "debian"),
    glibc="2.41",
    python_bits=64,
    uv=Tool("/home/me/.venv/bin/uv"),
    git=Tool("/usr/bin/git", "2.47.3"),
    cxx=Tool("/usr/bin/g++", "14.2.0"),
    nvcc=Tool("/usr/local/cuda/bin/nvcc", "13.2.86"),
    torch=BuildTorch(f"{RELEASE}+cu132", "13.2", SAYS),
    nvidia=NvidiaDriver("595.71.05", "13.2", (RTX_5090,)),
    cmake=Tool("/usr/bin/cmake", "3.31.6"),
    ninja=Tool("/usr/bin/ninja", "1.12.1"),
    setuptools=Tool(),
    disks=(
        Disk(ALL_PLACES, "/home/me/torchyard", 500 * 1024, "ext4"),
        Disk(("temporary files",), "/tmp", 30 * 1024, "ext4"),
    ),
    memory=Memory(64 * 1024, 64 * 1024, 60 * 1024, 8 * 1024, 16),
    encoding="utf-8",
    proxies={},
    reach=(RequiredUrl("the package index", INDEX, answers=True),),
    leftovers=(),
    exposed=(),
    unfetched=(),
    unmerged=(),
    shadows=(),
    installed=(),
    environ={},
    today=KNOWLEDGE.date,
)
WINDOWS = replace(
    LINUX,
    host=WINDOWS_HOST,
    root=WINDOWS_ROOT,
    os_release="Windows 11 (10.0.26100)",
    systems=("windows",),
    glibc="",
    uv=Tool("C:\\src\\torchyard\\.venv\\Scripts\\uv.exe"),
    git=Tool("C:\\Program Files\\Git\\cmd\\git.exe", "2.50.0"),
    cxx=Tool(
        f"{BUILD_TOOLS}\\VC\\Tools\\MSVC\\14.44.35207\\bin\\Hostx64\\x64\\cl.exe", "14.44.35207"
    ),
    visual_studio=(
        VisualStudio("Visual Studio Build Tools 2022", "17.14.13", BUILD_TOOLS, "14.44.35207"),
    ),
    windows_sdk=("10.0.26100.0",),
    nvcc=Tool(),
    nvidia=NvidiaDriver("596.21", "13.2", (RTX_5090,)),
    cmake=Tool(),
    ninja=Tool(),
    disks=(Disk(ALL_PLACES, "C:\\src\\torchyard", 500 * 1024, "NTFS"),),
    long_paths=True,
    encoding="cp1252",
)


def profile_on(s: HostFacts, **asked: Any) -> Profile:
    """A profile of torch `RELEASE` that opens there; it compiles an extension by default."""
    settings = parse_settings(pin_torch({"extensions": [EXTENSION], **asked}))
    layout = build_layout(Project.of_checkout(s.root), "mine", settings)
    choice, plan = make_plan(settings, s.host, KNOWLEDGE, layout)
    return Profile(LoadedSettings("mine", settings, {}), layout, s.host, KNOWLEDGE, choice, plan)
