"""A tree like PyTorch's in miniature: the same entry points and layout, and seconds to compile.

`make_tree` writes it. Its setup.py, as PyTorch's up to 2.13, configures CMake in ./build once,
installs into ./torch and knows `--cmake-only`; the other form is built by scikit-build-core.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Backend = Literal["setup_py", "scikit_build_core"]


def make_tree(folder: Path, version: str = "2.6.0", backend: Backend = "setup_py") -> Path:
    """Write a torch-like source tree into `folder`, which is made."""
    files = {**_COMMON, **(_SETUP_PY if backend == "setup_py" else _SCIKIT)}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip("\n"), encoding="utf-8", newline="\n")
    (folder / "version.txt").write_text(f"{version}\n", encoding="utf-8", newline="\n")
    return folder


_COMMON = {
    "README.md": "# A tree like PyTorch's\n",
    "docs/README.md": "Nothing is built from here.\n",
    ".gitignore": """
/build/
/dist/
*.egg-info/
__pycache__/
/torch/version.py
/torch/lib/
/torch/include/
/torch/share/
""",
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.18)
project(Torch CXX)
option(BUILD_PYTHON "Build for the Python package" ON)
option(BUILD_SHARED_LIBS "Shared libraries" ON)
option(USE_LOUD "A switch to try" OFF)
if(SKBUILD AND DEFINED ENV{USE_LOUD})
  set(USE_LOUD "$ENV{USE_LOUD}" CACHE BOOL "From the environment" FORCE)
endif()
set(TORCH_BUILD_VERSION "0" CACHE STRING "Version")
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_WINDOWS_EXPORT_ALL_SYMBOLS ON)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_INSTALL_RPATH "$ORIGIN")

add_library(c10 c10/core.cpp c10/text.cpp)
target_include_directories(c10 PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
if(USE_LOUD)
  target_compile_definitions(c10 PRIVATE USE_LOUD)
endif()
add_library(torch_cpu aten/add.cpp)
target_link_libraries(torch_cpu PUBLIC c10)

install(TARGETS c10 torch_cpu
  LIBRARY DESTINATION lib ARCHIVE DESTINATION lib RUNTIME DESTINATION lib)
install(DIRECTORY c10/ DESTINATION include/c10 FILES_MATCHING PATTERN "*.h")
install(DIRECTORY aten/ DESTINATION include/aten FILES_MATCHING PATTERN "*.h")
install(FILES cmake/TorchConfig.cmake DESTINATION share/cmake/Torch)
""",
    "cmake/TorchConfig.cmake": """
get_filename_component(TORCH_INSTALL_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(TORCH_INCLUDE_DIRS "${TORCH_INSTALL_PREFIX}/include")
find_library(C10_LIBRARY c10 PATHS "${TORCH_INSTALL_PREFIX}/lib" NO_DEFAULT_PATH)
find_library(TORCH_LIBRARY torch_cpu PATHS "${TORCH_INSTALL_PREFIX}/lib" NO_DEFAULT_PATH)
if(NOT TARGET torch)
  add_library(torch INTERFACE IMPORTED)
  set_target_properties(torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${TORCH_INCLUDE_DIRS}"
    INTERFACE_LINK_LIBRARIES "${TORCH_LIBRARY};${C10_LIBRARY}")
endif()
set(TORCH_LIBRARIES torch)
set(Torch_FOUND TRUE)
set(TORCH_FOUND TRUE)
""",
    "c10/core.h": 'extern "C" int c10_answer();\n',
    "c10/core.cpp": """
#include <c10/core.h>

extern "C" int c10_answer() {
#ifdef USE_LOUD
  return 420;
#else
  return 42;
#endif
}
""",
    "c10/text.cpp": """
#include <string>

extern "C" int c10_length(const char* text) {
  return static_cast<int>(std::string(text).size());
}
""",
    "aten/add.h": 'extern "C" double torch_add(double one, double other);\n',
    "aten/add.cpp": """
#include <aten/add.h>
#include <c10/core.h>

extern "C" double torch_add(double one, double other) {
  return one + other + 0 * c10_answer();
}
""",
    "torch/__init__.py": '''
"""A torch that can add."""

import ctypes
import sys
from pathlib import Path

from torch import backends, cuda
from torch import version as version
from torch.version import __version__ as __version__

_NAMES = {"win32": "{}.dll", "darwin": "lib{}.dylib"}
_LIB = Path(__file__).parent / "lib"


def _load(name):
    return ctypes.CDLL(str(_LIB / _NAMES.get(sys.platform, "lib{}.so").format(name)))


_c10 = _load("c10")
_torch_cpu = _load("torch_cpu")
_torch_cpu.torch_add.restype = ctypes.c_double
_torch_cpu.torch_add.argtypes = (ctypes.c_double, ctypes.c_double)


def add(one, other):
    return _torch_cpu.torch_add(one, other)
''',
    "torch/cuda.py": """
def is_available():
    return False


def device_count():
    return 0


def get_arch_list():
    return []
""",
    "torch/backends/__init__.py": "from torch.backends import cudnn\n",
    "torch/backends/cudnn.py": "def is_available():\n    return False\n",
}

_SETUP_PY = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
""",
    "requirements.txt": "setuptools\n",
    "setup.py": """
import os
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build"
CMAKE_ONLY = "--cmake-only" in sys.argv
RERUN = "--cmake" in sys.argv
sys.argv = [arg for arg in sys.argv if arg not in ("--cmake", "--cmake-only")]


def version():
    return os.getenv("PYTORCH_BUILD_VERSION") or (ROOT / "version.txt").read_text().strip()


def write_version():
    text = f"__version__ = {version()!r}\\ncuda = None\\nhip = None\\ngit_version = 'Unknown'\\n"
    (ROOT / "torch" / "version.py").write_text(text)


def configure():
    cache = BUILD / "CMakeCache.txt"
    if RERUN:
        cache.unlink(missing_ok=True)
    if cache.exists() and (BUILD / "build.ninja").exists():
        return
    BUILD.mkdir(exist_ok=True)
    options = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("USE_", "BUILD_", "CMAKE_"))
    }
    options["CMAKE_INSTALL_PREFIX"] = str(ROOT / "torch")
    options["TORCH_BUILD_VERSION"] = version()
    defines = [f"-D{name}={value}" for name, value in sorted(options.items())]
    subprocess.check_call(["cmake", "-GNinja", *defines, str(ROOT)], cwd=BUILD)


def build_deps():
    configure()
    if CMAKE_ONLY:
        print("Finished running cmake.")
        sys.exit()
    jobs = ["-j", os.environ["MAX_JOBS"]] if os.getenv("MAX_JOBS") else []
    subprocess.check_call(["cmake", "--build", ".", "--target", "install", "--", *jobs], cwd=BUILD)


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


if any(verb in sys.argv for verb in ("build", "install", "develop", "bdist_wheel")):
    write_version()
    build_deps()

setup(
    name="torch",
    version=version(),
    packages=["torch", "torch.backends"],
    package_data={"torch": ["lib/*", "include/**/*.h", "share/**/*.cmake"]},
    distclass=BinaryDistribution,
)
""",
}

_SCIKIT = {
    "pyproject.toml": """
[build-system]
requires = ["scikit-build-core", "cmake", "ninja"]
build-backend = "scikit_build_core.build"

[project]
name = "torch"
dynamic = ["version"]

[tool.scikit-build]
experimental = true
wheel.packages = ["torch"]
wheel.install-dir = "torch"

[tool.scikit-build.metadata.version]
provider = "toy_version"
provider-path = "tools"

[[tool.scikit-build.generate]]
path = "torch/version.py"
template = '''
__version__ = "${version}"
cuda = None
hip = None
git_version = "Unknown"
'''
""",
    "requirements.txt": "scikit-build-core\n",
    "tools/toy_version.py": """
import os
from pathlib import Path


def dynamic_metadata(field, settings=None, project=None):
    return os.getenv("PYTORCH_BUILD_VERSION") or Path("version.txt").read_text().strip()
""",
}
