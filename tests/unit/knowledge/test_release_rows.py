"""A release is read out of one of its wheels on a package index."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tasks.core.errors import FetchError
from tasks.core.package_files import IndexFile
from tasks.knowledge.release_rows import (
    build_release_row,
    choose_wheel,
    find_companion_release,
    format_pythons,
    list_minor_releases,
    list_releases,
    read_release,
)
from tests.support.memoryindex import MemoryIndex, build_companion, build_torch, name_wheel

LINUX, WINDOWS, MAC, ARM = (
    ("linux", "x86_64"),
    ("windows", "x86_64"),
    ("macos", "aarch64"),
    ("linux", "aarch64"),
)
WINDOWS_TAG, MAC_TAG, ARM_TAG = "win_amd64", "macosx_11_0_arm64", "manylinux_2_28_aarch64"


def files(*names: str, yanked: Sequence[str] = ()) -> tuple[IndexFile, ...]:
    return tuple(IndexFile(name, f"https://h/{name}", yanked=name in yanked) for name in names)


def torch(version: str, python: str = "cp312", tag: str = "manylinux_2_28_x86_64") -> str:
    return name_wheel("torch", version, python, tag)


def test_final_releases_with_a_wheel_are_listed_in_order() -> None:
    names = [
        *(torch("2.10.0"), torch("2.9.1"), torch("2.9.1", "cp311"), torch("2.16.0rc1")),
        *(torch("2.17.0.dev20261101"), torch("2.11.0+cu130"), torch("2.8.0.post1")),
        *("torch-2.18.0.tar.gz", "torch.whl", torch("2.7.0")),
    ]
    found = list_releases(files(*names, yanked=[torch("2.7.0")]))
    assert found == ("2.8.0.post1", "2.9.1", "2.10.0", "2.11.0")
    assert list_minor_releases(files(*names)) == ("2.7", "2.8", "2.9", "2.10", "2.11")
    assert list_releases(()) == ()


@pytest.mark.parametrize(
    ("names", "platforms", "python", "chosen"),
    [
        ([], [LINUX], "3.12", None),
        ([torch("2.16.0", "cp311"), torch("2.16.0")], [LINUX], "3.12", torch("2.16.0")),
        ([torch("2.16.0"), torch("2.16.0", "cp311")], [LINUX], "3.9", torch("2.16.0")),
        ([torch("2.16.0", "cp39"), torch("2.16.0", "cp310")], [LINUX], "3.12",
         torch("2.16.0", "cp310")),
        ([torch("2.16.0"), torch("2.16.0", tag=WINDOWS_TAG)], [WINDOWS, LINUX], "3.12",
         torch("2.16.0", tag=WINDOWS_TAG)),
        ([torch("2.16.0"), torch("2.16.0", tag=ARM_TAG)], [MAC, ARM], "3.12",
         torch("2.16.0", tag=ARM_TAG)),
        ([torch("2.16.0", "cp39", MAC_TAG), torch("2.16.0", tag=ARM_TAG)], [LINUX], "3.12",
         torch("2.16.0", "cp39", MAC_TAG)),
        ([torch("2.16.0+cpu"), torch("2.16.0+cu132"), torch("2.16.0")], [LINUX], "3.12",
         torch("2.16.0+cu132")),
        (["torch-2.16.0-1-cp312-cp312-manylinux_2_28_x86_64.whl", torch("2.16.0")], [LINUX],
         "3.12", "torch-2.16.0-1-cp312-cp312-manylinux_2_28_x86_64.whl"),
        (["torch-2.16.0-py3-none-any.whl"], [MAC, LINUX], "3.12", "torch-2.16.0-py3-none-any.whl"),
    ],
)  # fmt: skip
def test_wheel_to_read_is_for_the_platform_and_python(
    names: list[str], platforms: list[tuple[str, str]], python: str, chosen: str | None
) -> None:
    found = choose_wheel(files(*names), platforms, python)
    assert (found.name if found else None) == chosen


@pytest.mark.parametrize(
    ("pythons", "text"),
    [
        ({LINUX: ["3.9", "3.10"], MAC: ["3.13"]},
         {"linux x86_64": ["3.9", "3.10"], "macos aarch64": ["3.13"]}),
        ({LINUX: ["3.12+"]}, {"linux x86_64": ["3.12", "3.99"]}),
        ({LINUX: ["3.10", "3.12+"]}, {"linux x86_64": ["3.10", "3.99"]}),
        ({LINUX: ["3+"]}, {"linux x86_64": ["3.0", "3.99"]}),
        ({}, {}),
    ],
)  # fmt: skip
def test_pythons_of_wheels_are_ranges_by_platform(
    pythons: dict[tuple[str, str], list[str]], text: dict[str, list[str]]
) -> None:
    assert format_pythons(pythons) == text


def test_row_has_only_the_keys_that_could_be_read() -> None:
    (file,) = files(torch("2.16.0"))
    pythons = {"linux x86_64": ["3.12"]}
    assert build_release_row({}, [file], file) == {
        "pypi_pythons": pythons,
        "status": f"verified: {file.name}",
    }
    cpu = build_release_row({"cuda": None, "cxx_std": 20, "local": "cpu"}, [file], file)
    status = f"verified: {file.name}"
    expected = {"pypi_pythons": pythons, "cxx_std": 20, "status": status, "has_cuda": False}
    assert cpu == expected


def test_row_of_a_wheel_has_the_code_of_each_cuda() -> None:
    name = torch("2.16.0")
    (file,) = files(name)
    facts = {
        "cuda": "13.2.1",
        "cudnn": "9.26",
        "nccl": "2.30",
        "triton": "~=3.10.0",
        "setuptools": "",
        "extension_archs": ["9.0"],
        "code": {"13.0": {"x86_64": ["9.0"]}, "13.2": {"x86_64": ["9.0"], "aarch64": ["12.0"]}},
    }
    row = build_release_row(facts, files(name, torch("2.16.0", "cp311", ARM_TAG)), file)
    status = f"verified: {name}"

    def build_wheel(cuda: str, machine: str, arch: str, *, pypi: bool) -> dict[str, object]:
        wheel = {"cuda": cuda, "system": "linux", "machine": machine, "pypi": pypi}
        return {**wheel, "archs": [arch], "ptx": [], "status": status}

    assert row == {
        "setuptools": "",
        "extension_archs": ["9.0"],
        "pypi_pythons": {"linux aarch64": ["3.11"], "linux x86_64": ["3.12"]},
        "companions": {"triton": "~=3.10.0"},
        "pypi_cuda": "13.2",
        "cudnn": {"13.2": "9.26"},
        "nccl": {"13.2": "2.30"},
        "cudas_built": ["13.0", "13.2"],
        "wheels": [
            build_wheel("13.0", "x86_64", "9.0", pypi=False),
            build_wheel("13.2", "x86_64", "9.0", pypi=True),
            build_wheel("13.2", "aarch64", "12.0", pypi=True),
        ],
        "status": status,
    }


@pytest.mark.parametrize(
    ("local", "is_official"), [("", True), ("cu132", True), ("cu132.sm120", False), ("cpu", False)]
)
def test_table_of_archs_counts_for_official_wheels_only(local: str, is_official: bool) -> None:
    (file,) = files(torch("2.16.0"))
    facts = {"cuda": "13.2", "local": local, "code": {"13.2": {"x86_64": ["9.0"]}}}
    row = build_release_row(facts, [file], file)
    assert row["pypi_cuda"] == "13.2"
    assert ("wheels" in row, "cudas_built" in row) == (is_official, is_official)


def test_release_is_read_from_its_wheel_with_evidence() -> None:
    name = torch("2.16.0")
    wheels = {
        torch("2.15.0"): build_torch("2.15.0"),
        torch("2.16.0", "cp311"): build_torch("2.16.0"),
        name: build_torch("2.16.0"),
    }
    index = MemoryIndex({"torch": wheels})
    listed = index.list_files("torch")
    row = read_release(index, listed, "2.16.0", [LINUX], "3.12")
    assert row is not None
    (digest,) = (file.sha256 for file in listed if file.name == name)
    assert index.read == [name]
    assert row["origin"] == f"read from the wheel {name} (sha256 {digest[:12]}…)"
    proof = {"file": name, "version": "2.16.0", "sha256": digest, "size": 0}
    assert row["evidence"] == [proof]
    assert (row["pypi_cuda"], row["requires_python"]) == ("13.2", ">=3.11")
    assert row["pypi_pythons"] == {"linux x86_64": ["3.11", "3.12"]}
    assert read_release(index, listed, "2.17.0", [LINUX], "3.12") is None


def test_wheel_without_the_files_of_torch_is_no_release() -> None:
    index = MemoryIndex({"torch": {torch("2.16.0"): {"torch/nothing.py": ""}}})
    assert read_release(index, index.list_files("torch"), "2.16.0", [LINUX], "3.12") is None


def test_wheel_that_cannot_be_read_is_an_error() -> None:
    name = torch("2.16.0")
    index = MemoryIndex({"torch": {name: build_torch("2.16.0")}}, unreadable=[name])
    with pytest.raises(FetchError):
        read_release(index, index.list_files("torch"), "2.16.0", [LINUX], "3.12")


@pytest.mark.parametrize(
    ("requires", "release", "read"),
    [
        ({"0.31.0": "==2.16.0", "0.30.0": "==2.15.0"}, "0.30.0", 2),
        ({"0.31.0": ">=2.14", "0.30.0": ">=2.14"}, "0.31.0", 1),
        ({"0.31.0": "==2.16.0"}, "", 1),
        ({"0.31.0": ""}, "", 1),
        ({f"0.{minor}.0": "==2.16.0" for minor in (31, 32, 33, 34)} | {"0.30.0": "==2.15.0"},
         "", 4),
        ({"0.9.0": "==2.15.0", "0.10.0": "==2.15.0"}, "0.10.0", 1),
        ({}, "", 0),
    ],
)  # fmt: skip
def test_companion_release_requires_the_torch(
    requires: dict[str, str], release: str, read: int
) -> None:
    wheels = {
        name_wheel("torchvision", version): build_companion("torchvision", version, torch)
        for version, torch in requires.items()
    }
    index = MemoryIndex({"torchvision": wheels})
    assert find_companion_release(index, "torchvision", "2.15.0") == release
    assert len(index.read) == read
