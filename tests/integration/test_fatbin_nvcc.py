"""What we read in a library's headers is what cuobjdump lists, for libraries that nvcc made."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tasks.core.model import Arch
from tasks.system import environments, package_installer
from tasks.wheels import machine_code_io
from tasks.wheels.machine_code_io import MachineCodeImages
from tests.support.rows import long_but

_PLACES = ("/usr/local/cuda/bin/nvcc", "/usr/lib/cuda/bin/nvcc", "/opt/cuda/bin/nvcc")
NVCC = shutil.which("nvcc") or next((place for place in _PLACES if Path(place).is_file()), "")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not NVCC, reason="there is no nvcc here"),
    pytest.mark.skipif(sys.platform == "win32", reason="cuobjdump is asked about ELF here"),
]

KERNELS = """
__device__ float twice(float x) { return 2 * x; }
__global__ void fill(float *at, float x) { at[threadIdx.x] = twice(x); }
"""
PLAIN = ("80", "90", "90+PTX")


@pytest.fixture(scope="module")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> str:
    """That of NVIDIA's package: a toolkit need not have one."""
    folder = tmp_path_factory.mktemp("cuobjdump")
    into = package_installer.PackageInstaller(
        sys.executable, environments.find_uv(), folder / "log", folder
    )
    into.install_requirements(["nvidia-cuda-cuobjdump"])
    return str(next(folder.glob("nvidia/cu*/bin/cuobjdump")))


def nvcc(folder: Path, *options: str) -> None:
    """Compile, or link for the device; one that does not know an arch has nothing to show."""
    (folder / "k.cu").write_text(KERNELS, encoding="utf-8")
    argv = [NVCC, "-Xcompiler", "-fPIC", *options]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if "Unsupported gpu architecture" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


def link(folder: Path, *objects: str) -> Path:
    """By the host's compiler, which needs no CUDA for a library that nobody loads."""
    subprocess.run(["g++", "-shared", "-o", "k.so", *objects], cwd=folder, check=True)
    return folder / "k.so"


def gencodes(*archs: str) -> list[str]:
    """`90a` is machine code, `90+PTX` is PTX."""
    pairs = [(arch.removesuffix("+PTX"), arch.endswith("+PTX")) for arch in archs]
    return [
        f"-gencode=arch=compute_{arch},code={'compute' if ptx else 'sm'}_{arch}"
        for arch, ptx in pairs
    ]


def as_listed(found: MachineCodeImages) -> MachineCodeImages:
    """cuobjdump leaves the f of a family out where it lists cubins."""
    cubins: Counter[Arch] = Counter()
    for arch, count in found.cubins.items():
        cubins[Arch(arch.major, arch.minor, arch.suffix.replace("f", ""))] += count
    return MachineCodeImages(cubins, found.ptx)


@pytest.mark.parametrize(
    ("archs", "options"),
    long_but(
        [(PLAIN, ()), (("80",), ("-lineinfo",))],
        [
            (PLAIN, ()),
            (("80",), ("-lineinfo",)),
            (("90", "90a", "90a+PTX"), ()),
            (("100a", "120f", "120f+PTX"), ()),
            (PLAIN, ("--no-compress",)),
            (PLAIN, ("--compress-mode=size",)),
            (PLAIN, ("--compress-mode=speed",)),
            (PLAIN, ("-rdc=true",)),
        ],
    ),
    ids=lambda value: " ".join(value) or "default",
)
def test_we_and_cuobjdump_read_the_same(
    tmp_path: Path, cuobjdump: str, archs: tuple[str, ...], options: tuple[str, ...]
) -> None:
    nvcc(tmp_path, *gencodes(*archs), *options, "-c", "-o", "k.o", "k.cu")
    library = link(tmp_path, "k.o")
    found = machine_code_io.read_fatbin_images(library)
    assert as_listed(found) == machine_code_io.MachineCodeReader(cuobjdump).read_images(library)
    ptx = [arch for arch in archs if arch.endswith("+PTX")]
    assert (found.ptx.total(), found.cubins.total()) == (len(ptx), len(archs) - len(ptx))
    assert machine_code_io.has_device_code(library)


def test_we_and_cuobjdump_count_what_was_linked_and_not_what_it_was_linked_from(
    tmp_path: Path, cuobjdump: str
) -> None:
    archs = gencodes("80", "90")
    nvcc(tmp_path, *archs, "-rdc=true", "-c", "-o", "k.o", "k.cu")
    nvcc(tmp_path, *archs, "-dlink", "-o", "linked.o", "k.o")
    library = link(tmp_path, "k.o", "linked.o")
    found = machine_code_io.read_fatbin_images(library)
    assert found == machine_code_io.MachineCodeReader(cuobjdump).read_images(library)
    assert found.cubins == {Arch(8, 0): 1, Arch(9, 0): 1}


@pytest.mark.long
def test_we_and_cuobjdump_read_a_static_library(tmp_path: Path, cuobjdump: str) -> None:
    for name, arch in (("one", "80"), ("other", "90")):
        nvcc(tmp_path, *gencodes(arch), "-c", "-o", f"{name}.o", "k.cu")
    subprocess.run(["ar", "rcs", "k.a", "one.o", "other.o"], cwd=tmp_path, check=True)
    found = machine_code_io.read_fatbin_images(tmp_path / "k.a")
    assert found == machine_code_io.MachineCodeReader(cuobjdump).read_images(tmp_path / "k.a")
    assert found.cubins == {Arch(8, 0): 1, Arch(9, 0): 1}
