"""Which CUDA toolkit compiles, and what is told where it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.choice import ToolkitChoice
from tasks.model import ToolkitFound
from tests.unit.test_decide import CUDA_124, CUDA_130, CUDA_132, chosen, existing, host, refused

PYPI = ToolkitChoice("pypi", "13.2", "", "CUDA 13.2 from Python packages")
OWN = ToolkitFound("/opt/cuda", "13.4.59", asked=True)


@pytest.mark.parametrize("found", [(), (CUDA_124,), (CUDA_130,), (CUDA_130, CUDA_124)])
def test_auto_takes_packages_where_the_system_has_another(found: tuple[ToolkitFound, ...]) -> None:
    assert chosen(host(toolkits=found)).toolkit == PYPI


def test_auto_takes_the_systems_where_it_is_equal() -> None:
    assert chosen(host(toolkits=(CUDA_130, CUDA_132))).toolkit == ToolkitChoice(
        "system", "13.2", "/usr/local/cuda-13.2", "CUDA 13.2.86 is at /usr/local/cuda-13.2"
    )


def test_pypi_is_taken_though_the_system_has_it() -> None:
    assert chosen(host(toolkits=(CUDA_132,)), toolkit={"provider": "pypi"}).toolkit == PYPI


def test_a_version_that_is_asked_for_decides_the_wheel_too() -> None:
    choice = chosen(host(toolkits=(CUDA_130,)), toolkit={"version": "13.0"})
    assert (choice.cuda, choice.toolkit.provider) == ("13.0", "system")
    assert choice.index == "https://download.pytorch.org/whl/cu130"


SOURCE_124: dict[str, Any] = {
    "target": {"gpus": ["RTX 4090"]},
    "torch": {"strategy": "source", "version": "2.5.0"},
}


@pytest.mark.parametrize("provider", ["auto", "system", "pypi"])
def test_cuda_124_that_is_not_here_is_told_with_every_way_out(provider: str) -> None:
    asked = {**SOURCE_124, "toolkit": {"version": "12.4", "provider": provider}}
    ways = (
        "\n  → install CUDA 12.4 (https://developer.nvidia.com/cuda-toolkit-archive), "
        "name it with toolkit.path, "
        "or choose toolkit.version 13.0 or later, which comes as Python packages"
    )
    needed = "toolkit: CUDA 12.4 is needed and is not on this machine"
    assert refused(host(), **asked) == f"{needed} (found: none){ways}"
    here = "(found: 13.0.88 at /usr/local/cuda-13.0)"
    assert refused(host(toolkits=(CUDA_130,)), **asked) == f"{needed} {here}{ways}"


def test_cuda_124_of_the_system_builds_torch_25() -> None:
    asked = {**SOURCE_124, "toolkit": {"version": "12.4", "provider": "system"}}
    choice = chosen(host(toolkits=(CUDA_130, CUDA_124)), **asked)
    assert (choice.cuda, choice.toolkit.home) == ("12.4", "/usr/local/cuda-12.4")


def test_an_arch_that_the_toolkit_cannot_make_names_those_that_can() -> None:
    asked = {"torch": {"strategy": "source"}, "toolkit": {"version": "12.4"}}
    assert refused(host(toolkits=(CUDA_124,)), **asked) == (
        "toolkit.version: CUDA 12.4 cannot make 12.0 (sm_120); 12.8 is the first that can\n"
        "  → take CUDA 12.8 to 13.5 for 12.0"
    )
    old = {**asked, "target": {"gpus": ["7.0"]}, "toolkit": {"version": "13.0"}}
    assert "CUDA 13.0 dropped 7.0 (sm_70); 12.9 is the last that can" in refused(host(), **old)


def test_an_unknown_toolkit_is_told_with_the_known_ones() -> None:
    told = refused(host(), torch={"strategy": "source"}, toolkit={"version": "11.7"})
    assert told.startswith("toolkit.version: CUDA 11.7 is not known; known are 11.8, ")


def test_a_path_of_ones_own_is_used_as_asked() -> None:
    asked = {"provider": "path", "path": "~/../opt/cuda"}
    choice = chosen(host(toolkits=(OWN, CUDA_132)), toolkit=asked, torch={"strategy": "source"})
    assert (choice.toolkit.provider, choice.toolkit.home) == ("path", "/opt/cuda")
    assert choice.cuda == "13.4", "a torch that is built has the CUDA of its toolkit"


@pytest.mark.parametrize(
    ("asked", "found", "message"),
    [
        ({}, (), ("toolkit.path: provider path needs a path\n"
         "  → name the folder that has bin/nvcc")),
        ({"path": "/opt/x"}, (CUDA_132,), ("toolkit.path: no CUDA toolkit at /opt/x\n"
         "  → name the folder that has bin/nvcc")),
        ({"path": "/opt/cuda", "version": "13.0"}, (OWN,),
         ("toolkit.version: CUDA 13.4.59 is at /opt/cuda, and 13.0 was asked for\n"
         "  → leave it at auto, or name another toolkit.path")),
    ],
)  # fmt: skip
def test_a_bad_path_is_told(
    asked: dict[str, str], found: tuple[ToolkitFound, ...], message: str
) -> None:
    assert refused(host(toolkits=found), toolkit={"provider": "path", **asked}) == message


def test_another_cuda_major_than_the_torchs_cannot_compile_for_it() -> None:
    cuda_128 = ToolkitFound("/usr/local/cuda", "12.8.93")
    on = existing("2.11.0+cu130", "13.0", toolkits=(cuda_128,))
    assert refused(on, torch={"strategy": "existing"}, toolkit={"version": "12.8"}) == (
        "toolkit: torch 2.11.0+cu130 has CUDA 13.0: CUDA 12.8 cannot compile extensions for it\n"
        "  → leave toolkit.version at auto, or build torch from source with that toolkit"
    )


def test_another_minor_of_the_same_major_can() -> None:
    on = existing("2.11.0+cu130", "13.0")
    choice = chosen(on, torch={"strategy": "existing"}, toolkit={"version": "13.2"})
    assert (choice.cuda, choice.toolkit.version) == ("13.0", "13.2")
