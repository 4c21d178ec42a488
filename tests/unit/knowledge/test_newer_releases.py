"""Releases newer than the known ones can be added: a minor, a patch and a toolkit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.core.model import Arch
from tasks.knowledge.cuda_toolkits import (
    find_toolkit,
    list_capable_toolkits,
    list_published_toolkits,
    require_toolkit,
)
from tasks.knowledge.knowledge_files import Knowledge
from tasks.knowledge.knowledge_files_io import (
    KNOWLEDGE_FOLDER,
    check_schema,
    load_knowledge,
    parse_knowledge_file,
)
from tasks.knowledge.knowledge_page import render_page
from tasks.knowledge.torch_releases import (
    SelectedWheel,
    explain_missing_wheel,
    find_release,
    select_official_wheel,
)
from tasks.knowledge.versions import parse_major_minor
from tests.support.newest import (
    LATER_PATCH,
    NEWEST_RELEASE,
    NEWEST_TOOLKIT,
    NEXT_CUDA,
    NEXT_MINOR,
    NEXT_TORCH,
)

LINUX = ("linux", "x86_64")
(WHEEL,) = (w for w in NEWEST_RELEASE.wheels if w.pypi and (w.system, w.machine) == LINUX)
TARGET = max(WHEEL.archs)


def change(folder: Path, name: str, releases: dict[str, Any]) -> None:
    """Add rows to the table `releases` of a file that `doit refresh` writes."""
    path = folder / f"{name}.yaml"
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    content["releases"] |= releases
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    """Load a copy of the knowledge with a next minor, a later patch and a next toolkit.

    Only the files of `doit refresh` have them: a new release needs no hand edit. The wheel on PyPI
    of the next minor is built with the next toolkit.
    """
    folder = tmp_path_factory.mktemp("newer") / "knowledge"
    shutil.copytree(KNOWLEDGE_FOLDER, folder)
    toolkit = parse_knowledge_file(folder / "read/toolkits.yaml")["releases"][NEWEST_TOOLKIT.cuda]
    change(folder, "read/toolkits", releases={NEXT_CUDA: toolkit | {"nvcc": f"{NEXT_CUDA}.20"}})
    newest = parse_knowledge_file(folder / "read/pytorch.yaml")["releases"][NEWEST_RELEASE.minor]
    inspected = [wheel | {"status": "verified: W"} for wheel in newest["wheels"]]
    companions = newest["companions"]
    current = {name: value for name, value in companions.items() if name != "patches"}
    patches = companions.get("patches", {}) | {NEWEST_RELEASE.patch: current}
    patched = {
        "patch": LATER_PATCH,
        "wheels": inspected,
        "companions": companions | {"patches": patches},
    }
    added = {
        "patch": NEXT_TORCH,
        "cudas_built": [*newest["cudas_built"], NEXT_CUDA],
        "pypi_cuda": NEXT_CUDA,
        "wheels": list(add_next_cuda(inspected)),
    }
    rows = {NEWEST_RELEASE.minor: newest | patched, NEXT_MINOR: newest | added}
    change(folder, "read/pytorch", releases=rows)
    return load_knowledge(folder)


def add_next_cuda(wheels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Move the wheels on PyPI to the index, and add one with the next CUDA for each."""
    for wheel in wheels:
        yield wheel | {"pypi": False}
        if wheel["pypi"]:
            yield wheel | {"cuda": NEXT_CUDA}


def test_added_releases_match_the_schema(knowledge: Knowledge) -> None:
    assert list(check_schema(knowledge.folder)) == []
    assert (list(knowledge.releases)[-1], list(knowledge.toolkits)[-1]) == (NEXT_MINOR, NEXT_CUDA)


def test_added_releases_are_found(knowledge: Knowledge) -> None:
    for version in (NEXT_MINOR, NEXT_TORCH, f"v{NEXT_TORCH}"):
        found = find_release(knowledge, version)
        assert (found.minor, found.patch, found.channel) == (NEXT_MINOR, NEXT_TORCH, "")
    for version in (NEWEST_RELEASE.minor, NEWEST_RELEASE.patch, LATER_PATCH):
        assert find_release(knowledge, version).patch == LATER_PATCH


def test_added_releases_are_recorded(knowledge: Knowledge) -> None:
    for version in (NEXT_TORCH, LATER_PATCH, NEWEST_RELEASE.patch):
        assert find_release(knowledge, version).origin == ""
    assert find_toolkit(knowledge, NEXT_CUDA).origin == ""


def test_release_after_an_added_one_is_assumed(knowledge: Knowledge) -> None:
    major, minor = parse_major_minor(NEXT_MINOR)
    later = f"{major}.{minor + 1}.0"
    for version, channel in ((later, ""), (f"{later}.dev20261101", "nightly")):
        found = find_release(knowledge, version)
        assert (found.patch, found.channel) == (version, channel)
        assert (found.origin, found.status) == (
            f"assumed to be as {NEXT_TORCH}",
            f"unverified: assumed to be as {NEXT_TORCH}",
        )
        assert found.pypi_cuda == NEXT_CUDA


def test_wheels_of_added_releases_are_selected(knowledge: Knowledge) -> None:
    for version, cuda in ((NEXT_TORCH, NEXT_CUDA), (LATER_PATCH, WHEEL.cuda)):
        assert select_official_wheel(knowledge, version, [TARGET], *LINUX) == SelectedWheel(
            cuda, "", f"PyPI's torch {version} (CUDA {cuda}) holds {TARGET.sm}"
        )
    known = select_official_wheel(knowledge, NEWEST_RELEASE.patch, [TARGET], *LINUX)
    assert known is not None
    assert known.why.endswith(f" is expected to hold {TARGET.sm} (known for {LATER_PATCH})")
    older = select_official_wheel(knowledge, NEXT_TORCH, [TARGET], *LINUX, WHEEL.cuda)
    digits = WHEEL.cuda.replace(".", "")
    assert older is not None
    assert older.index == f"https://download.pytorch.org/whl/cu{digits}"


def test_missing_wheel_of_an_added_release_is_explained(knowledge: Knowledge) -> None:
    oldest = min(
        arch
        for wheel in NEWEST_RELEASE.wheels
        if (wheel.system, wheel.machine) == LINUX
        for arch in wheel.archs
    )
    query = (knowledge, NEXT_TORCH, [Arch(3, 0)], *LINUX)
    assert select_official_wheel(*query) is None
    assert explain_missing_wheel(*query) == (
        f"no official wheel of torch {NEXT_TORCH} holds code for 3.0: its oldest arch is {oldest}"
    )


def test_added_toolkit_is_found(knowledge: Knowledge) -> None:
    for cuda in (NEXT_CUDA, f"{NEXT_CUDA}.20"):
        assert find_toolkit(knowledge, cuda).cuda == NEXT_CUDA
    assert require_toolkit(knowledge, NEXT_CUDA, [TARGET]).cuda == NEXT_CUDA
    assert list_capable_toolkits(knowledge, [TARGET])[-1] == NEXT_CUDA
    found = find_release(knowledge, NEXT_TORCH)
    assert list_published_toolkits(knowledge, found, [TARGET], "linux")[0] == NEXT_CUDA


def test_added_releases_are_on_the_page(knowledge: Knowledge) -> None:
    page = render_page(knowledge)
    assert f"| **{NEXT_CUDA}** " in page
    assert f"{NEXT_TORCH}, PyPI ({NEXT_CUDA})" in page
