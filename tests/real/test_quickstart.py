"""The main job on real input: the pinned CUDA torch and toolkit of the index, nvcc and cuobjdump.

One yard serves all tests of this file, in the order they stand in: what the first builds the others
look at.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.besides import CHECKS, PROBES
from tests.support.newest import DEFAULT_RELEASE
from tests.support.yard import ROOT, Yard

pytestmark = pytest.mark.real

INSIDE = Path(__file__).parent / "inside"
ROOM_GIB = 12  # a build that takes 6.2 GiB, and as much again for a copy elsewhere
RASTERIZATION = "check_diff_gaussian_rasterization.py"
SMOKE = {
    "name": "smoke",
    "path": "templates/smoke",
    "imports": ["torchyard_smoke"],
    "smoke": {"script": "templates/smoke/check.py"},
}


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """quickstart under the name of the trial profile, with a host that answers nobody."""
    made = Yard(tmp_path_factory.mktemp("real") / "checkout")
    shipped = ROOT / "config" / "profiles" / "quickstart.yaml"
    shutil.copy(shipped, made.folder / "config" / "profiles" / "trial.yaml")
    yield made
    shutil.rmtree(made.folder)


def states(yard: Yard) -> dict[str, str]:
    return {check["name"]: check["status"] for check in yard.manifest("validate")["checks"]}


def test_quickstart_builds_code_for_sm_120_on_a_machine_without_a_gpu(yard: Yard) -> None:
    out = yard.must("build")
    assert "strategy prebuilt" in out
    assert yard.manifest("extensions:smoke")["archs"] == {
        f"torchyard_smoke/{Path(yard.manifest('extensions:smoke')['libraries'][0]).name}": ["12.0"]
    }
    pins = yard.manifest("deps")["toolkit"]["pins"]
    assert [
        pin for pin in pins if pin.startswith(f"nvidia-cuda-nvcc=={DEFAULT_RELEASE.pypi_cuda}.")
    ]


def test_a_second_build_is_a_no_op(yard: Yard) -> None:
    before = {path: path.stat().st_mtime_ns for path in yard.build.glob("*.json")}
    out = yard.must("build")
    assert "Up to date" in out
    assert {path: path.stat().st_mtime_ns for path in yard.build.glob("*.json")} == before


def test_validate_proves_machine_code_and_says_that_no_gpu_was_there(yard: Yard) -> None:
    out = yard.must("validate")
    found = states(yard)
    assert found["machine_code"] == "passed"
    assert found["smoke: machine code"] == "passed"
    assert found["smoke: import"] == "passed"
    if yard.manifest("host")["host"]["gpus"]:
        pytest.skip("this machine has a card")
    on_a_card = ("device", "matmul", "graph", "speed", "compile", "nccl", "smoke: smoke check")
    assert {found[name] for name in on_a_card} == {"not run"}
    assert "no GPU" in out


def python_of(yard: Yard, *argv: object, **more: str) -> subprocess.CompletedProcess[str]:
    """The interpreter of the build, which finds what lies in tests/real/inside."""
    return subprocess.run(
        [yard.manifest("deps")["python"], *map(str, argv)],
        env={**os.environ, "PYTHONPATH": str(INSIDE), **more},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_arithmetic_of_the_checks_passes_what_is_right_and_nothing_else(yard: Yard) -> None:
    done = python_of(yard, INSIDE / "probes_on_cpu.py", PROBES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": right") == 9
    assert done.stdout.count("refused: ") == 10


@pytest.mark.parametrize("variant", ["first", "newest", "pose"])
def test_a_rasterizer_that_draws_as_published_passes_in_each_variant(
    yard: Yard, variant: str
) -> None:
    done = python_of(yard, CHECKS / RASTERIZATION, "cpu", TORCHYARD_VARIANT=variant)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("right\n")


@pytest.mark.parametrize("fault", ["order", "gradient", "low pass", "faint"])
def test_a_rasterizer_that_draws_otherwise_fails(yard: Yard, fault: str) -> None:
    done = python_of(yard, CHECKS / RASTERIZATION, "cpu", TORCHYARD_FAULT=fault)
    assert done.returncode == 1
    assert "WRONG" in done.stdout, done.stderr
    wrong = "the gradient of means" if fault == "gradient" else "the image"
    assert wrong in done.stdout


def test_a_variant_that_asks_for_more_is_named_as_unknown(yard: Yard) -> None:
    done = python_of(yard, CHECKS / RASTERIZATION, "cpu", TORCHYARD_VARIANT="strange")
    assert done.returncode == 1
    assert done.stderr.endswith("GaussianRasterizationSettings asks for ['kernel_size']\n")


@pytest.mark.parametrize(("fault", "code"), [("", 0), ("itself", 1), ("root", 1)])
def test_neighbours_pass_where_they_are_the_nearest(yard: Yard, fault: str, code: int) -> None:
    done = python_of(yard, CHECKS / "check_simple_knn.py", "cpu", TORCHYARD_FAULT=fault)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("WRONG" in done.stdout) is bool(code)


def test_the_resolver_did_not_move_the_toolkit(yard: Yard) -> None:
    python = yard.manifest("deps")["python"]
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "json"],
        check=True,
        capture_output=True,
        text=True,
    )
    installed = {item["name"]: item["version"] for item in json.loads(listed.stdout)}
    for pin in yard.manifest("deps")["toolkit"]["pins"]:
        name, _, version = pin.partition("==")
        assert installed[name] == version


def test_all_of_it_is_handed_over_to_an_environment_and_taken_back(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage(tmp_path).free >> 30
    if free < ROOM_GIB:
        pytest.skip(f"not run: it takes {ROOM_GIB} GiB, and the disk has {free}")
    theirs = tmp_path / "theirs"
    subprocess.run([sys.executable, "-m", "venv", theirs], check=True)
    python = theirs / "bin" / "python"
    packages = next(theirs.glob("lib/python*/site-packages"))
    before = sorted(path.name for path in packages.iterdir())
    monkeypatch.setenv("TORCHYARD__INSTALL__INTO", str(python))
    out = yard.must("install")
    assert "Installed into" in out
    says = "import torch, torchyard_smoke; print(torch.__version__)"
    told = subprocess.run(
        [python, "-B", "-W", "ignore", "-c", says], check=True, capture_output=True, text=True
    )
    assert told.stdout.strip() == yard.manifest("wheel")["version"]
    yard.must("restore", "--yes")
    assert sorted(path.name for path in packages.iterdir()) == before
    shutil.rmtree(theirs)


def test_looking_at_the_environment_again_changes_nothing_downstream(yard: Yard) -> None:
    """The packages that torch brought lie beside the toolkit's by now, and are none of it."""
    before = yard.manifest("deps")
    yard.must("clean", "deps")
    out = yard.must("build")
    assert yard.manifest("deps") == before
    assert "Prepared deps" in out
    assert "Installed wheel" not in out


def test_cmake_accepts_the_toolkit_made_of_packages(yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(trial LANGUAGES CXX CUDA)\n"
        "find_package(CUDAToolkit REQUIRED)\nadd_executable(trial trial.cu)\n"
        "target_link_libraries(trial CUDA::cudart CUDA::cublas)\n",
        encoding="utf-8",
    )
    (tmp_path / "trial.cu").write_text(
        "__global__ void fill(float *at) { at[threadIdx.x] = 1; }\n"
        "int main() { fill<<<1, 1>>>(nullptr); }\n",
        encoding="utf-8",
    )
    script = (
        f'. "{yard.build}/env.sh" && cmake -G Ninja -S "{tmp_path}" -B "{tmp_path}/b" '
        f'-DCMAKE_CUDA_ARCHITECTURES=120-real && cmake --build "{tmp_path}/b"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_extension_that_sets_its_own_archs_is_not_installed(yard: Yard, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    shutil.copytree(ROOT / "templates" / "smoke", wrong)
    setup = wrong / "setup.py"
    text = setup.read_text(encoding="utf-8")
    setup.write_text(
        "import os\nos.environ['TORCH_CUDA_ARCH_LIST'] = '9.0'\n" + text, encoding="utf-8"
    )
    yard.profile(
        target={"gpus": ["RTX 5090"]},
        extensions=[SMOKE, {"name": "wrong", "path": str(wrong), "imports": ["torchyard_smoke"]}],
    )
    code, out = yard.doit("build")
    assert code == 1
    assert "wrong compiles for 9.0, not for 12.0" in out
    assert not (yard.build / "extensions" / "wrong.json").exists()


def test_existing_puts_nothing_but_the_extension_into_that_interpreter(
    yard: Yard, tmp_path: Path
) -> None:
    first = yard.manifest("deps")["python"]
    before = freeze(first) - {"torchyard-smoke==1.0"}
    remove = [first, "-m", "pip", "uninstall", "-q", "-y", "torchyard-smoke"]
    subprocess.run(remove, check=True, stderr=subprocess.DEVNULL)
    other = Yard(tmp_path / "other")
    other.profile(
        python=first,
        target={"gpus": ["RTX 5090"]},
        torch={"strategy": "existing"},
        extensions=[SMOKE],
    )
    out = other.must("build")
    assert "strategy existing" in out
    assert freeze(first) - before == {"torchyard-smoke==1.0"}
    assert not (other.build / "venv").exists()
    assert "Up to date" in other.must("build")
    other.must("validate")
    assert states(other)["smoke: import"] == "passed"


def freeze(python: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "freeze", "--python", python],
        check=True,
        capture_output=True,
        text=True,
    )
    return {line.partition(" @ ")[0].strip() + "==1.0" * (" @ " in line) for line in
            done.stdout.splitlines()}  # fmt: skip


def test_another_cuda_leaves_no_mixture(yard: Yard) -> None:
    """A toolkit of packages in place of another, in the same profile."""
    profile = {
        "target": {"gpus": ["RTX 5090"]},
        "companions": ["torchvision", "triton"],
        "extensions": [SMOKE],
    }
    yard.profile(**profile, torch={"version": "2.15.0"})
    yard.must("build")
    newer = yard.manifest("deps")
    vision = yard.manifest("extensions:torchvision")
    assert vision["artifact"]["name"].startswith("torchvision-0.29.2-")
    assert all("12.0" in archs for archs in vision["archs"].values())
    assert not (yard.build / "extensions" / "triton.json").exists()  # it came with torch
    assert newer["toolkit"]["version"].startswith("13.2.")
    yard.profile(**profile, torch={"version": "2.14.1"}, toolkit={"provider": "pypi"})
    yard.must("build")
    older = yard.manifest("deps")
    assert older["toolkit"]["version"].startswith("13.0.")
    assert older["identity"] != newer["identity"]
    assert not [pin for pin in older["toolkit"]["pins"] if "==13.2." in pin]
    assert yard.manifest("wheel")["version"] == "2.14.1+cu130"
    yard.must("validate")
    assert states(yard)["torchvision: import"] == "passed"
    kept = {
        path.name.partition(".s")[0] for path in (yard.folder / "wheelhouse").glob("*smoke*.whl")
    }
    assert kept == {f"torchyard_smoke-1.0+torch{torch}" for torch in ("2.14.1", "2.15.0")}
