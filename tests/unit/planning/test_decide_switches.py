"""torch with CUDA for the CPU, or without CUDA for GPUs, is refused before a build."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.test_decide import RTX_5090, chosen, host, refused

SOURCE: dict[str, Any] = {"torch": {"strategy": "source"}}
CPU: dict[str, Any] = {**SOURCE, "target": {"gpus": []}}


@pytest.mark.parametrize(
    ("build", "where"),
    [
        ({"flags": {"USE_CUDA": False}}, "build.flags"),
        ({"flags": {"USE_CUDA": "OFF"}}, "build.flags"),
        ({"env": {"USE_CUDA": "0"}}, "build.env"),
        ({"flags": {"USE_CUDA": True}, "env": {"USE_CUDA": "no"}}, "build.env"),
    ],
)
def test_torch_without_cuda_is_refused_for_gpu_targets(build: dict[str, Any], where: str) -> None:
    assert refused(host(RTX_5090), **SOURCE, build=build) == (
        f"{where}.USE_CUDA: USE_CUDA is off, but target.gpus requires code for 12.0 "
        "(NVIDIA GeForce RTX 5090 in this machine)\n"
        "  → remove USE_CUDA; for a CPU build, set target.gpus: []"
    )
    assert chosen(host(RTX_5090), **CPU, build=build).label == "cpu"


def test_flag_that_implies_a_source_build_is_checked_too() -> None:
    message = refused(host(), build={"flags": {"USE_CUDA": False}})
    assert "target.gpus requires code for 12.0 (no NVIDIA GPU found, RTX 5090 assumed)" in message


def test_torch_with_cuda_is_refused_for_cpu_targets() -> None:
    build = {"flags": {"USE_CUDA": True}}
    assert refused(host(), **CPU, build=build) == (
        "build.flags.USE_CUDA: USE_CUDA is on, but this is a CPU build "
        "(target.gpus is empty)\n"
        "  → remove USE_CUDA, or set target.gpus to your GPUs"
    )
    assert chosen(host(RTX_5090), **SOURCE, build=build).cuda == "13.2"
    fetched = {"torch": {"strategy": "prebuilt"}, "build": {"env": {"USE_CUDA": "0"}}}
    assert chosen(host(RTX_5090), **fetched).strategy == "prebuilt"
