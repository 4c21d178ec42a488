"""A Windows 11 with an RTX 5090 that does not exist, and what its first stages leave for a shipped
profile in a checkout at C:\\ty.
"""

from __future__ import annotations

from pathlib import PureWindowsPath
from typing import Any

from msgspec import structs

from tasks.core.deps_model import CompilerCache, CudaHome, DepsManifest, MsvcEnvironment, Program
from tasks.core.model import Stage
from tasks.core.project import Project
from tasks.planning.profile_plan import build_layout, make_plan
from tasks.settings.layers_io import load_settings
from tests.support.checkout import KNOWLEDGE, RELEASE, ROOT
from tests.support.surroundings import BUILD_TOOLS, CL, TOOLSET, WINDOWS_HOST

CHECKOUT = PureWindowsPath("C:/ty")
PYTHON = "C:\\Python312\\python.exe"
UV = "C:\\ty\\.venv\\Scripts\\uv.exe"
KITS = "C:\\Program Files (x86)\\Windows Kits\\10\\"
MSVC = MsvcEnvironment(
    by="vcvarsall x64 of Visual Studio Build Tools 2022 17.14, toolset 14.44",
    set={
        "INCLUDE": f"{TOOLSET}\\include;{KITS}include\\10.0.26100.0\\ucrt",
        "LIB": f"{TOOLSET}\\lib\\x64;{KITS}lib\\10.0.26100.0\\um\\x64",
        "VCToolsInstallDir": f"{TOOLSET}\\",
        "VSCMD_ARG_TGT_ARCH": "x64",
        "VSINSTALLDIR": f"{BUILD_TOOLS}\\",
        "WindowsSDKVersion": "10.0.26100.0\\",
        "WindowsSdkDir": KITS,
    },
    path=(f"{TOOLSET}\\bin\\HostX64\\x64", f"{KITS}bin\\10.0.26100.0\\x64"),
)
# What both environments of a profile have of it
COMPILERS = {
    **{name.upper(): value for name, value in MSVC.set.items()},
    "DISTUTILS_USE_SDK": "1",
    "MSSDK": "1",
    "CC": "cl",
    "CXX": "cl",
    "VSLANG": "1033",
}
SCCACHE = CompilerCache("sccache", "C:\\Users\\me\\scoop\\shims\\sccache.exe", "0.16.0")
# What a child is let have of the person's own (tasks.system.shell)
BASE = {"PATH": "C:\\Windows\\System32;C:\\Windows", "TEMP": "C:\\T", "SYSTEMROOT": "C:\\Windows"}


def stages(profile: str, **changes: Any) -> dict[str, Stage]:
    """The plan of a shipped profile with torch `RELEASE` by the names of its stages.

    `changes` are settings.
    """
    environ = {"TORCHYARD__TORCH__VERSION": RELEASE}
    settings = load_settings(Project.of_checkout(ROOT), profile, environ).settings
    settings = structs.replace(settings, **changes)
    layout = build_layout(Project.of_checkout(CHECKOUT), profile, settings)
    plan = make_plan(settings, WINDOWS_HOST, KNOWLEDGE, layout)[1]
    return {stage.name: stage for stage in (*plan.stages, plan.validate)}


def deps(profile: str, cuda: str) -> DepsManifest:
    """What deps leaves there: the toolkit is that of NVIDIA's packages."""
    venv = f"C:\\ty\\build\\{profile}\\venv"
    scripts = f"{venv}\\Scripts"
    home = f"{venv}\\Lib\\site-packages\\nvidia\\cu13"
    return DepsManifest(
        python=f"{scripts}\\python.exe",
        python_version="3.12.4",
        identity="1",
        overlay=None,
        scripts=scripts,
        toolkit=CudaHome(home, cuda, (f"nvidia-cuda-nvcc=={cuda}",)),
        cuobjdump=f"{home}\\bin\\cuobjdump.exe",
        cc=Program(CL.path, CL.version, "d1"),
        cxx=Program(CL.path, CL.version, "d1"),
        cmake=Program(f"{scripts}\\cmake.exe", "4.1.2"),
        ninja=Program(f"{scripts}\\ninja.exe", "1.13.2"),
        git=Program("C:\\Program Files\\Git\\cmd\\git.exe", "2.50.0"),
        msvc=MSVC,
    )
