"""Which Python, torch and companions the requirement files of a project name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.cli.project_scan.requirement_files import Requirements, read_requirements
from tests.support.user_projects import write_files


def read_one(root: Path, name: str, text: str) -> Requirements:
    return read_requirements(write_files(root, {name: text}))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("pytorch=1.12.1", "torch 1.12.1"),
        ("pytorch==2.1.0=py3.10_cuda12.1_0", "torch 2.1.0"),
        ("pytorch::pytorch=2.9", "torch ==2.9.*"),
        ("pytorch=2.9.*", "torch ==2.9.*"),
        ("pytorch >=2.0,<3", "torch >=2.0 and <3"),
        ("pytorch", "torch"),
        ("python=3.10", "Python 3.10"),
        ("cudatoolkit-dev=11.6", ""),
        ("numpy=1.26", ""),
    ],
)
def test_conda_specs(spec: str, expected: str, tmp_path: Path) -> None:
    found = read_one(tmp_path, "environment.yml", f"name: gs\ndependencies:\n- {spec}\n")
    assert [str(one) for one in found.packages] == [expected] * bool(expected)
    assert found.conda_name == "gs"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch==2.9.1+cu128  # pinned\n", "torch 2.9.1"),
        ("Torch >= 2.0 --hash=sha256:abc\n", "torch >=2.0"),
        ("-r other.txt\ntorchmetrics==1\nhttps://a/torch-2.0.whl\n", ""),
        ('torch==2.9.1; sys_platform == "linux"\n', "torch 2.9.1"),
    ],
)
def test_pip_requirements(text: str, expected: str, tmp_path: Path) -> None:
    found = read_one(tmp_path, "requirements-gpu.txt", text)
    assert [str(one) for one in found.packages] == [expected] * bool(expected)


def test_exact_release_is_preferred_to_a_range(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": "[project]\nrequires-python='>=3.10'\ndependencies=['torch>=2']\n",
        "requirements.txt": "torch==2.9.1\ntorchvision\n",
        "requirements/train.txt": "torchaudio\n",
    }
    found = read_requirements(write_files(tmp_path, files))
    torch = found.find_torch()
    assert torch
    assert (torch.file, torch.version, torch.is_release) == ("requirements.txt", "2.9.1", True)
    assert next(found.describe_files()) == "pyproject.toml: Python >=3.10, torch >=2"
    assert found.companions == {
        "torchvision": "requirements.txt",
        "torchaudio": "requirements/train.txt",
    }
    assert found.packages[1].allows("2.15.0")
    assert not torch.allows("2.15.0")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("environment.yml", "name: [\n"),
        ("environment.yml", "- a\n- b\n"),
        ("environment.yml", "dependencies: torch\n"),
        ("environment.yml", "dependencies: [1, {pip: 2}]\n"),
        ("pyproject.toml", "[project\n"),
        ("pyproject.toml", "project = 1\n"),
        ("pyproject.toml", "[project]\ndependencies = 1\n"),
    ],
)
def test_broken_file_requires_nothing(name: str, text: str, tmp_path: Path) -> None:
    assert read_one(tmp_path, name, text).packages == ()


def test_utf16_file_of_powershell_is_read(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.9.1\n", encoding="utf-16")
    assert [str(one) for one in read_requirements(tmp_path).packages] == ["torch 2.9.1"]
