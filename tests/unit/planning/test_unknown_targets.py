"""A GPU that no known toolkit compiles for gets code of a lower minor version, or PTX."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Arch
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.knowledge.read_facts import ReadFacts
from tasks.planning.resolve import resolve_settings
from tasks.planning.target_resolution import CompiledTargets, select_compiled_targets
from tasks.settings.schema import parse_settings
from tests.support.checkout import HOST, KNOWLEDGE, RELEASE
from tests.support.newest import (
    NEWEST_ARCH,
    NEWEST_RELEASE,
    NEWEST_TOOLKIT,
    NEXT_CUDA,
    NEXT_MAJOR_ARCH,
    NEXT_MINOR_ARCH,
    NEXT_TORCH,
)

CUDA = NEWEST_RELEASE.pypi_cuda
MINOR = (
    f"untested: no known CUDA toolkit compiles for {NEXT_MINOR_ARCH}, "
    f"which runs code for {NEWEST_ARCH}"
)
MAJOR = (
    f"untested: no known CUDA toolkit compiles for {NEXT_MAJOR_ARCH}; "
    f"its driver compiles PTX of {NEWEST_ARCH}"
)
READ = f"torch {NEXT_TORCH}: read from the wheel torch.whl"


def read_torch(ptx: bool = False, status: str = "verified: torch.whl") -> Knowledge:
    """Return the knowledge with a next release, whose wheel has code for the newest arch."""
    archs = [str(NEWEST_ARCH)]
    platform = {"cuda": CUDA, "system": "linux", "machine": "x86_64", "pypi": True}
    wheel = {**platform, "archs": archs, "ptx": archs if ptx else [], "status": status}
    row: dict[str, Any] = {"pypi_cuda": CUDA, "cudas_built": [CUDA], "wheels": [wheel]}
    row |= {"origin": "read from the wheel torch.whl", "status": status}
    return replace(KNOWLEDGE, read=ReadFacts(releases={NEXT_TORCH: row}))


def read_toolkit(*archs: Arch) -> Knowledge:
    """Return the knowledge with a next toolkit, which compiles for these archs."""
    row = {"nvcc": NEXT_CUDA, "sm": [str(arch) for arch in archs], "origin": "read from /cuda"}
    return replace(KNOWLEDGE, read=ReadFacts(toolkits={NEXT_CUDA: row}))


def planned(knowledge: Knowledge, arch: Arch, **torch: str) -> Resolution:
    settings = parse_settings({"target": {"gpus": [str(arch)]}, "torch": torch})
    return resolve_settings(settings, HOST, knowledge)


@pytest.mark.parametrize(
    ("knowledge", "targets", "compiled"),
    [
        (KNOWLEDGE, (), CompiledTargets(())),
        (KNOWLEDGE, (Arch(8, 9), NEWEST_ARCH), CompiledTargets((Arch(8, 9), NEWEST_ARCH))),
        (KNOWLEDGE, (Arch(9, 0, "a"),), CompiledTargets((Arch(9, 0, "a"),))),
        (KNOWLEDGE, (Arch(3, 0),), CompiledTargets((Arch(3, 0),))),
        (KNOWLEDGE, (NEXT_MINOR_ARCH,), CompiledTargets((NEWEST_ARCH,), notes=(MINOR,))),
        (KNOWLEDGE, (NEXT_MAJOR_ARCH,), CompiledTargets((NEWEST_ARCH,), ptx=True, notes=(MAJOR,))),
        (KNOWLEDGE, (Arch(8, 9), NEWEST_ARCH, NEXT_MINOR_ARCH, NEXT_MAJOR_ARCH),
         CompiledTargets((Arch(8, 9), NEWEST_ARCH), ptx=True, notes=(MINOR, MAJOR))),
        (read_toolkit(NEWEST_ARCH, NEXT_MAJOR_ARCH), (NEXT_MAJOR_ARCH,),
         CompiledTargets((NEXT_MAJOR_ARCH,),
                         notes=(f"untested: {NEXT_MAJOR_ARCH} is newer than the known GPUs",))),
    ],
)  # fmt: skip
def test_target_newer_than_all_toolkits_is_replaced(
    knowledge: Knowledge, targets: tuple[Arch, ...], compiled: CompiledTargets
) -> None:
    assert select_compiled_targets(knowledge, targets) == compiled


@pytest.mark.parametrize("strategy", ["auto", "prebuilt", "source"])
def test_new_minor_version_runs_code_of_a_lower_one(strategy: str) -> None:
    choice = planned(KNOWLEDGE, NEXT_MINOR_ARCH, version=RELEASE, strategy=strategy)
    assert choice.strategy == ("source" if strategy == "source" else "prebuilt")
    assert (choice.targets, choice.ptx, choice.facts) == ((NEWEST_ARCH,), False, (MINOR,))
    if strategy != "source":
        held = f"holds {NEWEST_ARCH.sm} for {NEXT_MINOR_ARCH}"
        assert choice.strategy_why.endswith(held)


@pytest.mark.parametrize("strategy", ["auto", "prebuilt"])
@pytest.mark.parametrize("version", [NEXT_TORCH, "auto"])
def test_new_major_version_runs_ptx_that_was_read(version: str, strategy: str) -> None:
    knowledge = read_torch(ptx=True)
    choice = planned(knowledge, NEXT_MAJOR_ARCH, version=version, strategy=strategy)
    assert (choice.strategy, choice.torch) == ("prebuilt", NEXT_TORCH)
    assert choice.strategy_why == (
        f"PyPI's torch {NEXT_TORCH} (CUDA {CUDA}) holds PTX of {NEWEST_ARCH} for "
        f"{NEXT_MAJOR_ARCH} (read from the wheel)"
    )
    assert (choice.targets, choice.ptx, choice.facts) == ((NEWEST_ARCH,), True, (READ, MAJOR))


@pytest.mark.parametrize(
    "knowledge", [read_torch(), read_torch(ptx=True, status="unverified: assumed")]
)
def test_new_major_version_needs_a_build_without_ptx_that_was_read(knowledge: Knowledge) -> None:
    choice = planned(knowledge, NEXT_MAJOR_ARCH, version=NEXT_TORCH)
    lacking = f"no official wheel of torch {NEXT_TORCH} holds code for {NEXT_MAJOR_ARCH}"
    assert (choice.strategy, choice.targets, choice.ptx) == ("source", (NEWEST_ARCH,), True)
    assert choice.strategy_why == f"{lacking}: its newest arch is {NEWEST_ARCH}"
    assert choice.facts == (READ, MAJOR)
    with pytest.raises(SettingsError) as caught:
        planned(knowledge, NEXT_MAJOR_ARCH, version=NEXT_TORCH, strategy="prebuilt")
    assert caught.value.message.startswith(lacking)
    assert caught.value.hint == "set torch.strategy: source, to build it"


def test_source_build_for_a_new_major_version_has_ptx() -> None:
    choice = planned(KNOWLEDGE, NEXT_MAJOR_ARCH, version=RELEASE, strategy="source")
    assert (choice.targets, choice.ptx, choice.facts) == ((NEWEST_ARCH,), True, (MAJOR,))
    assert parse_settings({}).target.ptx is False


def test_new_toolkit_compiles_for_a_new_major_version() -> None:
    knowledge = read_toolkit(NEWEST_ARCH, NEXT_MAJOR_ARCH)
    settings = parse_settings(
        {
            "target": {"gpus": [str(NEXT_MAJOR_ARCH)]},
            "torch": {"version": RELEASE, "strategy": "source"},
            "toolkit": {"version": NEXT_CUDA},
        }
    )
    with pytest.raises(SettingsError, match=f"CUDA {NEXT_CUDA} is needed and is not on this"):
        resolve_settings(settings, HOST, knowledge)
    packaged = knowledge.read.toolkits[NEXT_CUDA] | {"pypi": True}
    knowledge = replace(knowledge, read=ReadFacts(toolkits={NEXT_CUDA: packaged}))
    choice = resolve_settings(settings, HOST, knowledge)
    assert (choice.targets, choice.ptx, choice.cuda) == ((NEXT_MAJOR_ARCH,), False, NEXT_CUDA)
    assert choice.facts == (
        f"CUDA {NEXT_CUDA}: read from /cuda",
        f"untested: {NEXT_MAJOR_ARCH} is newer than the known GPUs",
    )
    assert NEWEST_TOOLKIT.cuda != NEXT_CUDA
