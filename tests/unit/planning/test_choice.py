"""What follows from a resolution alone."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.core.model import Arch, InstalledToolkit
from tasks.core.resolution import Combination, ToolkitResolution
from tests.unit.planning.test_decide import CUDA_132, RTX_5090, chosen, host

SMOKE = {"extensions": [{"name": "smoke", "path": "templates/smoke"}]}
SOURCE: dict[str, Any] = {"torch": {"strategy": "source", "version": "2.15.0"}}


def test_combination_holds_all_resolved_facts() -> None:
    here = host(RTX_5090, toolkits=(CUDA_132,))
    assert chosen(here, **SOURCE, **SMOKE).build_combination(here) == Combination(
        system="linux",
        cuda="13.2.86",
        torch="2.15.0",
        archs=(Arch(12, 0),),
        strategy="source",
        python="3.12.4",
        extensions=True,
    )


def test_toolkit_from_packages_is_known_by_its_release() -> None:
    elsewhere = host(RTX_5090, toolkits=(InstalledToolkit("", "13.1.80"),))
    assert chosen(elsewhere, **SMOKE).build_combination(elsewhere).cuda == "13.2"
    assert ToolkitResolution("none").find_full_version(elsewhere) is None


@pytest.mark.parametrize(
    ("requested", "extended"),
    [
        (SMOKE, True),
        ({}, False),
        ({**SOURCE, **SMOKE}, True),
        ({**SOURCE, **SMOKE, "build": {"target": "c10"}}, False),
    ],
)
def test_extensions_are_built_only_if_torch_is_available_for_them(
    requested: dict[str, Any], extended: bool
) -> None:
    assert chosen(host(RTX_5090), **requested).extensions is extended
