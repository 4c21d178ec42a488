"""Archs that the compiling tool cannot express are refused at load, wherever they are set."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.core.model import InstalledToolkit
from tests.support.checkout import RELEASE
from tests.support.rows import each_row
from tests.unit.planning.test_decide import chosen, host, refused

SMOKE = {"name": "smoke", "path": "templates/smoke"}
SOURCE: dict[str, Any] = {"torch": {"strategy": "source"}}


@pytest.mark.parametrize(
    ("arch", "todo"), [("12.0f", 'write "12.0"'), ("8.8", 'write "8.6", whose code runs on 8.8')]
)
def test_arch_without_extension_support_is_refused_with_an_alternative(
    arch: str, todo: str
) -> None:
    told = refused(host(), target={"gpus": [arch]}, extensions=[SMOKE])
    assert told == (
        f"target.gpus: torch {RELEASE} builds no extensions for {arch}, so smoke cannot be built"
        f"\n  → {todo}"
    )


def test_family_arch_requires_a_cmake_that_knows_it() -> None:
    family = {"target": {"gpus": ["12.0f"]}}
    assert chosen(host(), **family, **SOURCE).cuda == "13.2"
    asked = {**family, "torch": {"strategy": "source", "version": "2.8.0"}}
    assert refused(host(toolkits=(InstalledToolkit("/c", "12.9.86"),)), **asked) == (
        "target.gpus: torch 2.8.0 does not accept 12.0f for its source build\n"
        '  → set torch.version: "2.9.1": it builds with CUDA 13.0'
    )


def test_arch_unsupported_by_extensions_only_builds_without_extensions() -> None:
    assert chosen(host(), target={"gpus": ["8.8"]}, **SOURCE).cuda == "13.2"


def test_torch_too_old_for_arch_is_refused_with_a_newer_one() -> None:
    cuda_128 = InstalledToolkit("/usr/local/cuda", "12.8.93")
    asked = {"torch": {"version": "2.6.0"}, "extensions": [SMOKE]}
    assert refused(host(toolkits=(cuda_128,)), **asked) == (
        "target.gpus: no official wheel of torch 2.6.0 holds code for 12.0: its newest arch "
        "is 9.0; for a build, torch 2.6.0 builds no extensions for 12.0, so smoke cannot be built\n"
        '  → set torch.version: "2.8.0": PyPI\'s torch 2.8.0 (CUDA 12.8) holds sm_120'
    )


WRONG = [
    ("TORCH_CUDA_ARCH_LIST", "All"),
    ("TORCH_CUDA_ARCH_LIST", "Common"),
    ("TORCH_CUDA_ARCH_LIST", "native"),
    ("TORCH_CUDA_ARCH_LIST", ""),
    ("TORCH_CUDA_ARCH_LIST", "12.0,9.0"),
    ("TORCH_CUDA_ARCH_LIST", "sm_120"),
    ("TORCH_CUDA_ARCH_LIST", "7.0;12.0"),
    ("CUDAARCHS", "All"),
    ("CUDAARCHS", "native"),
    ("CUDAARCHS", ""),
    ("CUDAARCHS", "12.0"),
    ("CUDAARCHS", "70-real"),
    ("CMAKE_CUDA_ARCHITECTURES", "Common"),
    ("CMAKE_CUDA_ARCHITECTURES", "70;120"),
]


@each_row(("name", "text"), WRONG)
def test_arch_list_in_build_env_is_checked(name: str, text: str) -> None:
    told = refused(host(), build={"env": {name: text}}, **SOURCE)
    assert told.startswith(f"build.env.{name}: ")
    assert "\n  → " in told


@each_row(("name", "text"), WRONG)
def test_arch_list_of_an_extension_is_checked(name: str, text: str) -> None:
    told = refused(host(), extensions=[{**SMOKE, "env": {name: text}}])
    assert told.startswith(f"extensions (smoke).env.{name}: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TORCH_CUDA_ARCH_LIST", "9.0;12.0+PTX"),
        ("TORCH_CUDA_ARCH_LIST", "9.0a;12.0"),
        ("CUDAARCHS", "90a-real;120"),
        ("CUDAARCHS", "90-virtual"),
        ("CUDAARCHS", "all-major"),
        ("CMAKE_CUDA_ARCHITECTURES", "120f"),
        ("CMAKE_CUDA_ARCHITECTURES", "OFF"),
    ],
)
def test_valid_arch_list_that_covers_the_targets_passes(name: str, text: str) -> None:
    assert chosen(host(), build={"env": {name: text}}, **SOURCE).strategy == "source"
    assert chosen(host(), extensions=[{**SMOKE, "env": {name: text}}]).strategy == "prebuilt"


@pytest.mark.parametrize(
    ("name", "text", "left"),
    [
        ("TORCH_CUDA_ARCH_LIST", "9.0", "9.0a, 12.0"),
        ("TORCH_CUDA_ARCH_LIST", "9.0a;9.0", "12.0"),
        ("CUDAARCHS", "90a-real;100-real", "12.0"),
        ("CUDAARCHS", "120-virtual;90", "9.0a"),
        ("CUDAARCHS", "all", "9.0a"),
        ("CMAKE_CUDA_ARCHITECTURES", "121-real;90a", "12.0"),
    ],
)
def test_extension_arch_list_that_omits_a_target_is_refused(
    name: str, text: str, left: str
) -> None:
    own = [{**SMOKE, "env": {name: text}}]
    assert refused(host(), target={"gpus": ["9.0a", "12.0"]}, extensions=own) == (
        f'extensions (smoke).env.{name}: the arch list "{text}" leaves out {left} '
        "of target.gpus\n"
        "  → remove the list, so that target.gpus decides; or add the archs to the list"
    )


def test_torch_arch_list_must_cover_targets_unless_source_discards_it() -> None:
    def env(name: str, text: str) -> dict[str, Any]:
        return {"build": {"env": {name: text}}, **SOURCE}

    told = refused(host(), **env("TORCH_CUDA_ARCH_LIST", "9.0"))
    assert told.startswith("build.env.TORCH_CUDA_ARCH_LIST: ")
    assert '"9.0" leaves out 12.0 of' in told
    assert chosen(host(), **env("CUDAARCHS", "90")).strategy == "source"


def test_arch_list_is_ignored_if_no_gpu_code_is_compiled() -> None:
    env = {"TORCH_CUDA_ARCH_LIST": "All"}
    assert chosen(host(), target={"gpus": []}, build={"env": env}, **SOURCE).cuda is None
    assert chosen(host(), build={"env": env}).strategy == "prebuilt", "no torch is built"


def test_arch_support_depends_on_the_toolkit_not_on_age() -> None:
    cuda_126 = InstalledToolkit("/usr/local/cuda", "12.6.85")
    asked = {"target": {"gpus": ["7.0"]}, "build": {"env": {"CUDAARCHS": "70"}}, **SOURCE}
    assert chosen(host(toolkits=(cuda_126,)), **asked).cuda == "12.6"
