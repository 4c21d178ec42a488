from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.knowledge.wheel_facts import (
    CMAKE_MEMBER,
    CPP_EXTENSION_MEMBER,
    CUDA_MEMBER,
    TORCH_MEMBERS,
    VERSION_MEMBER,
    list_wheel_pythons,
    parse_code_table,
    parse_extension_archs,
    read_companion_requirement,
    read_torch_wheel,
)
from tests.support.rows import each_row

METADATA = """\
Metadata-Version: 2.4
Name: torch
Version: 2.15.0
Requires-Python: >=3.11
Requires-Dist: filelock
Requires-Dist: setuptools>=77.0.3
Requires-Dist: nvidia-cudnn-cu13==9.26.0.51; platform_system == "Linux"
Requires-Dist: nvidia-nccl-cu13==2.30.7; platform_system == "Linux"
Requires-Dist: nvidia-nvshmem-cu13==3.7.2; platform_system == "Linux"
Requires-Dist: triton~=3.9.0; platform_system == "Linux" and python_version < "3.16"
Requires-Dist: setuptools<70; extra == "legacy"
"""
OLD_METADATA = """\
Metadata-Version: 2.1
Name: torch
Version: 2.0.1
Requires-Python: >=3.8.0
Requires-Dist: nvidia-cudnn-cu11 (==8.5.0.96) ; platform_system == "Linux"
Requires-Dist: nvidia-nccl-cu11 (==2.14.3) ; platform_system == "Linux"
Requires-Dist: triton (==2.0.0) ; platform_system == "Linux" and platform_machine == "x86_64"
"""
VERSION = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.15.0+cu132'
debug = False
cuda: Optional[str] = '13.2'
hip: Optional[str] = None
"""
CPP_EXTENSION = """\
MINIMUM_GCC_VERSION = (5, 0, 0)
MINIMUM_MSVC_VERSION = (19, 20, 0)

def _get_cuda_arch_flags(cflags=None):
    supported_arches = ['7.5', '9.0', '9.0a', '12.0',
                        '10.0']
    valid_arch_strings = supported_arches + [s + "+PTX" for s in supported_arches]

def flags():
    return ['-std=c++20', '/std:c++20']
"""
CUDA = """\
PYTORCH_RELEASES_CODE_CC: dict[str, dict[str, set[int]]] = {
    "12.6": {"x86_64": {50, 90, 75}, "aarch64": {80, 90}},
    "13.2": {"x86_64": {75, 120}},
}
"""
CMAKE = """\
find_package(CUDAToolkit REQUIRED)
if(NOT CMAKE_CUDA_COMPILER_VERSION VERSION_EQUAL CUDAToolkit_VERSION)
  message(FATAL_ERROR "Found two conflicting CUDA versions")
endif()
if(CUDA_VERSION VERSION_LESS 12.6)
  message(FATAL_ERROR "PyTorch requires CUDA 12.6 or above.")
endif()
"""


def build_members(**texts: str) -> dict[str, bytes]:
    contents = {
        "metadata": METADATA,
        "version": VERSION,
        "cpp_extension": CPP_EXTENSION,
        "cuda": CUDA,
        "cmake": CMAKE,
    } | texts
    names = ("torch-2.15.0.dist-info/METADATA", *TORCH_MEMBERS[1:])
    return {name: text.encode() for name, text in zip(names, contents.values(), strict=True)}


def test_wheel_gives_the_row_of_its_release() -> None:
    assert read_torch_wheel(build_members()) == {
        "version": "2.15.0",
        "local": "cu132",
        "cuda": "13.2",
        "requires_python": ">=3.11",
        "setuptools": ">=77.0.3",
        "triton": "~=3.9.0",
        "cudnn": "9.26.0.51",
        "nccl": "2.30.7",
        "cxx_std": 20,
        "msvc_min": "19.20",
        "min_cuda_cmake": "12.6",
        "extension_archs": ["7.5", "9.0", "9.0a", "10.0", "12.0"],
        "code": {
            "12.6": {"x86_64": ["5.0", "7.5", "9.0"], "aarch64": ["8.0", "9.0"]},
            "13.2": {"x86_64": ["7.5", "12.0"]},
        },
    }


def test_windows_line_ends_make_no_difference() -> None:
    members = build_members()
    crlf = {name: data.replace(b"\n", b"\r\n") for name, data in members.items()}
    assert read_torch_wheel(crlf) == read_torch_wheel(members)


def test_requirements_in_the_form_of_older_releases_are_read() -> None:
    row = read_torch_wheel({"torch-2.0.1.dist-info/METADATA": OLD_METADATA.encode()})
    assert row == {
        "version": "2.0.1",
        "requires_python": ">=3.8",
        "setuptools": "",
        "triton": "==2.0.0",
        "cudnn": "8.5.0.96",
        "nccl": "2.14.3",
    }


@each_row(
    ("version", "local"), [("2.15.0", None), ("2.15.0+cu132", "cu132"), ("2.15.0.dev1+cpu", "cpu")]
)
def test_local_part_comes_from_metadata_only_if_it_is_there(
    version: str, local: str | None
) -> None:
    metadata = METADATA.replace("2.15.0", version)
    row = read_torch_wheel({"torch.dist-info/METADATA": metadata.encode()})
    assert (row["version"], row.get("local")) == (version.split("+", maxsplit=1)[0], local)


@each_row(
    ("specifier", "text"),
    [
        (">=3.8.0", ">=3.8"),
        (">=3.10", ">=3.10"),
        ("~=3.8.0", "~=3.8.0"),
        (">= 3.9, <4", ">=3.9,<4"),
    ],
)
def test_required_python_has_no_zero_patch(specifier: str, text: str) -> None:
    metadata = METADATA.replace(">=3.11", specifier)
    row = read_torch_wheel({"torch.dist-info/METADATA": metadata.encode()})
    assert row["requires_python"] == text


def test_build_without_cuda_has_no_libraries_of_cuda() -> None:
    version = VERSION.replace("cu132", "cpu").replace("'13.2'", "None")
    row = read_torch_wheel(build_members(version=version))
    assert row["cuda"] is None
    assert row["local"] == "cpu"
    assert not {"cudnn", "nccl"} & row.keys()


@each_row(
    ("line", "key", "value"),
    [
        ('setuptools; python_version >= "3.12"', "setuptools", ""),
        ("setuptools<82", "setuptools", "<82"),
        ("pytorch-triton==3.5.0+git1a2b3c4", "triton", "==3.5.0"),
        ("triton", "triton", None),
        ("nvidia-cudnn-cu12>=9", "cudnn", None),
        ("nvidia-cudnn-cu12==9.1,!=9.2", "cudnn", None),
        ("nvidia-nccl-cu12 (==2.20.5)\r", "nccl", "2.20.5"),
        ("!!! no requirement", "nccl", None),
    ],
)
def test_one_requirement_gives_one_value(line: str, key: str, value: str | None) -> None:
    metadata = f"Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\nRequires-Dist: {line}\n"
    assert read_torch_wheel({"torch-2.6.0.dist-info/METADATA": metadata.encode()}).get(key) == value


@each_row("member", [VERSION_MEMBER, CPP_EXTENSION_MEMBER, CUDA_MEMBER, CMAKE_MEMBER])
def test_member_that_is_missing_or_garbage_loses_only_its_own_facts(member: str) -> None:
    members = build_members()
    row = read_torch_wheel(members)
    garbage = read_torch_wheel(members | {member: b"\x00\xff ((((" * 9})
    missing = read_torch_wheel({name: members[name] for name in members if name != member})
    assert garbage == missing
    lost = row.keys() - missing.keys()
    assert (
        lost
        == {
            VERSION_MEMBER: {"cuda", "local"},
            CPP_EXTENSION_MEMBER: {"cxx_std", "msvc_min", "extension_archs"},
            CUDA_MEMBER: {"code"},
            CMAKE_MEMBER: {"min_cuda_cmake"},
        }[member]
    )


def test_no_members_give_an_empty_row() -> None:
    assert read_torch_wheel({}) == {}


@each_row(
    ("body", "archs"),
    [
        ("supported_arches = ['7.5']\n    supported_arches += ['12.0']", ["7.5", "12.0"]),
        ("supported_arches = ['7.5']\n    supported_arches.append('9.0a')", ["7.5", "9.0a"]),
        ("supported_arches = ['7.5']\n    supported_arches.extend(('8.0', '7.5'))", ["7.5", "8.0"]),
        ("supported_arches: list[str] = ['10.0', '9.0']", ["9.0", "10.0"]),
        ("supported_arches = ['7.5']\n    supported_arches += find_more()", []),
        ("supported_arches = ['7.5']\n    supported_arches.append()", ["7.5"]),
        ("supported_arches = ['7.5']\n    supported_arches.extend()", []),
        ("supported_arches = '7.5'", []),
        ("supported_arches = ['all']", []),
        ("supported_arches: list[str]", []),
        ("other = ['7.5']", []),
    ],
)
def test_extension_archs_include_what_the_code_adds(body: str, archs: list[str]) -> None:
    assert parse_extension_archs(f"def _get_cuda_arch_flags():\n    {body}\n") == archs


def test_list_of_another_function_is_not_read() -> None:
    assert parse_extension_archs("def other():\n    supported_arches = ['7.5']\n") == []


@each_row(
    ("table", "code"),
    [
        ("{'13.0': {'x86_64': (90, 75)}}", {"13.0": {"x86_64": ["7.5", "9.0"]}}),
        ("{'13.0': {'x86_64': [120], 'aarch64': None}}", {"13.0": {"x86_64": ["12.0"]}}),
        ("{'12.6': {50, 90}, '13.0': {75, 110, 120}}", {}),  # torch 2.11 and 2.12
        ("{'13.0': {'x86_64': {'sm_90'}}}", {}),
        ("{'13.0': {'x86_64': {9, 0xFFFFFFFFFFFF}}}", {}),
        ("{13: {'x86_64': {90}}}", {}),
        ("build_table()", {}),
        ("{[]: 1}", {}),
        ("None", {}),
    ],
)
def test_code_table_of_another_shape_is_left_out(table: str, code: dict[str, Any]) -> None:
    assert parse_code_table(f"PYTORCH_RELEASES_CODE_CC = {table}\n") == code


@each_row(
    ("line", "specifier"),
    [
        ("Requires-Dist: torch (==2.0.1)", "==2.0.1"),
        ("Requires-Dist: torch==2.8.0", "==2.8.0"),
        ("Requires-Dist: torch==2.8.0+cu128", "==2.8.0"),
        ("Requires-Dist: torch>=2.14.0", ">=2.14.0"),
        ("Requires-Dist: torch", ""),
        ("Requires-Dist: torch-geometric==1.0", ""),
        ("Requires-Dist: numpy", ""),
        ("", ""),
    ],
)
def test_companion_requires_a_torch(line: str, specifier: str) -> None:
    metadata = f"Metadata-Version: 2.1\nName: torchvision\nVersion: 0.23.0\n{line}\n"
    assert read_companion_requirement(metadata.encode()) == specifier


def test_pythons_are_listed_by_platform_in_numeric_order() -> None:
    names = [
        "torch-2.9.1-cp314-cp314-manylinux_2_28_x86_64.whl",
        "torch-2.9.1-cp310-cp310-manylinux_2_28_x86_64.whl",
        "torch-2.9.1-cp39-cp39-manylinux1_x86_64.whl",
        "torch-2.9.1-cp314-cp314t-manylinux_2_28_x86_64.whl",
        "torch-2.9.1-cp315-abi3t-manylinux_2_28_x86_64.whl",
        "torch-2.9.1-cp312-cp312-manylinux_2_28_aarch64.whl",
        "torch-2.9.1-1-cp312-cp312-manylinux2014_aarch64.whl",
        "torch-2.9.1-cp311-none-macosx_11_0_arm64.whl",
        "torch-2.9.1-cp312-cp312-win_amd64.whl",
        "torch-2.9.1-cp312-cp312-musllinux_1_2_x86_64.whl",
        "torch-2.9.1-cp312-cp312-win32.whl",
        "torch-2.9.1-pp310-pypy310_pp73-manylinux2014_x86_64.whl",
        "torch-2.9.1.tar.gz",
        "not a wheel",
        "torch-x-y-z.whl",
    ]
    assert list_wheel_pythons(names) == {
        ("linux", "aarch64"): ["3.12"],
        ("linux", "x86_64"): ["3.9", "3.10", "3.14"],
        ("macos", "aarch64"): ["3.11"],
        ("windows", "x86_64"): ["3.12"],
    }


@each_row(
    ("tags", "pythons"),
    [
        (
            "cp312-abi3-manylinux_2_27_x86_64.manylinux_2_28_x86_64",
            {("linux", "x86_64"): ["3.12+"]},
        ),
        ("py3-none-win_arm64", {("windows", "aarch64"): ["3+"]}),
        (
            "py2.py3-none-macosx_11_0_universal2",
            {("macos", "aarch64"): ["3+"], ("macos", "x86_64"): ["3+"]},
        ),
        (
            "py3-none-any",
            {
                (system, machine): ["3+"]
                for system in ("linux", "macos", "windows")
                for machine in ("aarch64", "x86_64")
            },
        ),
    ],
)
def test_wheel_for_several_pythons_has_no_last_one(tags: str, pythons: dict[Any, Any]) -> None:
    assert list_wheel_pythons([f"torchvision-0.29.2-{tags}.whl"]) == pythons


@given(st.binary(max_size=200), st.sampled_from(TORCH_MEMBERS))
def test_no_bytes_raise_an_error(data: bytes, member: str) -> None:
    name = member.replace("*", "torch-2.0.0")
    assert isinstance(read_torch_wheel({name: data}), dict)
    assert isinstance(read_companion_requirement(data), str)


@pytest.mark.parametrize("text", ["-" * 99_999 + "1", "(" * 999, "x = {{}: 1}", "x = [" * 200])
def test_source_that_python_cannot_parse_gives_nothing(text: str) -> None:
    source = {CPP_EXTENSION_MEMBER: text.encode(), CUDA_MEMBER: text.encode()}
    assert read_torch_wheel(source) == {}
