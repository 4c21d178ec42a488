"""Facts that were read are stored, and loaded for the index and the programs of a profile."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from tasks.core.model import InstalledToolkit, InstalledTorch
from tasks.knowledge.read_facts import ReadFacts, Row
from tasks.settings.schema import Settings, parse_settings
from tasks.system import fact_store
from tasks.system.fact_store import FACT_STORE_PATH, FactStore
from tasks.system.hardware.toolchain import build_nvcc_path
from tests.support.checkout import HOST, KNOWLEDGE, RELEASE
from tests.support.newest import NEWEST_TOOLKIT, NEXT_CUDA, NEXT_TORCH

PYPI = "https://pypi.org/simple"
ROW: Row = {"cxx_std": 20, "origin": "read from the wheel torch.whl"}
KIT_ROW: Row = {"sm": ["9.0"], "origin": "read from /cuda"}
FACTS = ReadFacts(
    releases={NEXT_TORCH: ROW},
    toolkits={NEXT_CUDA: {"pypi": True}},
    versions=(RELEASE, NEXT_TORCH),
    cuda_versions=(NEXT_CUDA,),
    index=PYPI,
    date="2026-11-26T12:00:00+00:00",
)


@pytest.fixture(autouse=True)
def default_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_store, "find_default_index", lambda: PYPI)


def settings(**torch: Any) -> Settings:
    return parse_settings({"torch": torch})


def test_store_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = FactStore(indexes={PYPI: FACTS}, toolkits={"/cuda": KIT_ROW}, torches={"/torch": ROW})
    assert fact_store.read_store(tmp_path) == FactStore()
    fact_store.write_store(tmp_path, store)
    assert fact_store.read_store(tmp_path) == store
    assert [path.name for path in (tmp_path / "build").iterdir()] == [".facts.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"format": 2}',
        b'{"format": "1"}',
        b'{"format": 1, "indexes": []}',
        b'{"format": 1, "indexes": {"https://pypi.org/simple": {"versions": [2.15]}}}',
        b'{"format": 1, "toolkits": {"/cuda": 1}}',
        b"\xff\xfe",
        msgspec.json.encode(FactStore(indexes={PYPI: FACTS}))[:-9],
    ],
)
def test_damaged_or_other_file_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FACT_STORE_PATH
    path.parent.mkdir()
    path.write_bytes(content)
    assert fact_store.read_store(tmp_path) == FactStore()
    fact_store.write_store(tmp_path, FactStore(indexes={PYPI: FACTS}))
    assert fact_store.read_store(tmp_path).indexes == {PYPI: FACTS}


def test_folder_in_place_of_the_file_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / FACT_STORE_PATH).mkdir(parents=True)
    assert fact_store.read_store(tmp_path) == FactStore()


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ({}, PYPI),
        ({"torch": {"index": "https://h/simple"}}, "https://h/simple"),
        ({"torch": {"index": "/wheels"}}, "/wheels"),
        ({"source": {"mirrors": {PYPI: "https://m/simple"}}}, "https://m/simple"),
        ({"mirrors": ["aliyun"]}, KNOWLEDGE.mirrors["aliyun"].instead[PYPI]),
    ],
)
def test_facts_are_those_of_the_index_of_the_profile(asked: dict[str, Any], place: str) -> None:
    profile = parse_settings(asked)
    assert fact_store.find_torch_index(profile, KNOWLEDGE) == place
    original = PYPI if "mirrors" in str(asked) else place  # a mirror has the same facts
    store = FactStore(indexes={original: FACTS})
    assert fact_store.select_facts(store, profile, HOST, KNOWLEDGE) == FACTS
    other = FactStore(indexes={"https://other/simple": FACTS})
    assert fact_store.select_facts(other, profile, HOST, KNOWLEDGE) == ReadFacts()
    assert fact_store.select_facts(FactStore(), profile, HOST, KNOWLEDGE) == ReadFacts()


def test_index_is_named_without_its_password() -> None:
    profile = settings(index="https://me:hunter2@h/simple")
    assert fact_store.find_torch_index(profile, KNOWLEDGE) == "https://me:hunter2@h/simple"
    assert fact_store.identify_index(profile) == "https://***@h/simple"
    store = FactStore(indexes={"https://***@h/simple": FACTS})
    assert fact_store.select_facts(store, profile, HOST, KNOWLEDGE) == FACTS


def test_toolkit_has_its_row_until_its_nvcc_changes(tmp_path: Path) -> None:
    nvcc = Path(build_nvcc_path(str(tmp_path)))
    nvcc.parent.mkdir()
    nvcc.write_text("nvcc", encoding="utf-8")
    kit = InstalledToolkit(str(tmp_path), f"{NEXT_CUDA}.20")
    host = replace(HOST, toolkits=(kit,))
    store = FactStore(indexes={PYPI: FACTS}, toolkits={fact_store.identify_toolkit(kit): KIT_ROW})

    def select() -> Row:
        return fact_store.select_facts(store, settings(), host, KNOWLEDGE).toolkits[NEXT_CUDA]

    assert select() == {"pypi": True, **KIT_ROW}
    os.utime(nvcc, ns=(10**9, 10**9))
    assert select() == {"pypi": True}, "that of the index"
    assert fact_store.identify_toolkit(kit) == f"{tmp_path} {NEXT_CUDA}.20 4:1000000000"
    nvcc.unlink()
    assert fact_store.identify_toolkit(kit) == f"{tmp_path} {NEXT_CUDA}.20 gone"


@pytest.mark.parametrize(
    "damage",
    [
        {"date": "2026-11-26"},
        {"date": "x"},
        {"releases": {NEXT_TORCH: {"cxx_std": "x"}}},
        {"releases": {"junk": {}}},
        {"toolkits": {NEXT_CUDA: {"sm": 5}}},
    ],
)
def test_facts_that_cannot_be_used_are_left_out(damage: dict[str, Any]) -> None:
    store = FactStore(indexes={PYPI: structs.replace(FACTS, **damage)})
    assert fact_store.select_facts(store, settings(), HOST, KNOWLEDGE) == ReadFacts()


def test_row_of_a_toolkit_of_another_version_is_not_used(tmp_path: Path) -> None:
    kit = InstalledToolkit(str(tmp_path), f"{NEXT_CUDA}.20")
    key = fact_store.identify_toolkit(InstalledToolkit(str(tmp_path), f"{NEXT_CUDA}.19"))
    host, store = replace(HOST, toolkits=(kit,)), FactStore(toolkits={key: KIT_ROW})
    assert fact_store.select_facts(store, settings(), host, KNOWLEDGE).toolkits == {}


def test_only_toolkits_that_are_not_recorded_are_new() -> None:
    old, new = (
        InstalledToolkit(f"/cuda-{cuda}", f"{cuda}.1") for cuda in (NEWEST_TOOLKIT.cuda, NEXT_CUDA)
    )
    assert fact_store.list_new_toolkits(replace(HOST, toolkits=(old, new)), KNOWLEDGE) == [new]


@pytest.mark.parametrize(("strategy", "row"), [("existing", ROW), ("auto", None)])
def test_row_of_an_installed_torch_is_for_the_strategy_existing(
    strategy: str, row: Row | None
) -> None:
    torch = InstalledTorch(f"{NEXT_TORCH}+cu132", "13.2", "/site/torch")
    host = replace(HOST, python=replace(HOST.python, torch=torch))
    store = FactStore(torches={f"/site/torch {NEXT_TORCH}+cu132": ROW})
    profile = settings(strategy=strategy)
    facts = fact_store.select_facts(store, profile, host, KNOWLEDGE)
    assert facts.releases.get(NEXT_TORCH) == row
