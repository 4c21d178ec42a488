"""Which CUDA toolkit is selected, and what is reported if none works."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest

from tasks.core.model import InstalledToolkit
from tasks.core.project import Project
from tasks.core.resolution import ToolkitResolution
from tasks.planning.profile_plan import build_layout, make_plan
from tasks.settings.schema import parse_settings
from tests.support.checkout import RELEASE, pin_torch
from tests.support.newest import LATER_CUDA, NEWEST_TOOLKIT, NEXT_CUDA
from tests.unit.planning.test_decide import (
    ASKED_INDEX,
    CUDA_124,
    CUDA_130,
    CUDA_132,
    KNOWLEDGE,
    chosen,
    existing,
    host,
    planned,
    refused,
    refused_by,
)

EXTENSION: dict[str, Any] = {"extensions": [{"name": "smoke", "path": "templates/smoke"}]}
PYPI = ToolkitResolution("pypi", "13.2", "", "CUDA 13.2 from Python packages")
OWN = InstalledToolkit("/opt/cuda", "13.4.59", asked=True)


@pytest.mark.parametrize("found", [(), (CUDA_124,), (CUDA_130,), (CUDA_130, CUDA_124)])
def test_auto_uses_packages_if_system_toolkit_differs(
    found: tuple[InstalledToolkit, ...],
) -> None:
    assert chosen(host(toolkits=found)).toolkit == PYPI


def test_auto_uses_system_toolkit_of_same_version() -> None:
    assert chosen(host(toolkits=(CUDA_130, CUDA_132))).toolkit == ToolkitResolution(
        "system", "13.2", "/usr/local/cuda-13.2", "CUDA 13.2.86 is at /usr/local/cuda-13.2"
    )


def test_provider_pypi_ignores_system_toolkit() -> None:
    assert chosen(host(toolkits=(CUDA_132,)), toolkit={"provider": "pypi"}).toolkit == PYPI


def test_requested_toolkit_version_also_selects_the_wheel() -> None:
    choice = chosen(host(toolkits=(CUDA_130,)), toolkit={"version": "13.0"})
    assert (choice.cuda, choice.toolkit.provider) == ("13.0", "system")
    assert choice.index == "https://download.pytorch.org/whl/cu130"


SOURCE_124: dict[str, Any] = {
    "target": {"gpus": ["RTX 4090"]},
    "torch": {"strategy": "source", "version": "2.5.0"},
}


@pytest.mark.parametrize(
    ("provider", "also", "path"),
    [
        *(("auto", "", ""), ("system", "", "")),
        ("pypi", " and set toolkit.provider: system", " and toolkit.provider: path"),
    ],
)
def test_missing_cuda_12_4_is_refused_with_all_alternatives(
    provider: str, also: str, path: str
) -> None:
    settings = {**SOURCE_124, "toolkit": {"version": "12.4", "provider": provider}}
    way = (
        "install CUDA 12.4 (https://developer.nvidia.com/cuda-toolkit-archive)"
        f"{also}, or set toolkit.path to it{path}"
    )
    newer = '; or set torch.version: "2.9.1" and toolkit.version: auto: it builds with CUDA 13.0'
    needed = "toolkit: CUDA 12.4 is needed and is not on this machine"
    result = f"{needed} (found: none)\n  → {way}"
    assert refused(host(), **settings) == result + (newer if provider != "system" else "")
    here = "(found: 13.0.88 at /usr/local/cuda-13.0)"
    assert refused(host(toolkits=(CUDA_130,)), **settings) == f"{needed} {here}\n  → {way}{newer}"


def test_hint_installs_the_toolkit_named_in_the_message() -> None:
    torch = {"strategy": "source", "version": "2.6.0"}
    message = refused(host(toolkits=(CUDA_130,)), target={"gpus": ["H100"]}, torch=torch)
    assert message.startswith("toolkit: CUDA 12.4 is needed")
    assert "install CUDA 12.4 (" in message


def test_system_cuda_12_4_builds_torch_2_5() -> None:
    settings = {**SOURCE_124, "toolkit": {"version": "12.4", "provider": "system"}}
    choice = chosen(host(toolkits=(CUDA_130, CUDA_124)), **settings)
    assert (choice.cuda, choice.toolkit.home) == ("12.4", "/usr/local/cuda-12.4")


def test_unsupported_arch_is_refused_with_toolkits_that_support_it() -> None:
    settings = {"torch": {"strategy": "source"}, "toolkit": {"version": "12.4"}}
    assert refused(host(toolkits=(CUDA_124,)), **settings) == (
        "toolkit.version: CUDA 12.4 cannot compile for 12.0 (sm_120); 12.8 is the first that can\n"
        "  → set toolkit.version: auto (CUDA 13.2 from Python packages)"
    )
    old = {**settings, "target": {"gpus": ["7.0"]}, "toolkit": {"version": "13.0"}}
    message = refused(host(), **old)
    assert "CUDA 13.0 dropped 7.0 (sm_70); 12.9 is the last that supports it" in message
    assert "install CUDA 12.6" in message, "the one that 2.15 is published with"


NONE_126 = "nothing is compiled, and CUDA 12.6 is not available here"


@pytest.mark.parametrize("card", ["V100", "6.1"])
def test_v100_gets_its_wheel_without_a_toolkit(card: str) -> None:
    choice = chosen(host(), target={"gpus": [card]})
    assert (choice.strategy, choice.cuda) == ("prebuilt", "12.6")
    assert choice.index == "https://download.pytorch.org/whl/cu126"
    assert choice.toolkit == ToolkitResolution("none", why=NONE_126)


def test_wheel_machine_code_is_read_without_a_toolkit() -> None:
    settings = parse_settings(pin_torch({"target": {"gpus": ["V100"]}}))
    layout = build_layout(Project.of_checkout(PurePosixPath("/yard")), "p", settings)
    _, plan = make_plan(settings, host(), KNOWLEDGE, layout)
    deps = plan.stages[0].job
    assert (deps.toolkit_provider, deps.toolkit_packages, deps.gcc_max) == ("none", (), None)
    assert deps.with_cuda, "cuobjdump comes alone, for validate"
    assert dict(plan.headline)["toolkit"] == f"none: {NONE_126}"


def test_existing_torch_without_extensions_requires_no_toolkit() -> None:
    choice = chosen(existing("2.6.0+cu124", "12.4"), torch={"strategy": "existing"})
    assert (choice.cuda, choice.toolkit.provider) == ("12.4", "none")


def test_v100_with_extension_requires_toolkit_that_supports_it() -> None:
    message = refused(host(), target={"gpus": ["V100"]}, **EXTENSION)
    assert message == (
        "toolkit: CUDA 12.6 is needed and is not on this machine (found: none)\n"
        "  → install CUDA 12.6 (https://developer.nvidia.com/cuda-toolkit-archive), "
        "or set toolkit.path to it"
    )


def test_requested_provider_does_not_disable_the_toolkit() -> None:
    message = refused(host(), target={"gpus": ["V100"]}, toolkit={"provider": "system"})
    assert message.startswith("toolkit: CUDA 12.6 is needed")


def test_gpus_of_two_generations_get_last_torch_whose_wheel_has_both() -> None:
    both = {"target": {"gpus": ["7.0", "12.0"]}}
    lacking = (
        f"toolkit: no official wheel of torch {RELEASE} holds code for 7.0 and 12.0 together; "
        "for a build, CUDA 12.8 is needed and is not on this machine (found: none)"
    )
    torch = 'set torch.version: "2.10.0": PyPI\'s torch 2.10.0 (CUDA 12.8) holds sm_120, sm_70'
    assert refused(host(), **both).startswith(f"{lacking}\n  → {torch}; or build for")
    assert refused(host(), **both, **EXTENSION) == (
        f"{lacking}\n  → install CUDA 12.8 "
        f"(https://developer.nvidia.com/cuda-toolkit-archive) and {torch}"
    )


def test_toolkit_unusable_with_this_torch_is_not_suggested() -> None:
    on = existing("2.5.1+cu124", "12.4", toolkits=(CUDA_124,))
    settings = {"torch": {"strategy": "existing"}, "target": {"gpus": ["12.0"]}, **EXTENSION}
    assert refused(on, **settings) == (
        "toolkit.version: CUDA 12.4 cannot compile for 12.0 (sm_120); 12.8 is the first that can\n"
        "  → choose other GPUs in target.gpus"
    )


@pytest.mark.parametrize(
    ("cuda", "reason"), [("11.7", "is older than 11.8"), ("12.7", "was never published")]
)
def test_impossible_toolkit_is_refused_with_known_ones(cuda: str, reason: str) -> None:
    message = refused(host(), torch={"strategy": "source"}, toolkit={"version": cuda})
    assert message.startswith(
        f"toolkit.version: CUDA {cuda} {reason}; the known releases are 11.8, "
    )


@pytest.mark.parametrize("cuda", [NEXT_CUDA, LATER_CUDA])
def test_unknown_toolkit_is_planned_with_facts_of_the_newest(cuda: str) -> None:
    choice = chosen(host(), torch={"strategy": "source"}, toolkit={"version": cuda})
    assert (choice.cuda, choice.toolkit) == (
        cuda,
        ToolkitResolution("pypi", cuda, "", f"CUDA {cuda} from Python packages"),
    )
    assert choice.facts == (
        f"CUDA {cuda}: assumed to be as {NEWEST_TOOLKIT.cuda}, because the index was not asked",
    )


@pytest.mark.parametrize("cuda", [NEXT_CUDA, LATER_CUDA])
def test_toolkit_that_the_index_lacks_is_refused(cuda: str) -> None:
    message = refused_by(
        ASKED_INDEX, host(), torch={"strategy": "source"}, toolkit={"version": cuda}
    )
    assert message.startswith(
        f"toolkit.version: CUDA {cuda} is not on this machine and not on "
        f"https://pypi.org/simple, whose newest is {NEWEST_TOOLKIT.cuda}\n"
    )


def test_installed_toolkit_needs_no_index() -> None:
    installed = InstalledToolkit("/usr/local/cuda", f"{NEXT_CUDA}.20")
    asked = {"torch": {"strategy": "source"}, "toolkit": {"version": NEXT_CUDA}}
    choice = planned(ASKED_INDEX, host(toolkits=(installed,)), **asked)
    assert (choice.toolkit.provider, choice.toolkit.version) == ("system", NEXT_CUDA)


def test_configured_toolkit_path_is_used() -> None:
    settings = {"provider": "path", "path": "~/../opt/cuda"}
    choice = chosen(host(toolkits=(OWN, CUDA_132)), toolkit=settings, torch={"strategy": "source"})
    assert (choice.toolkit.provider, choice.toolkit.home) == ("path", "/opt/cuda")
    assert choice.cuda == "13.4", "a torch that is built has the CUDA of its toolkit"


@pytest.mark.parametrize(
    ("requested", "found", "message"),
    [
        ({}, (), ("toolkit.path: provider: path needs toolkit.path\n"
         "  → set toolkit.path to the folder that contains bin/nvcc")),
        ({"path": "/opt/x"}, (CUDA_132,), ("toolkit.path: no CUDA toolkit at /opt/x\n"
         "  → set toolkit.path to the folder that contains bin/nvcc")),
    ],
)  # fmt: skip
def test_invalid_toolkit_path_is_refused(
    requested: dict[str, str], found: tuple[InstalledToolkit, ...], message: str
) -> None:
    assert refused(host(toolkits=found), toolkit={"provider": "path", **requested}) == message


def test_toolkit_of_other_cuda_major_than_torch_is_refused() -> None:
    cuda_128 = InstalledToolkit("/usr/local/cuda", "12.8.93")
    on = existing("2.11.0+cu130", "13.0", toolkits=(cuda_128,))
    assert refused(on, torch={"strategy": "existing"}, toolkit={"version": "12.8"}) == (
        "toolkit: torch 2.11.0+cu130 has CUDA 13.0: "
        "CUDA 12.8 cannot compile extensions for this torch\n"
        "  → set toolkit.version: auto (CUDA 13.0 from Python packages)"
    )


def test_toolkit_of_other_minor_in_same_major_is_accepted() -> None:
    on = existing("2.11.0+cu130", "13.0")
    choice = chosen(on, torch={"strategy": "existing"}, toolkit={"version": "13.2"})
    assert (choice.cuda, choice.toolkit.version) == ("13.0", "13.2")
