"""The package index is asked only for facts that are missing, and for new releases once a day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tasks.core.model import Host, InstalledToolkit, InstalledTorch
from tasks.knowledge import Knowledge
from tasks.knowledge.read_facts import MAX_FACT_AGE_DAYS, ReadFacts
from tasks.knowledge.torch_releases import find_release
from tasks.planning import read_facts_io
from tasks.planning.read_facts_io import FactReader
from tasks.planning.resolve import resolve_torch_version
from tasks.settings.schema import parse_settings
from tasks.system import fact_store
from tasks.system.fact_store import FACT_STORE_PATH
from tasks.system.hardware import toolkit_probe
from tests.support.checkout import HOST, KNOWLEDGE
from tests.support.memoryindex import (
    Members,
    MemoryIndex,
    build_companion,
    build_metadata,
    build_torch,
    name_wheel,
)
from tests.support.newest import (
    LATER_CUDA,
    LATER_PATCH,
    LATER_TORCH,
    NEWEST_RELEASE,
    NEWEST_TOOLKIT,
    NEXT_CUDA,
    NEXT_MAJOR_ARCH,
    NEXT_TORCH,
)

NEWEST, CUDA = NEWEST_RELEASE.patch, NEWEST_RELEASE.pypi_cuda
OLD_CODE = {CUDA: {"x86_64": {50}}}  # of a wheel that no target can use
TOOLKIT_KIT = InstalledToolkit("/absent/cuda", f"{NEXT_CUDA}.20")


class DatedKnowledge(Knowledge):
    """The knowledge, recorded so many days ago."""

    days = 0

    @property
    def date(self) -> str:
        return (datetime.now(UTC) - timedelta(self.days)).date().isoformat()


class OldKnowledge(DatedKnowledge):
    days = MAX_FACT_AGE_DAYS + 2


NEW = DatedKnowledge(KNOWLEDGE.folder, KNOWLEDGE.read_file)
OLD = OldKnowledge(KNOWLEDGE.folder, KNOWLEDGE.read_file)


def torch_wheels(*versions: str, **more: Any) -> dict[str, Members]:
    return {name_wheel("torch", one): build_torch(one, CUDA, **more) for one in versions}


def code(*numbers: int) -> Mapping[str, Mapping[str, set[int]]]:
    return {CUDA: {"x86_64": set(numbers)}}


@dataclass
class Stand:
    """A checkout whose default index is `index`."""

    root: Path
    index: MemoryIndex

    def update(
        self, knowledge: Knowledge = NEW, host: Host = HOST, *, daily: bool = True, **asked: Any
    ) -> ReadFacts:
        return self.open(knowledge, host, **asked).update(daily=daily)

    def open(self, knowledge: Knowledge = NEW, host: Host = HOST, **asked: Any) -> FactReader:
        return FactReader(self.root, parse_settings(asked), host, knowledge)

    def publish(self, torch: Mapping[str, Members], **projects: Mapping[str, Members]) -> None:
        renamed = {name.replace("_", "-"): wheels for name, wheels in projects.items()}
        self.index.projects = {"torch": torch, **renamed}

    def take_requests(self) -> tuple[list[str], list[str]]:
        """Return the projects that were listed and the wheels that were read, since last time."""
        asked, read = [*self.index.asked], [*self.index.read]
        self.index.asked.clear()
        self.index.read.clear()
        return asked, read

    def age(self, time: timedelta) -> None:
        """Make the stored facts older."""
        store = fact_store.read_store(self.root)
        indexes = {
            place: structs.replace(
                facts, date=(datetime.fromisoformat(facts.date) - time).isoformat()
            )
            for place, facts in store.indexes.items()
        }
        fact_store.write_store(self.root, structs.replace(store, indexes=indexes))


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    index = MemoryIndex({"torch": torch_wheels(NEWEST, NEXT_TORCH, code=code(90, 120))})
    monkeypatch.setattr(read_facts_io, "open_package_index", lambda *_, **__: index)
    monkeypatch.setattr(fact_store, "find_default_index", lambda: index.url)
    return Stand(tmp_path, index)


def torch(version: str, strategy: str = "auto") -> dict[str, Any]:
    return {"torch": {"version": version, "strategy": strategy}}


def toolkit(version: str, provider: str = "auto") -> dict[str, Any]:
    return {**torch(NEWEST), "toolkit": {"version": version, "provider": provider}}


WITH_KIT = replace(HOST, toolkits=(TOOLKIT_KIT,))


@pytest.mark.parametrize(
    ("knowledge", "host", "asked", "expected"),
    [
        (NEW, HOST, torch(NEWEST), False),
        (NEW, HOST, torch("2.9.0"), False),
        (NEW, HOST, torch(NEXT_TORCH), True),
        (NEW, HOST, torch(LATER_PATCH), True),
        (NEW, HOST, torch(NEXT_TORCH, "source"), True),
        (NEW, HOST, torch(f"{NEXT_TORCH}rc1"), False),
        (NEW, HOST, torch(f"{NEXT_TORCH}.dev20261101"), False),
        (NEW, HOST, torch("1.9.9"), False),
        (NEW, HOST, torch("auto"), True),
        (NEW, HOST, torch("auto", "source"), True),
        (NEW, HOST, torch("auto", "existing"), False),
        (NEW, HOST, torch(NEXT_TORCH, "existing"), False),
        (NEW, HOST, toolkit(NEWEST_TOOLKIT.cuda), False),
        (NEW, HOST, toolkit("12.8"), False),
        (NEW, HOST, toolkit("12.7"), False),
        (NEW, HOST, toolkit("9.0"), False),
        (NEW, HOST, toolkit(NEXT_CUDA), True),
        (NEW, HOST, toolkit(LATER_CUDA, "pypi"), True),
        (NEW, HOST, toolkit(NEXT_CUDA, "system"), False),
        (NEW, WITH_KIT, toolkit(NEXT_CUDA), False),
        (OLD, HOST, torch(NEWEST), True),
        (OLD, HOST, torch("auto", "existing"), True),
    ],
)
def test_index_is_asked_only_for_missing_facts(
    stand: Stand, knowledge: Knowledge, host: Host, asked: dict[str, Any], expected: bool
) -> None:
    facts = stand.update(knowledge, host, **asked)
    projects, _ = stand.take_requests()
    assert projects[:2] == (["torch", "cuda-toolkit"] if expected else [])
    assert facts.versions == ((NEWEST, NEXT_TORCH) if expected else ())
    assert facts.problem == ""


@pytest.mark.parametrize("knowledge", [NEW, OLD])
def test_offline_profile_never_asks(stand: Stand, knowledge: Knowledge) -> None:
    for version in ("auto", NEXT_TORCH, NEWEST):
        facts = stand.update(knowledge, offline="bundle.tar", **torch(version))
        assert facts == ReadFacts(problem="the setting offline is used")
    assert stand.take_requests() == ([], [])
    assert not (stand.root / FACT_STORE_PATH).exists()


def test_unknown_release_is_read_once(stand: Stand) -> None:
    facts = stand.update(**torch(NEXT_TORCH))
    name = name_wheel("torch", NEXT_TORCH)
    assert stand.take_requests() == (["torch", "cuda-toolkit"], [name])
    assert (facts.index, [*facts.releases]) == (stand.index.url, [NEXT_TORCH])
    release = find_release(replace(NEW, read=facts), NEXT_TORCH)
    assert release.origin.startswith(f"read from the wheel {name} (sha256 ")
    stand.age(timedelta(days=30))
    again = stand.update(**torch(NEXT_TORCH))
    assert stand.take_requests() == ([], [])
    assert again.releases == stand.open(**torch(NEXT_TORCH)).load().releases == facts.releases


def test_unknown_release_that_the_index_lacks_is_asked_for_again(stand: Stand) -> None:
    for _ in range(2):
        facts = stand.update(**torch(LATER_TORCH))
        projects, _ = stand.take_requests()
        assert projects == ["torch", "cuda-toolkit"]
        assert facts.versions == (NEWEST, NEXT_TORCH)
    assert [*facts.releases] == [NEXT_TORCH], "to suggest it"


def test_auto_asks_once_a_day(stand: Stand) -> None:
    facts = stand.update()
    assert stand.take_requests()[0] == ["torch", "cuda-toolkit"]
    assert (
        resolve_torch_version(parse_settings({}), HOST, replace(NEW, read=facts)).torch.version
        == NEXT_TORCH
    )
    stand.age(timedelta(hours=23))
    stand.update()
    assert stand.take_requests() == ([], [])
    stand.publish(torch_wheels(NEWEST, NEXT_TORCH, LATER_TORCH, code=code(90, 120)))
    stand.age(timedelta(hours=2))
    assert stand.update(daily=False) == stand.open().load()
    assert stand.take_requests() == ([], []), "a build is used that has the earlier release"
    facts = stand.update()
    assert stand.take_requests()[1] == [name_wheel("torch", LATER_TORCH)]
    assert [*facts.releases] == [NEXT_TORCH, LATER_TORCH]


@pytest.mark.parametrize("asked", [torch("auto"), torch(NEXT_TORCH)])
def test_index_that_does_not_answer_is_a_problem(stand: Stand, asked: dict[str, Any]) -> None:
    stand.index.problem = "the index does not answer"
    facts = ReadFacts(problem="the index does not answer")
    assert stand.update(**asked) == facts
    assert stand.open(**asked).load() == facts, "commands that do not ask know the reason"


def test_wheel_that_cannot_be_read_is_passed_over(stand: Stand) -> None:
    stand.publish(torch_wheels(NEWEST, NEXT_TORCH, LATER_TORCH))
    stand.index.unreadable = [name_wheel("torch", LATER_TORCH)]
    facts = stand.update()
    assert [*facts.releases] == [NEXT_TORCH]
    assert facts.problem.endswith("cannot be read")
    stand.take_requests()
    stand.update()
    assert stand.take_requests() == ([], []), "it is tried again after a day"


def test_stored_facts_are_used_if_the_index_does_not_answer(stand: Stand) -> None:
    facts = stand.update()
    stand.age(timedelta(days=2))
    stand.index.problem = "the index does not answer"
    again = stand.update()
    assert again == structs.replace(facts, date=again.date, problem="the index does not answer")
    stand.index.problem = ""
    assert stand.update().problem == ""


def test_wheel_that_cannot_be_read_keeps_the_list_of_releases(stand: Stand) -> None:
    name = name_wheel("torch", NEXT_TORCH)
    stand.index.unreadable = [name]
    facts = stand.update(**torch(NEXT_TORCH))
    assert (facts.problem, facts.releases) == (f"{name} cannot be read", {})
    assert facts.versions == (NEWEST, NEXT_TORCH)
    stand.index.unreadable = []
    assert [*stand.update(**torch(NEXT_TORCH)).releases] == [NEXT_TORCH]


def test_wheel_with_another_sha256_is_read_again(stand: Stand) -> None:
    assert read_archs(stand.update()) == ["9.0", "12.0"]
    stand.publish(torch_wheels(NEWEST, NEXT_TORCH, code=code(75, 120)))
    stand.age(timedelta(days=2))
    assert read_archs(stand.update()) == ["7.5", "12.0"]
    stand.publish(torch_wheels(NEWEST))
    stand.age(timedelta(days=2))
    assert stand.update().releases == {}, "it was withdrawn"


def read_archs(facts: ReadFacts) -> Any:
    return facts.releases[NEXT_TORCH]["wheels"][0]["archs"]


@pytest.mark.parametrize(
    ("fitting", "read"),
    [
        ([], [9, 8, 7, 6, 5]),
        ([9], [9]),
        ([7, 6], [9, 8, 7]),
        ([3], [9, 8, 7, 6, 5]),
    ],
)
def test_newest_releases_are_read_until_one_fits(
    stand: Stand, fitting: list[int], read: list[int]
) -> None:
    major, minor, _ = LATER_TORCH.split(".")
    versions = {patch: f"{major}.{minor}.{patch}" for patch in range(1, 10)}
    stand.publish(
        {
            **torch_wheels(NEWEST, code=code(120)),
            **{
                name: members
                for patch, version in versions.items()
                for name, members in torch_wheels(
                    version, code=code(120) if patch in fitting else OLD_CODE
                ).items()
            },
        }
    )
    facts = stand.update(target={"gpus": ["12.0"]})
    wheels = [name_wheel("torch", versions[patch]) for patch in read]
    assert stand.take_requests()[1] == wheels
    settings = parse_settings({"target": {"gpus": ["12.0"]}})
    chosen = resolve_torch_version(settings, HOST, replace(NEW, read=facts)).torch.version
    found = max((patch for patch in fitting if patch in read), default=0)
    assert chosen == versions.get(found, NEWEST)
    stand.update(target={"gpus": ["12.0"]})
    assert stand.take_requests() == ([], [])


def test_companions_of_a_new_release_are_read_if_the_profile_has_them(stand: Stand) -> None:
    wheels = {
        name_wheel("torchvision", version): build_companion("torchvision", version, requires)
        for version, requires in (("0.98.0", f"=={NEXT_TORCH}"), ("0.99.0", f"=={LATER_TORCH}"))
    }
    stand.publish(torch_wheels(NEWEST, NEXT_TORCH, code=code(120)), torchvision=wheels)
    facts = stand.update(companions=["torchvision"], **torch(NEXT_TORCH))
    companions = facts.releases[NEXT_TORCH]["companions"]
    assert companions == {"triton": "~=3.9.0", "torchvision": "==0.98.0"}
    assert "torchaudio" not in stand.take_requests()[0]


@pytest.mark.parametrize(
    ("asked", "cuda"),
    [
        (toolkit(NEXT_CUDA), NEXT_CUDA),
        ({**torch(NEWEST), "toolkit": {"version": LATER_CUDA}}, None),
        (torch(NEXT_TORCH), None),
        ({**torch(NEXT_TORCH), "target": {"gpus": [str(NEXT_MAJOR_ARCH)]}}, NEXT_CUDA),
    ],
)
def test_toolkits_that_matter_are_read(
    stand: Stand, asked: dict[str, Any], cuda: str | None
) -> None:
    name = name_wheel("cuda_toolkit", f"{NEXT_CUDA}.1", "py3", "any")
    metadata = {"cuda_toolkit.dist-info/METADATA": build_metadata("cuda-toolkit", NEXT_CUDA)}
    wheels = torch_wheels(NEWEST, NEXT_TORCH, code=code(120))
    stand.publish(wheels, cuda_toolkit={name: metadata})
    facts = stand.update(**asked)
    assert facts.cuda_versions == (NEXT_CUDA,)
    assert [*facts.toolkits] == ([cuda] if cuda else [])
    if cuda:
        origin = f"read from the packages of cuda-toolkit {NEXT_CUDA}.1"
        assert (facts.toolkits[cuda]["origin"], facts.toolkits[cuda]["pypi"]) == (origin, False)


def test_installed_torch_and_toolkit_are_kept_apart_from_the_index(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    for name, text in build_torch(f"{LATER_TORCH}+cu132", CUDA, code(90)).items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    installed = InstalledTorch(f"{LATER_TORCH}+cu132", CUDA, str(site / "torch"))
    row = {"sm": ["9.0"], "origin": f"read from {TOOLKIT_KIT.home}"}
    monkeypatch.setattr(toolkit_probe, "read_installed_toolkit", lambda _: row)
    host = replace(WITH_KIT, python=replace(HOST.python, torch=installed))
    facts = stand.update(OLD, host, **torch(NEWEST, "existing"))
    assert facts.releases[LATER_TORCH]["origin"] == f"read from {site / 'torch'}"
    assert facts.releases[LATER_TORCH]["pypi_cuda"] == CUDA
    assert facts.toolkits == {NEXT_CUDA: row}
    assert facts.versions == (NEWEST, NEXT_TORCH), "the recorded facts are old"
    store = fact_store.read_store(stand.root)
    assert {(*one.releases, *one.toolkits) for one in store.indexes.values()} == {()}
    assert (len(store.torches), len(store.toolkits)) == (1, 1)
    assert LATER_TORCH not in stand.open(host=host).load().releases
    assert stand.open().load().toolkits == {}


def test_password_of_the_index_is_not_stored(stand: Stand) -> None:
    stand.update(torch={"index": "https://me:hunter2@h/simple"})
    text = (stand.root / FACT_STORE_PATH).read_text(encoding="utf-8")
    assert "hunter2" not in text
    assert "https://***@h/simple" in text


def test_every_release_of_an_own_index_is_read_there(stand: Stand) -> None:
    official, rebuilt = (f"{NEWEST}+{local}" for local in ("cu132", "cu128.sm90"))
    stand.publish(
        {
            name_wheel("torch", official): build_torch(official, "13.2", code(120)),
            name_wheel("torch", rebuilt): build_torch(rebuilt, "12.8", code(90)),
        }
    )
    own = {"version": NEWEST, "index": "https://h/simple"}
    facts = stand.update(torch={**own, "local": "cu128.sm90"})
    assert stand.take_requests()[1] == [name_wheel("torch", rebuilt)]
    assert facts.releases[NEWEST]["pypi_cuda"] == "12.8"
    assert "wheels" not in facts.releases[NEWEST], "the table is about the official wheels"
    stand.update(torch={**own, "local": "cu128.sm90"})
    assert stand.take_requests() == ([], [])
    assert stand.update(torch={**own, "local": "cu132"}).releases[NEWEST]["pypi_cuda"] == "13.2"
    assert stand.open(**torch(NEWEST)).load() == ReadFacts(), "PyPI was not asked"
