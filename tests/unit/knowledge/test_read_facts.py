"""Recorded rows are completed with rows that were read, and with those of the nearest release."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.knowledge.read_facts import (
    assume_row,
    assume_wheels,
    complete_read_row,
    complete_release_row,
    find_nearest,
    merge_rows,
    merge_tables,
)

Row = dict[str, Any]


def wheel(cuda: str, *archs: str, machine: str = "x86_64", **more: Any) -> Row:
    return {"cuda": cuda, "system": "linux", "machine": machine, "archs": list(archs), **more}


RELEASE: Row = {
    "patch": "2.15.0",
    "cxx_std": 20,
    "cmake": {"min": "3.27", "below": None},
    "companions": {"triton": "~=3.9.0"},
    "pypi_pythons": {"linux x86_64": ["3.11"]},
    "cudnn": {"13.2": "9.26"},
    "nccl": {"13.2": "2.30"},
    "evidence": [{"file": "torch.whl"}],
    "origin": "read from the wheel torch.whl",
    "status": "verified: W",
    "wheels": [wheel("13.2", "9.0", status="verified: W")],
}
TOOLKIT: Row = {
    "nvcc": "13.5.37",
    "sm": ["9.0"],
    "gcc_max": 16,
    "driver": {"linux": "595"},
    "pypi": True,
    "status": "verified: X",
}


@pytest.mark.parametrize(
    ("row", "read", "merged"),
    [
        ({"a": 1, "b": 2}, {}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, {"a": 1, "b": 3, "c": 4}),
        ({"a": {"x": 1, "y": {"z": 1}}}, {"a": {"y": {"z": 2}}}, {"a": {"x": 1, "y": {"z": 2}}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": None}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": {"x": 1}}, {"a": None}, {"a": None}),
        ({}, {"wheels": [wheel("13.2")]}, {"wheels": [wheel("13.2")]}),
        (
            {"wheels": [wheel("13.2", "9.0"), wheel("13.0", "8.0")]},
            {"wheels": [wheel("13.4"), wheel("13.2", "12.0"), wheel("13.2", machine="aarch64")]},
            {
                "wheels": [
                    *(wheel("13.2", "12.0"), wheel("13.0", "8.0"), wheel("13.4")),
                    wheel("13.2", machine="aarch64"),
                ]
            },
        ),
    ],
)
def test_values_that_were_read_replace_recorded_ones(row: Row, read: Row, merged: Row) -> None:
    before = repr(row)
    assert merge_rows(row, read) == merged
    assert repr(row) == before


@pytest.mark.parametrize(
    ("version", "nearest"),
    [
        *(("2.9", "2.9"), ("2.9.1", "2.9"), ("2.10", "2.9"), ("2.14.2", "2.9")),
        *(("2.15.9", "2.15"), ("2.16", "2.15"), ("3.1", "2.15"), ("2027.1", "2.15")),
        *(("2.8", ""), ("1.13.1", "")),
    ],
)
def test_nearest_release_is_the_newest_before(version: str, nearest: str) -> None:
    assert find_nearest(["2.15", "2.9"], version) == nearest


def test_new_release_has_the_common_values_of_the_nearest() -> None:
    status = "unverified: assumed to be as 2.15"
    assert assume_row({"2.9": {}, "2.15": RELEASE}, "2.16") == {
        "cxx_std": 20,
        "cmake": {"min": "3.27", "below": None},
        "status": status,
        "wheels": [wheel("13.2", "9.0", status=status)],
    }


@pytest.mark.parametrize(("cuda", "nearest"), [("13.6", "13.5"), ("14.0", "13.5"), ("9.0", "12.8")])
def test_new_toolkit_has_the_compilers_of_the_nearest(cuda: str, nearest: str) -> None:
    known = {"12.8": TOOLKIT | {"gcc_max": 14}, "13.5": TOOLKIT}
    assert assume_row(known, cuda) == {
        "sm": ["9.0"],
        "gcc_max": known[nearest]["gcc_max"],
        "pypi": False,
        "status": f"unverified: assumed to be as {nearest}",
    }


def test_tables_are_merged_in_the_order_of_releases() -> None:
    recorded = {"2.15": RELEASE, "2.9": {"cxx_std": 17, "status": "verified: W"}}
    read: dict[str, Row] = {
        "2.17": {"patch": "2.17.0"},
        "2.16": {"patch": "2.16.1", "cxx_std": 23, "status": "verified: torch.whl"},
        "2.15": {"patch": "2.15.1"},
    }
    table = merge_tables(recorded, read)
    assert list(table) == ["2.9", "2.15", "2.16", "2.17"]
    assert table["2.9"] == recorded["2.9"]
    assert table["2.15"] == RELEASE | {"patch": "2.15.1"}
    assert (table["2.16"]["patch"], table["2.16"]["cxx_std"]) == ("2.16.1", 23)
    assert table["2.16"]["status"] == "verified: torch.whl"
    assert table["2.16"]["wheels"][0]["status"] == "unverified: assumed to be as 2.15"
    # what was read of 2.16 is assumed for 2.17
    assert (table["2.17"]["patch"], table["2.17"]["cxx_std"]) == ("2.17.0", 23)
    assert table["2.17"]["status"] == "unverified: assumed to be as 2.16"


NONE = {"torchvision": None, "torchaudio": None, "triton": None}


@pytest.mark.parametrize(
    ("row", "completed"),
    [
        ({}, {"companions": NONE}),
        ({"companions": {"triton": "~=3.9.0"}}, {"companions": NONE | {"triton": "~=3.9.0"}}),
        (
            {"pypi_pythons": {"windows x86_64": ["3.10"], "linux x86_64": ["3.9", "3.13"]}},
            {"companions": NONE, "python": {"first": "3.9", "last": "3.13"}},
        ),
        (
            {"pypi_pythons": {"linux x86_64": ["3.9", "3.13"]}, "python": {"last": "3.15"}},
            {"companions": NONE, "python": {"first": "3.9", "last": "3.15"}},
        ),
        (
            {"cudas_built": ["13.2"], "wheels": [wheel("13.0"), wheel("13.2")]},
            {"companions": NONE, "wheels": [wheel("13.2")]},
        ),
    ],
)
def test_release_row_is_completed_from_its_own_values(row: Row, completed: Row) -> None:
    assert complete_release_row(row) == row | completed


@pytest.mark.parametrize(
    ("read", "pythons"),
    [
        ({}, {"linux x86_64": ["3.11"]}),
        ({"pypi_pythons": {}}, {"linux x86_64": ["3.11"]}),
        ({"pypi_pythons": {"linux aarch64": ["3.13"]}}, {"linux aarch64": ["3.13"]}),
    ],
)
def test_pythons_of_the_nearest_release_are_assumed_if_no_wheel_was_listed(
    read: Row, pythons: dict[str, list[str]]
) -> None:
    row = complete_read_row({"2.15": RELEASE}, "2.16", {"cxx_std": 23, **read})
    assert (row["pypi_pythons"], row["cxx_std"]) == (pythons, 23)
    assert row["status"] == "unverified: assumed to be as 2.15"


def test_wheel_that_does_not_list_its_archs_has_those_of_the_nearest_cuda() -> None:
    row = {
        "pypi_cuda": "13.4",
        "cudas_built": ["13.0", "13.2"],
        "wheels": [
            wheel("13.0", "9.0", pypi=False),
            wheel("13.2", "12.0", pypi=True),
            wheel("13.2", "11.0", pypi=True, machine="aarch64"),
        ],
    }
    assert assume_wheels(row) == {
        "pypi_cuda": "13.4",
        "cudas_built": ["13.0", "13.2", "13.4"],
        "wheels": [
            wheel("13.0", "9.0", pypi=False),
            wheel("13.2", "12.0", pypi=False),
            wheel("13.2", "11.0", pypi=False, machine="aarch64"),
            wheel("13.4", "12.0", pypi=True),
            wheel("13.4", "11.0", pypi=True, machine="aarch64"),
        ],
    }
    same = row | {"pypi_cuda": "13.2"}
    assert assume_wheels(same) == same
