"""Pins of a toolkit from packages include its own packages and none that torch installed."""

from __future__ import annotations

from pathlib import Path

from tasks.stages.deps.run import list_toolkit_pins


def installed(site: Path, name: str, version: str, *requires: str) -> None:
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    text = "\n".join(["Metadata-Version: 2.1", *lines])
    (info / "METADATA").write_text(f"{text}\n", encoding="utf-8")


def test_pins_are_toolkit_and_requirements_of_its_extras(tmp_path: Path) -> None:
    installed(
        tmp_path,
        "cuda-toolkit",
        "13.0.2",
        "nvidia-cuda-nvcc==13.0.88.*; extra == 'nvcc'",
        "nvidia-cublas==13.0.1.*; extra == 'cublas'",
    )
    installed(tmp_path, "nvidia-cuda-nvcc", "13.0.88", "nvidia-nvvm")
    installed(tmp_path, "nvidia-nvvm", "13.0.88")
    requirements = ("cuda-toolkit[nvcc]==13.0.*",)
    expected = ("cuda-toolkit==13.0.2", "nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88")
    assert list_toolkit_pins(tmp_path, requirements) == expected
    installed(tmp_path, "nvidia-cublas", "13.4.1.3")  # installed later by torch
    installed(tmp_path, "nvidia-cudnn-cu13", "9.26.0.51")
    assert list_toolkit_pins(tmp_path, requirements) == expected


def test_package_for_other_system_is_not_pinned(tmp_path: Path) -> None:
    installed(tmp_path, "cuda-toolkit", "13.0.2", "nvidia-cuda-nvcc; extra == 'nvcc'")
    installed(tmp_path, "nvidia-cuda-nvcc", "13.0.88")
    requirements = ("cuda-toolkit[nvcc]==13.0.*", "nvidia-nccl-cu13; sys_platform == 'plan9'")
    assert len(list_toolkit_pins(tmp_path, requirements)) == 2
