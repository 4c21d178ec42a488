"""A checkout on a Mac, as far as one is told by its pinned facts: what needs CUDA is refused before
anything runs, and a torch for the CPU is not.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tasks.core.model import Host, Interpreter
from tasks.system.hardware import host_probe
from tests.support.yard import NAME, ROOT, Yard

pytestmark = pytest.mark.integration
MAC = Host("macos", "arm64", Interpreter("/opt/homebrew/bin/python3", "3.12.4"))


def on_a_mac(folder: Path, profile: str) -> Yard:
    """A checkout with that shipped profile, whose host was pinned on a Mac."""
    yard = Yard(folder)
    shipped = ROOT / "config" / "profiles" / f"{profile}.yaml"
    shutil.copy(shipped, folder / "config" / "profiles" / f"{NAME}.yaml")
    host_probe.write_host_pin(yard.build / "host.json", host_probe.HostQuery("auto", None), MAC)
    return yard


@pytest.mark.parametrize("profile", ["rtx5090", "rtx5090-source", "windows-rtx5090"])
def test_a_profile_for_cuda_is_refused_with_what_to_write(tmp_path: Path, profile: str) -> None:
    code, out = on_a_mac(tmp_path, profile).doit("list")
    assert code == 3
    assert "target.gpus: macOS has no CUDA builds" in out
    assert "set target.gpus: []" in out


@pytest.mark.parametrize("profile", ["cpu", "quickstart"])
def test_a_torch_for_the_cpu_is_planned(tmp_path: Path, profile: str) -> None:
    code, out = on_a_mac(tmp_path, profile).doit("list", "--all")
    assert code == 0, out
    assert "wheel" in out
