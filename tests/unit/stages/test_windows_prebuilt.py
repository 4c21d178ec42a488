"""Commands and environments of each stage of the profile windows-rtx5090, in build order."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PureWindowsPath

from tasks.core.model import Artifact
from tasks.stages.env.environment_variables import resolve_environments
from tasks.stages.extensions.extension_build_io import build_wheel_command
from tasks.stages.extensions.extension_environment_io import merge_environment
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.validate.torch_checks_io import build_probe_command
from tasks.stages.wheel.model import Wheel
from tasks.system import environments
from tasks.system.package_installer import (
    DownloadRequest,
    InstallOptions,
    PackageInstaller,
    build_download_argv,
)
from tests.support.checkout import RELEASE
from tests.support.surroundings import TOOLSET
from tests.support.windowshost import BASE, COMPILERS, KITS, PYTHON, UV, deps, stages

NAME = "windows-rtx5090"
STAGES = stages(NAME)
DEPS = deps(NAME, "13.2.86")
BUILD = "C:\\ty\\build\\windows-rtx5090"
VENV = f"{BUILD}\\venv"
CUDA = f"{VENV}\\Lib\\site-packages\\nvidia\\cu13"
TOOLS = ("ninja>=1.13.1", "pip", "wheel", "build", "numpy", "setuptools>=77.0.3", "cmake>=3.27")
SHARED = {
    "PYTHONNOUSERSITE": "1",
    "VIRTUAL_ENV": VENV,
    **COMPILERS,
    "CUDA_HOME": CUDA,
    "CUDA_PATH": CUDA,
    "CUDACXX": CUDA.replace("\\", "/") + "/bin/nvcc.exe",
    "TORCH_CUDA_ARCH_LIST": "12.0",
    "CUDAARCHS": "120-real",
    "CL": "/Zc:preprocessor /DUSE_CUDA",
    "NVCC_APPEND_FLAGS": "-Xcompiler /Zc:preprocessor -DUSE_CUDA",
}
PATH = (
    f"{VENV}\\Scripts",
    f"{CUDA}\\bin",
    f"{CUDA}\\bin\\x86_64",
    f"{TOOLSET}\\bin\\HostX64\\x64",
    f"{KITS}bin\\10.0.26100.0\\x64",
)
EXTENSIONS = ("smoke", "diff-gaussian-rasterization", "simple-knn")


def test_stages_are_those_of_official_wheel() -> None:
    names = [f"extensions:{name}" for name in EXTENSIONS]
    assert list(STAGES) == ["deps", "env", "wheel", *names, "validate"]


def test_deps_creates_venv_and_installs_tools_and_toolkit() -> None:
    job = STAGES["deps"].job
    assert environments.build_venv_argv(job.venv, job.base, UV) == (
        *(UV, "venv", "--seed", "--allow-existing", "--no-python-downloads"),
        *("--python", PYTHON, VENV),
    )
    assert environments.build_venv_argv(job.venv, job.base, None) == (PYTHON, "-m", "venv", VENV)
    packages = ("cuda-toolkit[nvcc,crt,nvvm,cccl,cudart,curand,profiler,cuobjdump]==13.2.*",)
    assert (job.tools, job.toolkit_packages) == (TOOLS, packages)
    into = PackageInstaller(DEPS.python, UV, job.log)
    assert into.build_install_argv([*job.tools, *job.toolkit_packages]) == (
        *(UV, "pip", "install", "--python", f"{VENV}\\Scripts\\python.exe", "--no-progress"),
        *TOOLS,
        *packages,
    )
    assert job.limits.msvc == (1920, 1960)


def test_environment_extends_vcvarsall() -> None:
    full, extension = resolve_environments(STAGES["env"].job, DEPS)
    assert replace(full, why={}) == extension
    assert extension.set == SHARED
    assert extension.prepend == {"PATH": PATH}
    assert not extension.defaults
    assert extension.separator == ";"
    assert extension.build_child_environment(BASE) == {
        **BASE,
        **SHARED,
        "PATH": ";".join([*PATH, "C:\\Windows\\System32", "C:\\Windows"]),
    }


def test_wheel_is_downloaded_from_pytorch_index_and_installed() -> None:
    job = STAGES["wheel"].job
    download = DownloadRequest(DEPS.python, job.requirement, job.index, job.landing, job.log)
    assert build_download_argv(download) == (
        *(DEPS.python, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
        *("--progress-bar", "off", "-d", f"{BUILD}\\landing"),
        *("--index-url", "https://download.pytorch.org/whl/cu132", f"torch=={RELEASE}"),
    )
    wheel = f"C:\\ty\\wheelhouse\\torch-{RELEASE}+cu132-cp312-cp312-win_amd64.whl"
    extra = InstallOptions(("nvidia-cuda-nvcc==13.2.86",), job.index)
    assert PackageInstaller(DEPS.python, UV, job.log).build_install_argv([wheel], extra) == (
        *(UV, "pip", "install", "--python", DEPS.python, "--no-progress"),
        *("-c", f"{BUILD}\\logs\\constraints.txt"),
        *("--extra-index-url", "https://download.pytorch.org/whl/cu132", wheel),
    )


def test_extensions_are_fetched_from_configured_sources() -> None:
    jobs = [STAGES[f"extensions:{name}"].job for name in EXTENSIONS]
    assert [(job.kind, job.location, job.ref) for job in jobs] == [
        ("path", "C:\\ty\\templates\\smoke", "HEAD"),
        ("git", "https://github.com/graphdeco-inria/diff-gaussian-rasterization.git", "main"),
        ("git", "https://gitlab.inria.fr/bkerbl/simple-knn.git", "master"),
    ]


def test_extension_is_built_by_pip_in_its_tree() -> None:
    job = STAGES["extensions:simple-knn"].job
    work = f"{BUILD}\\extensions\\simple-knn"
    assert build_wheel_command(job, DEPS, PureWindowsPath(work, "tree")) == (
        *(DEPS.python, "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps"),
        *("--no-cache-dir", "-w", f"{work}\\landing", f"{work}\\tree"),
    )


def test_forced_headers_reach_cl_and_nvcc() -> None:
    shared = resolve_environments(STAGES["env"].job, DEPS)[1].build_child_environment(BASE)
    smoke = merge_environment(STAGES["extensions:smoke"].job, shared)
    assert smoke == {**shared, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "FORCE_CUDA": "1"}
    knn = merge_environment(STAGES["extensions:simple-knn"].job, shared)
    assert knn == {
        **smoke,
        "CL": "/Zc:preprocessor /DUSE_CUDA /FIcfloat",
        "NVCC_APPEND_FLAGS": "-Xcompiler /Zc:preprocessor -DUSE_CUDA -include cfloat",
    }


def test_validate_runs_probe_with_build_interpreter() -> None:
    job = STAGES["validate"].job
    folder = f"{VENV}\\Lib\\site-packages\\torch"
    artifact = Artifact("torch.whl", "", 0)
    wheel = Wheel(f"{RELEASE}+cu132", RELEASE, "13.2", folder, DEPS.python, "wheel", artifact)
    smoke = BuiltExtension("smoke", "built", {}, imports=("torchyard_smoke",))
    remaining = [*job.checks, "smoke: import"]
    *argv, given = build_probe_command(job, wheel, {"smoke": smoke}, 1, remaining)
    assert argv[:3] == [DEPS.python, "-X", "faulthandler"]
    assert argv[3].endswith("torch_probe.py")
    assert json.loads(given) == {
        "checks": [
            *("import", "version", "cuda", "archs", "machine_code"),
            *("device", "matmul", "reduction", "convolution", "autograd"),
            *("graph", "speed", "compile", "nccl", "extensions"),
        ],
        "version": f"{RELEASE}+cu132",
        "folder": folder,
        "cuda": "13.2",
        "cards": 1,
        "imports": {"smoke": ["torchyard_smoke"]},
    }
    assert job.smokes["smoke"].script == PureWindowsPath("C:/ty/templates/smoke/check.py")
