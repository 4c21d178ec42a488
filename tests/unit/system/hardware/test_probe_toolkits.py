"""CUDA toolkits are found; nvcc is a script that prints a version."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tasks.core.model import InstalledToolkit
from tasks.system.hardware import host_probe
from tasks.system.hardware.host_probe import HostQuery
from tests.unit.system.hardware.test_probe import cards, program

unix = pytest.mark.skipif(sys.platform == "win32", reason="programs are shell scripts here")


def nvcc(home: Path, version: str) -> Path:
    program(home / "bin" / "nvcc", f"echo 'Cuda compilation tools, release 13, V{version}'")
    program(home / "include" / "cuda.h", "")
    return home


@unix
def test_full_version_is_read_from_nvcc(tmp_path: Path) -> None:
    assert host_probe.read_nvcc_version(nvcc(tmp_path, "13.2.86")) == "13.2.86"


@unix
@pytest.mark.parametrize("text", ["exit 1", "echo hello"])
def test_nvcc_without_version_output_has_no_version(tmp_path: Path, text: str) -> None:
    program(tmp_path / "bin" / "nvcc", text)
    assert host_probe.read_nvcc_version(tmp_path) == ""
    assert host_probe.read_nvcc_version(tmp_path / "nowhere") == ""


@unix
def test_every_configured_toolkit_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards(monkeypatch)
    ours, theirs = nvcc(tmp_path / "ours", "13.4.1"), nvcc(tmp_path / "theirs", "12.4.131")
    (tmp_path / "link").symlink_to(theirs)
    monkeypatch.setenv("CUDA_HOME", str(theirs))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "link"))
    monkeypatch.setenv("PATH", f"{theirs / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = host_probe.read_host(HostQuery("auto", "~/ours"), tmp_path / "host.json").toolkits
    assert found[:2] == (
        InstalledToolkit(str(ours), "13.4.1", asked=True),
        InstalledToolkit(str(theirs), "12.4.131"),
    )


@unix
def test_nvcc_wrapper_is_no_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cards(monkeypatch)
    home = nvcc(tmp_path / "local", "99.0.88")
    (home / "include" / "cuda.h").unlink()
    found = host_probe.read_host(HostQuery("auto", str(home)), tmp_path / "host.json").toolkits
    assert "99.0.88" not in {kit.version for kit in found}
