"""A C++ extension of torch as its tutorial shows one: CppExtension and torch/extension.h."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="full_cpp",
    version="1.0",
    py_modules=[],
    ext_modules=[CppExtension("full_cpp", ["full_cpp.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
