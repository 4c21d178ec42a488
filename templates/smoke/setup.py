"""Builds torchyard_smoke against the installed torch, for the cards of TORCH_CUDA_ARCH_LIST."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    name="torchyard_smoke",
    version="1.0",
    packages=["torchyard_smoke"],
    package_dir={"": "src"},  # else check.py, in this folder, would import the sources
    ext_modules=[
        CUDAExtension(
            "torchyard_smoke._C",
            ["src/torchyard_smoke/binding.cpp", "src/torchyard_smoke/kernel.cu"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
