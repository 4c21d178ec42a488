"""The wheel of PyTorch's own tree, in a slice: its real setup.py, CMake and c10, and little else,
so that a wheel takes a minute and not an hour.

One tree serves all tests of this file, in the order they stand in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.real.debian import Debian, InsideYard, Upstream, profile
from tests.support.ninjalog import Made, made, products

pytestmark = pytest.mark.real

CMAKE = """
add_library(torch_python SHARED torch/csrc/slice.cpp)
target_link_libraries(torch_python PRIVATE c10)
install(TARGETS torch_python DESTINATION lib)
add_custom_target(gen_torch_version ALL
  ${Python_EXECUTABLE} tools/generate_torch_version.py
  --is-debug=0 --cuda-version= --hip-version= --xpu-version=
  BYPRODUCTS ${PROJECT_SOURCE_DIR}/torch/version.py
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
"""
LIBRARY = """
#include <c10/core/Device.h>
#include <string>

extern "C" const char* slice_device() {
  static const std::string name = c10::Device("cpu").str();
  return name.c_str();
}
extern "C" void* initModule() { return nullptr; }
"""
PACKAGE = '''
"""A slice of torch: c10 alone."""

import ctypes
from pathlib import Path

from torch.version import __version__ as __version__

_LIBRARY = ctypes.CDLL(str(Path(__file__).parent / "lib" / "libtorch_python.so"))
_LIBRARY.slice_device.restype = ctypes.c_char_p


def device():
    return _LIBRARY.slice_device().decode()
'''


@dataclass(frozen=True)
class Slice:
    """A checkout of torchyard and the tree that it clones."""

    yard: InsideYard
    upstream: Upstream

    def choose(self, ref: str) -> None:
        """Write the profile with that ref of the tree."""
        build = profile("debian-trixie-cpu")["build"]
        flags = {**build["flags"], "BUILD_FUNCTORCH": False}
        source = {"git": f"file://{self.upstream.bare}", "ref": ref, "submodules": False}
        settings = profile("debian-trixie-cpu", build={"flags": flags})
        self.yard.profile(**{**settings, "source": source})

    def made(self) -> Made:
        return made(self.yard.build / "src" / "pytorch" / "build")

    def wheel(self) -> Any:
        return self.yard.manifest("wheel")

    def installed(self, code: str) -> str:
        return self.upstream.debian.must(self.wheel()["python"], "-c", code)


def cut(upstream: Upstream) -> str:
    """Push the commit that leaves c10 and the packaging of the tree."""
    lists = upstream.debian.outside(upstream.author / "CMakeLists.txt")
    text = lists.read_text(encoding="utf-8")
    assert text.count("\nadd_subdirectory(caffe2)\n") == 1
    lists.write_text(text.replace("\nadd_subdirectory(caffe2)\n", CMAKE), encoding="utf-8")
    upstream.write("torch/csrc/slice.cpp", LIBRARY.lstrip())
    upstream.write("torch/__init__.py", PACKAGE.lstrip())
    return upstream.push("a slice of torch: c10 alone")


@pytest.fixture(scope="module")
def torch(debian: Debian) -> Slice:
    upstream = Upstream(debian, "slice")
    made_here = Slice(InsideYard(debian, "slice"), upstream)
    made_here.choose(cut(upstream))
    made_here.yard.must("build")
    return made_here


def test_the_wheel_is_made_installed_and_imported(torch: Slice) -> None:
    commit = torch.yard.manifest("source")["commit"]
    version = f"2.6.0+cpu.g{commit[:7]}"
    assert torch.wheel()["version"] == version
    assert torch.installed("import torch; print(torch.__version__, torch.device())") == (
        f"{version} cpu"
    )
    house = sorted(path.name for path in (torch.yard.folder / "wheelhouse").glob("*.whl"))
    assert house == [torch.wheel()["artifact"]["name"]]
    assert "Up to date" in torch.yard.must("build")


def test_its_libraries_find_each_other_beside_themselves(torch: Slice) -> None:
    looked = json.loads((torch.yard.build / "wheel-libraries.json").read_text(encoding="utf-8"))
    slice_ = looked["libraries"]["torch/lib/libtorch_python.so"]
    assert slice_["needed"]["libc10.so"] == "wheel"
    assert slice_["needed"]["libstdc++.so.6"] == "system"
    assert not [path for library in looked["libraries"].values() for path in library["paths"]]


def test_another_ref_is_fetched_and_a_docs_only_commit_renames_nothing(torch: Slice) -> None:
    wheel, before = torch.wheel(), torch.made()
    torch.upstream.append("docs/README.md", "More words.")
    torch.choose(torch.upstream.push("words only"))
    torch.yard.must("build")
    assert not products(before, torch.made())
    assert torch.wheel() == wheel
    assert "Up to date" in torch.yard.must("build")


def test_a_python_only_commit_compiles_nothing_and_gives_a_new_wheel(torch: Slice) -> None:
    before = torch.made()
    torch.upstream.append("torch/__init__.py", "\n\nADDED = 1")
    commit = torch.upstream.push("Python only")
    torch.choose(commit)
    torch.yard.must("build")
    assert not products(before, torch.made())
    assert torch.wheel()["version"] == f"2.6.0+cpu.g{commit[:7]}"
    assert torch.installed("import torch; print(torch.ADDED)") == "1"


def test_a_ref_that_would_lose_an_edit_is_refused_and_the_edit_stays(torch: Slice) -> None:
    mine = torch.yard.build / "src" / "pytorch" / "torch" / "__init__.py"
    edited = mine.read_text(encoding="utf-8") + "\n\nMINE = 2\n"
    mine.write_text(edited, encoding="utf-8")
    torch.upstream.append("torch/__init__.py", "\n\nTHEIRS = 3")
    torch.choose(torch.upstream.push("the same lines"))
    code, out = torch.yard.doit("build")
    assert code == 1
    assert "would overwrite your uncommitted edits" in " ".join(out.split())
    assert mine.read_text(encoding="utf-8") == edited
    assert torch.installed("import torch; print(torch.ADDED)") == "1"
