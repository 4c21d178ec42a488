"""Folders of users' projects, modelled on public repositories."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_SETUP = """\
from setuptools import setup
from torch.utils.cpp_extension import CUDAExtension, BuildExtension
import os
os.path.dirname(os.path.abspath(__file__))

setup(
    name="{name}",
    packages=['{name}'],
    ext_modules=[
        CUDAExtension(
            name="{module}",
            sources=["kernels.cu", "ext.cpp"],
            extra_compile_args={{"nvcc": ["-I" + os.path.join("third_party/glm/")]}})
        ],
    cmdclass={{
        'build_ext': BuildExtension
    }}
)
"""
SPLATTING_FOLDERS = tuple(
    f"submodules/{name}" for name in ("diff-gaussian-rasterization", "fused-ssim", "simple-knn")
)
_ENVIRONMENT = """\
name: gaussian_splatting
channels:
  - pytorch
  - conda-forge
dependencies:
  - cudatoolkit=11.6
  - plyfile
  - python=3.7.13
  - pip=22.3.1
  - pytorch=1.12.1
  - torchaudio=0.12.1
  - torchvision=0.13.1
  - pip:
    - submodules/simple-knn
    - opencv-python
"""


def format_setup(name: str, module: str) -> str:
    """Return the text of a setup.py that builds one CUDA extension."""
    return _SETUP.format(name=name, module=module)


def format_submodules(*paths: str) -> str:
    """Return the text of .gitmodules."""
    section = '[submodule "{0}"]\n\tpath = {0}\n\turl = https://example.org/{0}.git\n'
    return "".join(map(section.format, paths))


def write_files(root: Path, files: Mapping[str, str]) -> Path:
    """Write the files below `root`, and return `root`."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def write_splatting_project(root: Path) -> Path:
    """Write a clone of gaussian-splatting with its submodules, except SIBR_viewers and glm."""
    rasterizer, ssim, knn = SPLATTING_FOLDERS
    (root / ".git").mkdir(parents=True)
    (root / "SIBR_viewers").mkdir()
    return write_files(
        root,
        {
            ".gitmodules": format_submodules(knn, rasterizer, "SIBR_viewers", ssim),
            "environment.yml": _ENVIRONMENT,
            f"{rasterizer}/setup.py": format_setup(
                "diff_gaussian_rasterization", "diff_gaussian_rasterization._C"
            ),
            f"{rasterizer}/.gitmodules": format_submodules("third_party/glm"),
            f"{ssim}/setup.py": format_setup("fused_ssim", "fused_ssim_cuda"),
            f"{knn}/setup.py": format_setup("simple_knn", "simple_knn._C"),
            "train.py": "import torch\n",
        },
    )
