"""Descriptions of the input changes that made a stage run."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tasks.core.canonical_json import find_changes
from tasks.core.input_changes import INPUT_LABELS, describe_input_changes
from tests.support.rows import each_row
from tests.unit.planning.test_decide import existing, host
from tests.unit.test_plan import every_stage, plan_of

EXTENSIONS: list[dict[str, Any] | str] = [
    {"name": "a", "path": "a"},
    {"name": "b", "sdist": "b==1.0", "requires": ["numpy"]},
    {"name": "c", "git": "https://git.example/c", "patches": ["c.patch"]},
    "gsplat",
]
SOURCE = {"torch": {"strategy": "source"}, "extensions": EXTENSIONS}
TOOLS = ["ninja>=1.13.1", "pip", "wheel", "build", "numpy", "cmake>=3.27"]
DISTCC = {"distribute": "distcc", "hosts": ["builder:3632/16"]}


def describe_changes(room: str, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return list(describe_input_changes(room, find_changes(before, after)))


def collect_inputs() -> dict[str, set[str]]:
    """Return the inputs of every stage kind, with all features enabled."""
    tree = {**SOURCE, "install": {"into": "/envs/gs/bin/python", "partial": True}}
    plans = (
        plan_of(host(), extensions=EXTENSIONS, companions=["torchvision"]),
        plan_of(host(), **tree, wheel={"cuda": "packages"}, build=DISTCC),
        plan_of(host(), **SOURCE, source={"path": "/src/pytorch"}, build={"env": {"CXX": "clang"}}),
        plan_of(host(), **SOURCE, source={"tarball": "/src/pytorch.tar"}),
        plan_of(host(), target={"gpus": []}),
        plan_of(host(), torch={"index": "https://index.example/"}, companions=["torchvision"]),
        plan_of(existing("2.11.0+cu130", "13.0"), torch={"strategy": "existing"}),
        plan_of(host(system="windows"), **SOURCE),
    )
    found: dict[str, set[str]] = defaultdict(set)
    for plan in plans:
        for stage in every_stage(plan):
            found[stage.kind] |= stage.fingerprint.keys()
    return found


def test_input_labels_match_inputs_of_every_stage() -> None:
    found = collect_inputs()
    everywhere = {"recipe", *INPUT_LABELS[""]}
    assert found.keys() == INPUT_LABELS.keys() - {""}
    for room, keys in found.items():
        assert keys - everywhere == INPUT_LABELS[room].keys() - everywhere, room


@each_row(
    ("room", "before", "after", "lines"),
    [
        (
            "source",
            {"kind": "git", "location": "https://git.example/p", "ref": "v2.6.0"},
            {"kind": "path", "location": "/src/p"},
            [
                "source: now a folder, was a git URL",
                "source: now /src/p, was https://git.example/p",
            ],
        ),
        ("compile", {"type": "Debug"}, {"type": "Release"}, ["build.type: now Release, was Debug"]),
        (
            "compile",
            {"flags": {}},
            {"flags": {"USE_NCCL": False}},
            ["build.flags.USE_NCCL: now false, was not set"],
        ),
        (
            "env",
            {"targets": ["9.0"], "arch_lists": {"torch": "9.0"}, "runtime": {}},
            {"targets": ["12.0"], "arch_lists": {"torch": "12.0"}, "runtime": {"A": "1"}},
            ["targets: now 12.0, was 9.0", "environment of programs: A: now 1, was not set"],
        ),
        ("env", {"cache": ["auto", "20G", {}]}, {"cache": ["off", "20G", {}]},
         ["build.cache, build.cache_size: now off, 20G, was auto, 20G"]),
        ("wheel", {"recipe": 2}, {"recipe": 3},
         ["this version of torchyard runs the stage differently"]),
        (
            "wheel",
            {"kind": "PrebuiltJob", "requirement": "torch==2.15.0", "cuda": "13.2"},
            {"kind": "BuiltJob", "release": "2.15.0", "cuda": "12.8"},
            ["CUDA: now 12.8, was 13.2", "torch: now built here, was an official wheel"],
        ),
        ("deps", {"gcc_max": 14}, {"gcc_max": 15}, ["newest accepted GCC: now 15, was 14"]),
        (
            "deps",
            {"tools": [*TOOLS, "setuptools>=70"]},
            {"tools": [*TOOLS, "setuptools>=77"]},
            ["build tools: now with setuptools>=77, without setuptools>=70"],
        ),
        ("extensions", {"ref": "main", "patches": []}, {"ref": "v2", "patches": ["/p"]},
         ["ref: now v2, was main", "patches: now /p, was none"]),
    ],
)  # fmt: skip
def test_input_change_is_described_in_user_terms(
    room: str, before: dict[str, Any], after: dict[str, Any], lines: list[str]
) -> None:
    assert describe_changes(room, before, after) == lines


def test_unknown_input_is_described_by_its_key() -> None:
    assert describe_changes("deps", {"venom": 1}, {}) == ["venom: now not set, was 1"]
    assert describe_changes("deps", {"a": [1]}, {"a": {"b": 1}}) == ["a: now b=1, was 1"]
    assert list(describe_input_changes("deps", find_changes([], {"a": 1}))) == [
        ": now a=1, was none"
    ]


def test_password_in_input_is_masked() -> None:
    (line,) = describe_changes("compile", {"env": {}}, {"env": {"URL": "https://me:secret@host/"}})
    assert line == "build.env.URL: now https://***@host/, was not set"
