"""The wheels of torch and of CUDA's compiler on the package index, and what their own code says.

Only the members that answer are read, each wheel once.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from packaging.metadata import parse_email
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from tasks.core.model import Arch
from tasks.core.package_files import IndexFile
from tasks.system.network.package_index import open_package_index
from tasks.system.network.package_indexes import find_default_index

_SELECT_ARCHS = "*/FindCUDA/select_compute_arch.cmake"
_METADATA = "torch-*.dist-info/METADATA"
_CUDA_CMAKE = "torch/share/cmake/Caffe2/public/cuda.cmake"
_TORCH_MEMBERS = (
    *(_METADATA, _CUDA_CMAKE, _SELECT_ARCHS, "torch/version.py"),
    *("torch/utils/cpp_extension.py", "torch/cuda/__init__.py"),
)
_COMPILER_MEMBERS = ("nvidia/*/bin/ptxas", "nvidia/*/bin/nvcc", "nvidia/*/crt/host_config.h")
_COMPILER_PROJECTS = {"11": ("nvidia-cuda-nvcc-cu11",), "12": ("nvidia-cuda-nvcc-cu12",)}
_LATER_COMPILER_PROJECTS = ("nvidia-cuda-nvcc", "nvidia-cuda-crt")
_COMPILER_MACROS = {
    "gcc": "__GNUC__={}",
    "clang": "__GNUC__=4 __clang__ __clang_major__={}",
    "msvc": "_WIN32 _MSC_VER={}",
}
_PLATFORM_TAGS = {
    "linux x86_64": r"(many)?linux.*_x86_64",
    "linux aarch64": r"(many)?linux.*_aarch64",
    "windows x86_64": "win_amd64",
}
_Wheels = dict[Version, list[IndexFile]]


@dataclass(frozen=True)
class TorchWheel:
    """A wheel of torch, by the contents of some of its members."""

    name: str
    members: Mapping[str, bytes] = field(repr=False)

    def _read(self, suffix: str) -> str:
        return next(data for path, data in self.members.items() if path.endswith(suffix)).decode()

    @cached_property
    def requires_python(self) -> SpecifierSet:
        """Return the Pythons that METADATA admits."""
        return SpecifierSet(parse_email(self._read("/METADATA"))[0]["requires_python"])

    @cached_property
    def cuda(self) -> str | None:
        """Return the CUDA of torch.version, "13.2"; None for a CPU wheel."""
        namespace: dict[str, Any] = {}
        exec(self._read("/version.py"), namespace)
        cuda: str | None = namespace["cuda"]
        return cuda

    @cached_property
    def code(self) -> dict[str, dict[str, set[int]]]:
        """Return torch's table CUDA → machine → archs (120); {} before torch 2.13."""
        for node in ast.parse(self._read("cuda/__init__.py")).body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target).endswith("CODE_CC"):
                table = ast.literal_eval(ast.unparse(node.value or node.target))
                return table if isinstance(next(iter(table.values())), dict) else {}
        return {}

    @cached_property
    def least_cuda(self) -> str:
        """Return the oldest CUDA that torch's CMake code accepts for a build of torch."""
        text = self._read("public/cuda.cmake")
        found = re.search(r"CUDA_VERSION VERSION_LESS ([\d.]+)\)\s+message\(FATAL_ERROR", text)
        return found[1] if found else "0"

    def read_arch_list(self, text: str) -> set[str]:
        """Return the nvcc flags of an extension's TORCH_CUDA_ARCH_LIST. Raises `ValueError`."""
        function = "_get_cuda_arch_flags"
        namespace = self._execute("cpp_extension.py", {function})
        with mock.patch.dict(os.environ, TORCH_CUDA_ARCH_LIST=text):
            return {flag.removeprefix("-gencode=") for flag in namespace[function]()}

    def read_cmake_arch_list(self, text: str) -> set[str]:
        """Return the nvcc flags of TORCH_CUDA_ARCH_LIST for torch's build. Raises `ValueError`."""
        select = "cuda_select_nvcc_arch_flags(flags ${archs})"
        lines = ["set(CUDA_VERSION 13.0)", self._read(_SELECT_ARCHS[1:]), f'set(archs "{text}")']
        script = "\n".join([*lines, select, 'message("= ${flags}")'])
        with tempfile.NamedTemporaryFile("w", suffix=".cmake") as file:
            file.write(script)
            file.flush()
            command = ["cmake", "-P", file.name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(done.stderr)
        return {*done.stderr.rpartition("= ")[2].split(";")} - {"-gencode"}

    def can_run(self, device: Arch, code: int, cuda: str) -> bool:
        """Return True if torch says that the GPU runs a cubin of `code` (120), made by `cuda`."""
        names = {"_CompatInterval", "_CompatSet", "DEVICE_REQUIREMENT", "_device_requirement"}
        names |= {"DEVICE_REQUIREMENT_POST_JETSON_SBSA_UNIFICATION", "_code_compatible_with_device"}
        namespace = self._execute("cuda/__init__.py", names)
        namespace["torch"] = SimpleNamespace(version=SimpleNamespace(cuda=cuda))
        can_run = namespace["_code_compatible_with_device"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Kepler, which torch dropped, has no rule of its own
            return bool(can_run(device.major * 10 + device.minor, code))

    def _execute(self, suffix: str, names: set[str]) -> dict[str, Any]:
        """Execute the definitions of a module with these names, and nothing else of it."""
        body = [node for node in ast.parse(self._read(suffix)).body if _get_name(node) in names]
        assert {_get_name(node) for node in body} == names, self.name
        prelude = "from __future__ import annotations\nimport collections, os, re, warnings\n"
        namespace: dict[str, Any] = {}
        exec(prelude + "\n".join(map(ast.unparse, body)), namespace)
        return namespace


def _get_name(node: ast.stmt) -> str:
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.target)
    return node.name if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else ""


@dataclass(frozen=True)
class Compiler:
    """The compiler of a CUDA release.

    `assembled` are the archs of ptxas, `compiled` those that nvcc lists: None before CUDA 13, whose
    packages have no nvcc. `host_config` is the header that checks the host compiler.
    """

    cuda: str
    name: str
    assembled: frozenset[Arch]
    compiled: frozenset[Arch] | None
    host_config: str

    def accepts(self, kind: str, version: int) -> bool:
        """Return True if the header accepts a GCC or clang (major version) or MSVC (_MSC_VER)."""
        lines = self.host_config.splitlines()
        text = "\n".join(line for line in lines if not line.startswith("#include"))
        macros = ["__CUDACC__", *_COMPILER_MACROS[kind].format(version).split()]
        command = [
            "gcc",
            "-E",
            "-undef",
            *(f"-D{macro}" for macro in macros),
            "-o",
            os.devnull,
            "-",
        ]
        done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0 or "#error" in done.stderr, done.stderr
        return done.returncode == 0


class PublishedWheels:
    """The default package index. `folder` gets the programs of the CUDA compilers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index = open_package_index(find_default_index(), timeout=60)
        self._projects: dict[str, _Wheels] = {}
        self._torches: dict[str, TorchWheel] = {}
        self._compilers: dict[str, Compiler] = {}

    def has_torch(self, version: str) -> bool:
        """Return True if the index has this release, for any Python and platform."""
        return Version(version) in self._list_wheels("torch")

    def find_torch(self, version: str, python: str, platform: str) -> TorchWheel | None:
        """Return the wheel for a Python ("3.12") and a platform ("linux x86_64")."""
        tag = "cp" + python.replace(".", "")
        files = self._list_wheels("torch")[Version(version)]
        found = [file for file in files if _fits(file, (tag, tag), platform)]
        return self._read_torch(found[0]) if found else None

    def read_torch(self, version: str) -> TorchWheel:
        """Return a CUDA wheel of the release, the one that was read already if there is one."""
        files = self._list_wheels("torch")[Version(version)]
        linux = [file for file in files if re.search(r"linux.*_x86_64", file.name)]
        return self._read_torch(min(linux, key=lambda file: file.name not in self._torches))

    def has_compiler(self, cuda: str, platform: str) -> bool:
        """Return True if the index has nvcc of a CUDA release ("13.2") for this platform."""
        files = self._find_release("nvidia-cuda-nvcc", cuda)
        return any(_fits(file, ("py3", "none"), platform) for file in files)

    def read_compiler(self, cuda: str) -> Compiler:
        """Return the compiler of a CUDA release, whose programs were run for their archs."""
        if cuda not in self._compilers:
            self._compilers[cuda] = self._read_compiler(cuda)
        return self._compilers[cuda]

    def _read_compiler(self, cuda: str) -> Compiler:
        members: dict[str, bytes] = {}
        names = []
        major = cuda.partition(".")[0]
        for project in _COMPILER_PROJECTS.get(major, _LATER_COMPILER_PROJECTS):
            files = self._find_release(project, cuda)
            file = next(file for file in files if _fits(file, ("py3", "none"), "linux x86_64"))
            content = self._index.read_members(file, _COMPILER_MEMBERS)
            members |= {path.rpartition("/")[2]: data for path, data in content.items()}
            names.append(file.name)
        assembled = self._run(cuda, "ptxas", members["ptxas"], "--help")
        compiled = None
        if nvcc := members.get("nvcc"):
            compiled = self._run(cuda, "nvcc", nvcc, "--list-gpu-code")
        header = members["host_config.h"].decode()
        return Compiler(cuda, " and ".join(names), assembled, compiled, header)

    def _run(self, cuda: str, name: str, content: bytes, option: str) -> frozenset[Arch]:
        program = self._folder / f"{name}-{cuda}"
        program.write_bytes(content)
        program.chmod(0o755)
        done = subprocess.run([program, option], capture_output=True, text=True, check=True)
        program.unlink()
        # ptxas quotes the archs that it can assemble for, and names others in its explanations
        return frozenset(parse_archs(done.stdout, "'sm_" if name == "ptxas" else "sm_"))

    def _read_torch(self, file: IndexFile) -> TorchWheel:
        if file.name not in self._torches:
            members = self._index.read_members(file, _TORCH_MEMBERS)
            self._torches[file.name] = TorchWheel(file.name, members)
        return self._torches[file.name]

    def _find_release(self, project: str, cuda: str) -> Sequence[IndexFile]:
        """Return the wheels of the last patch of a CUDA release."""
        wheels = self._list_wheels(project)
        patches = [one for one in wheels if f"{one.major}.{one.minor}" == cuda]
        return wheels[max(patches)] if patches else ()

    def _list_wheels(self, project: str) -> _Wheels:
        if project not in self._projects:
            wheels: _Wheels = {}
            for file in self._index.list_files(project):
                version = _parse_version(file)
                if version and not version.is_prerelease and not file.yanked:
                    wheels.setdefault(version, []).append(file)
            self._projects[project] = wheels
        return self._projects[project]


def parse_archs(text: str, prefix: str) -> Iterator[Arch]:
    """Yield the archs in a text, such as 9.0a of sm_90a for the prefix "sm_"."""
    for major, minor, suffix in re.findall(rf"{prefix}(\d+)(\d)([af]?)\b", text):
        yield Arch(int(major), int(minor), suffix)


def _parse_version(file: IndexFile) -> Version | None:
    try:
        return parse_wheel_filename(file.name)[1]
    except InvalidWheelFilename:
        return None


def _fits(file: IndexFile, abi: tuple[str, str], platform: str) -> bool:
    tags = parse_wheel_filename(file.name)[3]
    return any(
        (tag.interpreter, tag.abi) == abi and re.fullmatch(_PLATFORM_TAGS[platform], tag.platform)
        for tag in tags
    )
