"""`doit refresh` reads releases from an index, and compares them with the curated files."""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from pytest_mock import MockerFixture

from tasks.core.errors import FetchError
from tasks.core.model import Arch
from tasks.core.package_files import IndexFile
from tasks.knowledge.knowledge_files import parse_yaml
from tasks.knowledge.knowledge_files_io import (
    KNOWLEDGE_FOLDER,
    check_schema,
    load_knowledge,
    parse_knowledge_file,
)
from tasks.knowledge.knowledge_page import render_page
from tasks.knowledge.machine_code_rules import MachineCode
from tasks.knowledge.read_documents import (
    DOCUMENT_NAMES,
    Refreshed,
    refresh_documents,
    render_document,
)
from tasks.knowledge.refresh_review import (
    REVIEWED_FILES,
    list_changes,
    list_contradictions,
    list_open_bounds,
)
from tasks.knowledge.torch_refresh import Documents, Sources
from tests.support.newest import NEXT_CUDA, NEXT_MINOR, NEXT_TORCH
from tests.support.rows import each_row

NOTHING: Documents = {"pytorch": {"releases": {}}, "toolkits": {"releases": {}}}
CODE = MachineCode(frozenset([Arch(9, 0), Arch(12, 0)]))
TOOLKIT = {"nvcc": f"{NEXT_CUDA}.1", "sm": ["9.0", "12.0"], "a": [], "f": [], "gcc_max": 17}
LATER_PATCH = f"{NEXT_MINOR}.1"


@dataclass
class FakeIndex:
    """A package index in memory. It records the files that are read; `broken` ones fail."""

    url: str = "https://index.example/simple"
    content: dict[str, dict[str, bytes]] = field(default_factory=dict)  # of wheels by name
    read: list[str] = field(default_factory=list)
    broken: str = ""

    def list_files(self, project: str) -> tuple[IndexFile, ...]:
        if project == self.broken:
            raise FetchError("no answer")
        prefix = project.replace("-", "_") + "-"
        names = [name for name in self.content if name.startswith(prefix)]
        return tuple(IndexFile(name, "", self.digest(name)) for name in names)

    def digest(self, name: str) -> str:
        return hashlib.sha256(repr(self.content[name]).encode()).hexdigest()

    def read_members(self, file: IndexFile, names: Sequence[str]) -> Mapping[str, bytes]:
        if file.name == self.broken:
            raise FetchError("no answer")
        self.read.append(file.name)
        members = self.content[file.name].items()
        return {path: data for path, data in members if any(fnmatchcase(path, n) for n in names)}

    @contextmanager
    def open_member(self, file: IndexFile, name: str) -> Iterator[BinaryIO]:
        yield io.BytesIO(self.content[file.name][name])


def metadata(name: str, version: str, *lines: str) -> str:
    return "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines])


def add_torch(index: FakeIndex, version: str) -> str:
    """Add the wheels of a release, and return the name of the one that is read."""
    wheel = f"torch-{version}-cp311-cp311-manylinux_2_28_x86_64.whl"
    lines = ("Requires-Python: >=3.11", "Requires-Dist: triton~=3.10.0")
    table = f"PYTORCH_RELEASES_CODE_CC = {{'{NEXT_CUDA}': {{'x86_64': {{90, 120}}}}}}"
    index.content[wheel] = {
        f"torch-{version}.dist-info/METADATA": metadata("torch", version, *lines).encode(),
        "torch/version.py": f"__version__ = '{version}'\ncuda = '{NEXT_CUDA}'\n".encode(),
        "torch/cuda/__init__.py": table.encode(),
    }
    index.content[f"torch-{version}-cp315-cp315-win_amd64.whl"] = {}
    return wheel


@pytest.fixture
def index() -> FakeIndex:
    """Return an index with one release of torch, of its torchvision, and of the CUDA toolkit."""
    found = FakeIndex()
    add_torch(found, NEXT_TORCH)
    vision = "torchvision-0.99.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    requirement = f"Requires-Dist: torch>={NEXT_MINOR}.0"
    found.content[vision] = {
        "torchvision-0.99.0.dist-info/METADATA": metadata(
            "torchvision", "0.99.0", requirement
        ).encode()
    }
    kit, platform = f"{NEXT_CUDA}.1", "py3-none-manylinux_2_17_x86_64"
    extras = metadata("cuda-toolkit", kit, "Provides-Extra: cuobjdump")
    found.content[f"cuda_toolkit-{kit}-py3-none-any.whl"] = {
        f"cuda_toolkit-{kit}.dist-info/METADATA": extras.encode()
    }
    found.content[f"nvidia_cuda_nvcc-{kit}-{platform}.whl"] = {"nvidia/cu13/bin/nvcc": b"nvcc"}
    header = {"nvidia/cu13/include/crt/host_config.h": b""}
    found.content[f"nvidia_cuda_crt-{kit}-{platform}.whl"] = header
    return found


def refresh(index: FakeIndex, old: Documents = NOTHING, code: MachineCode = CODE) -> Refreshed:
    def read_code(file: IndexFile) -> MachineCode:
        index.read.append(f"the library of {file.name}")
        return code

    sources = Sources(index, read_code, lambda version, members: dict(TOOLKIT), report=str)
    return refresh_documents(sources, old, "2026-11-26")


def read_recorded(*names: str, folder: str = "") -> Documents:
    return {
        name: parse_knowledge_file(KNOWLEDGE_FOLDER / folder / f"{name}.yaml") for name in names
    }


def test_new_release_needs_no_hand_edit(index: FakeIndex, tmp_path: Path) -> None:
    refreshed = refresh(index, read_recorded(*DOCUMENT_NAMES, folder="read"))
    folder = tmp_path / "knowledge"
    shutil.copytree(KNOWLEDGE_FOLDER, folder)
    for name, document in refreshed.documents.items():
        (folder / f"read/{name}.yaml").write_text(render_document(name, document), "utf-8")
    assert list(check_schema(folder)) == []
    knowledge = load_knowledge(folder)
    release, toolkit = knowledge.releases[NEXT_MINOR], knowledge.toolkits[NEXT_CUDA]
    assert (release.patch, release.python, release.pypi_cuda) == (
        NEXT_TORCH,
        ("3.11", "3.15"),
        NEXT_CUDA,
    )
    assert (release.torchvision, release.triton) == ("==0.99.0", "~=3.10.0")
    assert {(w.cuda, w.pypi, w.code) for w in release.wheels} == {(NEXT_CUDA, True, CODE)}
    assert (toolkit.pypi, toolkit.cuobjdump, toolkit.gcc_max) == (True, True, 17)
    assert f"| {NEXT_TORCH}, PyPI ({NEXT_CUDA}) ✓ |" in render_page(knowledge)


def test_every_value_names_its_file(index: FakeIndex) -> None:
    documents = refresh(index).documents
    (row,) = documents["pytorch"]["releases"].values()
    assert row == {
        "patch": NEXT_TORCH,
        "requires_python": ">=3.11",
        "pypi_pythons": {"linux x86_64": ["3.11"], "windows x86_64": ["3.15"]},
        "pypi_cuda": NEXT_CUDA,
        "cudas_built": [NEXT_CUDA],
        "setuptools": "",
        "companions": {"torchvision": "==0.99.0", "triton": "~=3.10.0"},
        "wheels": [
            {
                "cuda": NEXT_CUDA,
                "system": "linux",
                "machine": "x86_64",
                "pypi": True,
                "archs": ["9.0", "12.0"],
                "ptx": [],
                "status": "verified: W SASS of PyPI's wheel",
            }
        ],
    }
    entries = documents["evidence"]["pytorch"][NEXT_TORCH]
    files = {value: entry["file"] for entry in entries for value in entry["values"]}
    assert files.keys() == {*row, "companions.triton", "companions.torchvision"} - {"companions"}
    assert files["pypi_pythons"] == f"torch-{NEXT_TORCH}-*.whl (2 files)"
    assert {entry["sha256"] for entry in entries} >= {
        index.digest(name) for name in (files["wheels"], files["companions.torchvision"])
    }


def test_files_that_were_read_are_not_read_again(index: FakeIndex) -> None:
    first = refresh(index)
    index.read.clear()
    assert refresh(index, first.documents) == first
    assert index.read == []
    wheel = add_torch(index, LATER_PATCH)  # the other release stays as a patch
    second = refresh(index, first.documents)
    assert set(index.read) == {wheel, f"the library of {wheel}"}
    row = second.documents["pytorch"]["releases"][NEXT_MINOR]
    pins = {"torchvision": "==0.99.0", "triton": "~=3.10.0"}
    assert (row["patch"], row["companions"]["patches"]) == (LATER_PATCH, {NEXT_TORCH: pins})


def test_changed_file_is_read_again(index: FakeIndex) -> None:
    first = refresh(index)
    for name in index.content:
        index.content[name]["changed"] = b""
    index.read.clear()
    refresh(index, first.documents)
    assert {name.removeprefix("the library of ") for name in index.read} == {
        name for name in index.content if "cp315" not in name
    }


def test_file_without_a_digest_is_read_again(index: FakeIndex, mocker: MockerFixture) -> None:
    mocker.patch.object(FakeIndex, "digest", return_value="")
    first = refresh(index)
    read = [*index.read]
    refresh(index, first.documents)
    assert index.read == [*read, *read]


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ("torch", f"torch {NEXT_MINOR} was not read: it keeps its values"),
        (f"torch-{LATER_PATCH}-cp311-cp311-manylinux_2_28_x86_64.whl", f"torch {NEXT_MINOR}:"),
        ("torchvision", "torchvision: no answer"),
        ("cuda-toolkit", f"CUDA {NEXT_CUDA} was not read: it keeps its values"),
        ("nvidia-cuda-crt", f"CUDA {NEXT_CUDA}: no answer"),
    ],
)
def test_index_that_does_not_answer_keeps_values(index: FakeIndex, broken: str, named: str) -> None:
    first = refresh(index)
    if LATER_PATCH in broken:
        add_torch(index, LATER_PATCH)
    second = refresh(replace(index, broken=broken), first.documents)
    assert second.documents == first.documents
    assert any(problem.startswith(named) for problem in second.problems), second.problems


RELEASE = {
    "patch": "2.16.0",
    "cxx_std": 20,
    "min_cuda_cmake": "12.6",
    "pypi_pythons": {"linux x86_64": ["3.11", "3.12"]},
    "companions": {"triton": "==4.0"},
    "wheels": [
        {"cuda": "13.2", "system": "linux", "machine": "x86_64", "pypi": True}
        | {"archs": ["9.0"], "ptx": [], "status": "verified: W"}
    ],
}
KIT = {"gcc_max": 15, "clang_max": 21, "msvc": {"min": 1920, "below": 1960}, "pypi": True}
READ: Documents = {
    "pytorch": {"releases": {"2.16": RELEASE}},
    "toolkits": {"releases": {"13.2": KIT}},
    "evidence": {"pytorch": {"2.16.0": [{"values": ["cxx_std", "wheels"], "file": "torch.whl"}]}},
}
MSVC, FLOOR = "vs2026-old-cuda", "min-cuda-vs-torch"
ACCEPTED = "host_config.h of CUDA 13.2 accepts msvc up to 1959"
CONTRADICTIONS = [
    ({"cxx_std": 17}, {}, [], "releases.2.16.cxx_std is 17, but torch.whl has 20"),
    (
        {"companions": {"triton": "==3.0"}},
        {},
        [],
        'releases.2.16.companions.triton is "==3.0", but the index has "==4.0"',
    ),
    (
        {"wheels": [{**RELEASE["wheels"][0], "archs": ["8.0"]}]},  # type: ignore[index]
        {},
        [],
        'wheels.13.2 linux x86_64.archs is ["8.0"], but torch.whl has ["9.0"]',
    ),
    (
        {"python": {"last": "3.13"}},
        {},
        [],
        "torch 2.16 on linux x86_64 are 3.11 to 3.13, but the index has 3.11 to 3.12",
    ),
    ({}, {"pypi": False}, [], "toolkits.yaml: releases.13.2.pypi is false, but the index has true"),
    (
        {},
        {},
        [{"id": MSVC, "when": [{"msvc": ">=1950", "cuda": "<13.3"}]}],
        f"{MSVC}: msvc >=1950 fails with CUDA <13.3, but {ACCEPTED}",
    ),
    (
        {},
        {},
        [{"id": MSVC, "when": {"msvc": ">=1960", "cuda": "<13.2"}}],
        f"{MSVC}: msvc >=1960 fails with CUDA <13.2, but {ACCEPTED}",
    ),
    (
        {},
        {},
        [{"id": FLOOR, "when": {"torch": ">=2.15", "cuda": "<13.3"}}],
        f"{FLOOR}: torch 2.16 needs CUDA 13.3, but its cuda.cmake needs 13.2",
    ),
]


def build_curated(release: Any, toolkit: Any, known_bad: Any) -> Documents:
    return {
        "pytorch": {"releases": {"2.16": release}, "fewer_pythons": []},
        "toolkits": {"releases": {"13.2": toolkit}},
        "combinations": {"known_bad": known_bad},
    }


@pytest.mark.parametrize(("release", "toolkit", "known_bad", "expected"), CONTRADICTIONS)
def test_contradiction_names_both_values(
    release: Any, toolkit: Any, known_bad: Any, expected: str
) -> None:
    (found,) = list_contradictions(build_curated(release, toolkit, known_bad), READ)
    assert found.endswith(expected)


def test_equal_values_are_no_contradiction() -> None:
    rules = [
        {
            "id": MSVC,
            "when": [{"msvc": ">=1960", "cuda": "<13.3"}, {"msvc": ">=1950", "cuda": "<13.2"}],
        },
        {"id": "other", "when": {"msvc": ">=1", "cuda": "<99"}},
    ]
    own = {**RELEASE, "status": "verified: R", "python": {"first": "3.11", "last": "3.12"}}
    assert list(list_contradictions(build_curated(own, KIT, rules), READ)) == []


def test_pythons_of_an_index_are_compared_with_the_limits() -> None:
    curated = build_curated({"python": {"last": "3.13"}}, {}, [])
    limit = {"releases": ["2.16"], "pypi": True, "last": "3.12"}
    curated["pytorch"]["fewer_pythons"].append(limit)
    assert list(list_contradictions(curated, READ)) == []
    limit["last"] = None
    (found,) = list_contradictions(curated, READ)
    assert found.endswith("on linux x86_64 are none, but the index has 3.11 to 3.12")


def test_recorded_files_do_not_contradict_each_other() -> None:
    curated = read_recorded("pytorch", "toolkits", "combinations")
    assert list(list_contradictions(curated, read_recorded(*DOCUMENT_NAMES, folder="read"))) == []


@each_row(
    ("condition", "is_open"),
    [
        ({"torch": ">=2.9,<2.17"}, True),
        ({"torch": "<=2.16"}, True),
        ({"torch": "==2.16.0"}, True),
        ({"torch": ">=2.16"}, False),
        ({"torch": "<2.16"}, True),
        ({"torch": "<2.15"}, False),
        ({"torch": "<3"}, False),
        ({"cuda": "<13.3"}, True),
        ({"cuda": "<13.2.86"}, True),
        ({"cuda": ">=13.0,<14"}, False),
        ({"python": "<3.17"}, False),
    ],
)
def test_bounds_at_the_newest_release_are_listed(condition: Any, is_open: bool) -> None:
    documents = {"combinations": {"known_bad": [{"id": "bad", "when": [condition]}]}}
    found = list(list_open_bounds(documents, {"torch": "2.16", "cuda": "13.2"}))
    assert [line.split(" ")[1] for line in found] == [
        f"known_bad.bad.when.1.{key}" for key in condition if is_open
    ]


def test_recorded_conditions_are_read() -> None:
    documents = read_recorded(*REVIEWED_FILES)
    found = list(list_open_bounds(documents, {"torch": "2.8", "cuda": "99.0"}))
    assert any(line.startswith("combinations.yaml: known_bad.sources-cuda-13.") for line in found)


def test_changes_have_a_line_for_each_value() -> None:
    before = {"2.15": {"patch": "2.15.0", "cxx_std": 20, "status": "verified: W"}}
    after = {"2.15": {"patch": "2.15.1", "wheels": RELEASE["wheels"], "status": "verified: R"}}
    assert list(list_changes(before, after)) == [
        '  2.15.patch: "2.15.0" → "2.15.1"',
        "+ 2.15.wheels.13.2 linux x86_64.pypi: true",
        '+ 2.15.wheels.13.2 linux x86_64.archs: ["9.0"]',
        "+ 2.15.wheels.13.2 linux x86_64.ptx: []",
        "- 2.15.cxx_std: 20",
    ]


@each_row("name", DOCUMENT_NAMES)
def test_written_file_has_the_same_content(name: str) -> None:
    document = read_recorded(name, folder="read")[name]
    text = render_document(name, document)
    assert parse_yaml(text) == document
    assert text == (KNOWLEDGE_FOLDER / f"read/{name}.yaml").read_text(encoding="utf-8")
