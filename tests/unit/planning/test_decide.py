"""What settings resolve to on a host: a resolution or one clear message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Arch, Gpu, Host, InstalledToolkit, InstalledTorch, Interpreter, System
from tasks.core.resolution import Resolution, ToolkitResolution
from tasks.knowledge import Knowledge
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.read_facts import ReadFacts
from tasks.planning.resolve import resolve_settings
from tasks.settings.schema import parse_settings
from tests.support.checkout import RELEASE, pin_torch
from tests.support.newest import LATER_PATCH, LATER_TORCH, NEWEST_RELEASE, NEWEST_TOOLKIT

KNOWLEDGE = load_knowledge(Path(__file__).parents[3] / "config" / "knowledge")
RTX_5090 = Gpu("NVIDIA GeForce RTX 5090", "12.0", 32_607)
RTX_4090 = Gpu("NVIDIA GeForce RTX 4090", "8.9", 24_564)
H200 = Gpu("NVIDIA H200", "9.0", 143_771)
CUDA_124 = InstalledToolkit("/usr/local/cuda-12.4", "12.4.131")
CUDA_130 = InstalledToolkit("/usr/local/cuda-13.0", "13.0.88")
CUDA_132 = InstalledToolkit("/usr/local/cuda-13.2", "13.2.86")
# The index was asked, and has nothing that is newer than the knowledge
ASKED_INDEX = replace(
    KNOWLEDGE,
    read=ReadFacts(
        versions=("2.14.1", NEWEST_RELEASE.patch),
        cuda_versions=("13.0", NEWEST_TOOLKIT.cuda),
        index="https://pypi.org/simple",
    ),
)


def host(
    *gpus: Gpu,
    system: System = "linux",
    machine: str = "x86_64",
    python: str = "3.12.4",
    torch: InstalledTorch | None = None,
    toolkits: tuple[InstalledToolkit, ...] = (),
) -> Host:
    return Host(system, machine, Interpreter("/usr/bin/python3", python, torch), gpus, toolkits)


def planned(knowledge: Knowledge, on: Host, **asked: Any) -> Resolution:
    return resolve_settings(parse_settings(pin_torch(asked)), on, knowledge)


def chosen(on: Host, **asked: Any) -> Resolution:
    return planned(KNOWLEDGE, on, **asked)


def refused(on: Host, **asked: Any) -> str:
    return refused_by(KNOWLEDGE, on, **asked)


def refused_by(knowledge: Knowledge, on: Host, **asked: Any) -> str:
    with pytest.raises(SettingsError) as found:
        planned(knowledge, on, **asked)
    return str(found.value)


@pytest.mark.parametrize(
    ("on", "targets", "why"),
    [
        (host(), ["12.0"], "no NVIDIA GPU found, RTX 5090 assumed"),
        (host(RTX_5090), ["12.0"], "NVIDIA GeForce RTX 5090 in this machine"),
        (host(H200), ["9.0"], "NVIDIA H200 in this machine"),
        (host(RTX_5090, RTX_5090), ["12.0"], "NVIDIA GeForce RTX 5090 in this machine"),
        (
            host(RTX_5090, RTX_4090),
            ["8.9", "12.0"],
            "NVIDIA GeForce RTX 4090, NVIDIA GeForce RTX 5090 in this machine",
        ),
        (host(system="macos", machine="arm64"), [], "macOS has no CUDA"),
    ],
)
def test_auto_targets_are_the_detected_gpus(on: Host, targets: list[str], why: str) -> None:
    choice = chosen(on)
    assert ([str(arch) for arch in choice.targets], choice.targets_why) == (targets, why)


def test_named_targets_take_precedence_over_detected_gpus() -> None:
    choice = chosen(host(RTX_5090), target={"gpus": ["RTX 4090", "sm_89", "H200"]})
    assert choice.targets == (Arch(8, 9), Arch(9, 0))
    assert choice.targets_why == "target.gpus is RTX 4090, sm_89, H200"


@pytest.mark.parametrize("strategy", ["auto", "source", "prebuilt"])
@pytest.mark.parametrize(("card", "name"), [("Jetson AGX Orin",) * 2, ("NVIDIA Thor", "Thor")])
def test_gpu_impossible_in_this_machine_type_is_refused(
    card: str, name: str, strategy: str
) -> None:
    asked = {"target": {"gpus": [card]}, "torch": {"strategy": strategy}}
    assert refused(host(), **asked) == (
        f"target.gpus: {name} exists only in aarch64 machines, and this one is Linux x86_64: "
        "what is built here does not run on them\n  → build on a machine of that kind (aarch64)"
    )
    assert chosen(host(machine="aarch64"), **asked).targets_why == f"target.gpus is {card}"


def test_hint_omits_gpu_of_another_machine_type() -> None:
    told = refused(host(), target={"gpus": ["Jetson AGX Orin", "RTX 5090"]})
    assert told.endswith('→ set target.gpus: ["RTX 5090"], which leaves out Jetson AGX Orin')


def test_grace_requires_arm_unlike_gpus_of_same_capability() -> None:
    assert "GH200 exists only in aarch64 machines" in refused(host(), target={"gpus": ["GH200"]})
    assert chosen(host(), target={"gpus": ["H100"]}).targets == (Arch(9, 0),)
    assert chosen(host(), target={"gpus": ["9.0"]}).targets == (Arch(9, 0),)


def test_unknown_gpu_is_refused_with_nearest_name() -> None:
    assert refused(host(), target={"gpus": ["RTX 5900"]}) == (
        'target.gpus: "RTX 5900" is not a known GPU\n  → did you mean "RTX 5090" (12.0)?'
    )


def test_cuda_is_refused_on_macos() -> None:
    told = refused(host(system="macos", machine="arm64"), target={"gpus": ["RTX 5090"]})
    assert told == "target.gpus: macOS has no CUDA builds\n  → set target.gpus: []"


@pytest.mark.parametrize(
    ("on", "why", "index"),
    [
        (host(RTX_5090), f"PyPI's torch {RELEASE} (CUDA 13.2) holds sm_120", ""),
        (host(RTX_4090), f"PyPI's torch {RELEASE} (CUDA 13.2) holds sm_86 for 8.9", ""),
        (
            host(system="windows"),
            (
                f"torch {RELEASE} of download.pytorch.org/whl/cu132 is expected to hold sm_120 "
                "(inferred, not verified)"
            ),
            "https://download.pytorch.org/whl/cu132",
        ),
        (
            host(system="macos", machine="arm64"),
            "PyPI's torch for macOS is the build for CPU and MPS",
            "",
        ),
    ],
)
def test_auto_selects_official_wheel_that_covers_the_targets(
    on: Host, why: str, index: str
) -> None:
    choice = chosen(on)
    assert (choice.strategy, choice.strategy_why, choice.index) == ("prebuilt", why, index)


def test_auto_builds_if_no_wheel_covers_the_targets() -> None:
    cuda_128 = InstalledToolkit("/usr/local/cuda", "12.8.93")
    choice = chosen(host(RTX_5090, toolkits=(cuda_128,)), torch={"version": "2.6.0"})
    assert choice.strategy == "source"
    assert choice.strategy_why == (
        "no official wheel of torch 2.6.0 holds code for 12.0: its newest arch is 9.0"
    )
    assert (choice.cuda, choice.toolkit.provider) == ("12.8", "system")


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"source": {"path": "/src"}}, "source.path"),
        ({"source": {"tarball": "a.zip"}}, "source.tarball"),
        ({"source": {"patches": ["a.patch"]}}, "source.patches"),
        ({"build": {"target": "c10"}}, "build.target"),
        (
            {"source": {"path": "/src"}, "build": {"flags": {"USE_NCCL": False}}},
            "source.path and build.flags",
        ),
    ],
)
def test_auto_builds_if_build_settings_are_present(asked: dict[str, Any], named: str) -> None:
    choice = chosen(host(), **asked)
    assert choice.strategy == "source"
    assert choice.strategy_why == f"no official wheel is built with {named}"


def test_impossible_prebuilt_is_refused_with_a_torch_that_works() -> None:
    assert refused(host(RTX_5090), torch={"version": "2.6.0", "strategy": "prebuilt"}) == (
        "torch: no official wheel of torch 2.6.0 holds code for 12.0: its newest arch is 9.0\n"
        '  → set torch.version: "2.8.0": PyPI\'s torch 2.8.0 (CUDA 12.8) holds sm_120'
    )


def test_prebuilt_of_other_cuda_is_refused_with_working_alternatives() -> None:
    asked = {"toolkit": {"version": "13.1"}, "torch": {"strategy": "prebuilt"}}
    assert refused(host(), **asked) == (
        f"torch: no official wheel of torch {RELEASE} is built with CUDA 13.1: "
        "the wheels have 12.6, 13.0, 13.2, 13.4\n"
        "  → set toolkit.version: auto (CUDA 13.2 from Python packages); "
        "or set torch.strategy: source, to build it"
    )


@pytest.mark.parametrize("strategy", ["auto", "source", "prebuilt"])
@pytest.mark.parametrize("version", [LATER_TORCH, LATER_PATCH])
def test_unknown_torch_is_planned_with_facts_of_the_newest(version: str, strategy: str) -> None:
    choice = chosen(host(), torch={"version": version, "strategy": strategy})
    newest = NEWEST_RELEASE.patch
    assert (choice.torch, choice.cuda) == (version, NEWEST_RELEASE.pypi_cuda)
    assert choice.facts == (
        f"torch {version}: assumed to be as {newest}, because the index was not asked",
    )
    expected = f"PyPI's torch {version} (CUDA {choice.cuda}) is expected to hold sm_120"
    assert choice.strategy_why == (
        "requested in torch.strategy"
        if strategy == "source"
        else f"{expected} (assumed to be as {newest})"
    )


@pytest.mark.parametrize("strategy", ["auto", "prebuilt"])
@pytest.mark.parametrize("version", [LATER_TORCH, LATER_PATCH])
def test_torch_that_the_index_lacks_is_refused_with_the_newest(version: str, strategy: str) -> None:
    told = refused_by(ASKED_INDEX, host(), torch={"version": version, "strategy": strategy})
    newest = NEWEST_RELEASE.patch
    assert told.startswith(
        f"torch.version: torch {version} is not on https://pypi.org/simple, "
        f'whose newest is {newest}\n  → set torch.version: "{newest}": '
    )


def test_torch_that_the_index_lacks_can_be_built_from_its_tag() -> None:
    asked = {"torch": {"version": LATER_TORCH, "strategy": "source"}}
    doubt = "because https://pypi.org/simple does not have it"
    assert planned(ASKED_INDEX, host(), **asked).facts == (
        f"torch {LATER_TORCH}: assumed to be as {NEWEST_RELEASE.patch}, {doubt}",
    )


@pytest.mark.parametrize("strategy", ["auto", "source", "prebuilt"])
def test_torch_older_than_all_known_ones_is_refused(strategy: str) -> None:
    told = refused(host(), torch={"version": "1.9.9", "strategy": strategy})
    assert told.startswith(
        "torch.version: torch 1.9.9 is older than 2.0, the oldest that torchyard supports\n"
        "  → set torch.version: "
    )


def test_custom_index_is_used_without_showing_its_password() -> None:
    choice = chosen(host(), torch={"index": "https://me:secret@host/simple"})
    assert (choice.strategy, choice.cuda) == ("prebuilt", "13.2")
    assert choice.index == "https://me:secret@host/simple"
    assert choice.strategy_why == "from https://***@host/simple"


def test_cpu_build_requires_no_toolkit() -> None:
    choice = chosen(host(RTX_5090, toolkits=(CUDA_132,)), target={"gpus": []})
    assert (choice.targets, choice.cuda, choice.toolkit.provider) == ((), None, "none")
    assert choice.targets_why == "target.gpus is empty"
    assert choice.index == "https://download.pytorch.org/whl/cpu"


@pytest.mark.parametrize("python", ["3.11.0", "3.14.2", "3.15.0"])
def test_python_with_torch_wheels_is_accepted(python: str) -> None:
    assert chosen(host(python=python)).python.version == python


NO_WHEEL_310 = f"no official wheel of torch {RELEASE} is for Python 3.10 (supported: 3.11 to 3.15)"
NO_BUILD_310 = f"torch {RELEASE} supports Python 3.11 to 3.15, and /usr/bin/python3 is 3.10.2"


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("prebuilt", f"torch: {NO_WHEEL_310}"),
        ("source", f"python: {NO_BUILD_310}"),
        ("auto", f"python: {NO_WHEEL_310}; for a build, {NO_BUILD_310}"),
    ],
)
def test_python_unsupported_by_torch_is_refused(strategy: str, message: str) -> None:
    told = refused(host(python="3.10.2"), torch={"strategy": strategy})
    nearest = 'set python: "3.11" (to install it: uv python install 3.11)'
    assert told.startswith(f'{message}\n  → {nearest}; or set torch.version: "2.14.1": ')


def test_wheel_for_other_python_and_gpus_reports_both_reasons() -> None:
    told = refused(host(python="3.14.0"), torch={"version": "2.6.0", "strategy": "prebuilt"})
    assert told == (
        "torch: no official wheel of torch 2.6.0 holds code for 12.0: its newest arch is 9.0; "
        "no official wheel of torch 2.6.0 is for Python 3.14 (supported: 3.9 to 3.13)\n"
        '  → set torch.version: "2.9.1": PyPI\'s torch 2.9.1 (CUDA 12.8) holds sm_120'
    )


def test_source_build_uses_cuda_the_release_is_published_with() -> None:
    choice = chosen(host(RTX_5090), torch={"strategy": "source"})
    assert (choice.strategy_why, choice.cuda) == ("requested in torch.strategy", "13.2")


def test_source_build_uses_an_available_cuda_of_the_release() -> None:
    asked = {"torch": {"strategy": "source", "version": "2.9.1"}}
    cuda_128 = InstalledToolkit("/usr/local/cuda", "12.8.93")
    assert chosen(host(), **asked).toolkit.why == "CUDA 13.0 from Python packages"
    assert chosen(host(toolkits=(cuda_128,)), **asked).toolkit.why.startswith("CUDA 12.8.93 is at")


def test_targets_without_common_toolkit_are_refused() -> None:
    asked = {"target": {"gpus": ["3.5", "12.0"]}, "torch": {"strategy": "source"}}
    assert refused(host(), **asked).startswith(
        "target.gpus: no known CUDA toolkit makes code for 3.5 and 12.0\n"
    )


def test_targets_of_two_generations_need_separate_builds() -> None:
    asked = {"target": {"gpus": ["V100", "B300"]}, "torch": {"strategy": "prebuilt"}}
    assert refused(host(), **asked).endswith("or build for B300 and V100 in 2 profiles")


def test_gpu_older_than_every_toolkit_is_refused() -> None:
    assert refused(host(Gpu("NVIDIA GeForce GTX 680", "3.0"))) == (
        f"target.gpus: no official wheel of torch {RELEASE} holds code for 3.0: its oldest arch "
        "is 5.0; for a build, no known CUDA toolkit makes code for 3.0\n  → choose another GPU"
    )


def test_missing_toolkit_error_keeps_reason_for_source_strategy() -> None:
    assert refused(host(RTX_5090), torch={"version": "2.6.0"}) == (
        "toolkit: no official wheel of torch 2.6.0 holds code for 12.0: its newest arch is 9.0; "
        "for a build, CUDA 12.8 is needed and is not on this machine (found: none)\n"
        '  → set torch.version: "2.8.0": PyPI\'s torch 2.8.0 (CUDA 12.8) holds sm_120'
    )


def test_uninspected_wheel_is_reported_as_such() -> None:
    assert chosen(host(), target={"gpus": ["8.9"]}).strategy_why.endswith("sm_86 for 8.9")
    old = chosen(host(), target={"gpus": ["8.9"]}, torch={"version": "2.9.1"})
    given = chosen(
        host(),
        target={"gpus": ["8.9"]},
        torch={"version": "2.9.1"},
        toolkit={"version": "13.0"},
    )
    assert old.strategy_why == "PyPI's torch 2.9.1 (CUDA 12.8) holds sm_86 for 8.9"
    assert given.strategy_why == (
        "torch 2.9.1 of download.pytorch.org/whl/cu130 is expected to hold sm_86 for 8.9 "
        "(inferred, not verified)"
    )


def existing(version: str, cuda: str | None, **more: Any) -> Host:
    return host(RTX_4090, torch=InstalledTorch(version, cuda, "/s/torch"), **more)


def test_existing_strategy_uses_torch_unchanged() -> None:
    choice = chosen(existing("2.11.0+cu130", "13.0"), torch={"strategy": "existing"})
    assert (choice.torch, choice.cuda) == ("2.11.0+cu130", "13.0")
    assert choice.strategy_why == "torch 2.11.0+cu130 in /usr/bin/python3"
    assert choice.toolkit == ToolkitResolution("pypi", "13.0", "", "CUDA 13.0 from Python packages")


def test_existing_strategy_without_torch_is_refused() -> None:
    assert refused(host(), torch={"strategy": "existing"}) == (
        "python: /usr/bin/python3 has no torch\n"
        "  → set python to the interpreter that has torch (python: /path/to/python), "
        "or choose another torch.strategy"
    )


def test_existing_cpu_torch_has_no_targets() -> None:
    choice = chosen(existing("2.9.1+cpu", None), torch={"strategy": "existing"})
    assert (choice.targets, choice.cuda, choice.toolkit.provider) == ((), None, "none")
    assert choice.targets_why == "the torch in /usr/bin/python3 was built without CUDA"


def test_existing_torch_is_not_limited_to_archs_of_wheels() -> None:
    old = existing("2.11.0+cu130", "13.0", python="3.9.1")
    assert chosen(old, torch={"strategy": "existing"}).python.version == "3.9.1"
