"""Common faults in a build are detected and reported with a remedy, on small real files."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import ValidationFailedError
from tasks.core.model import Arch, ValidationResult
from tasks.stages.env.model import Environment
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.validate.model import ValidateJob
from tasks.stages.validate.run import run
from tasks.stages.validate.torch_checks_io import find_code_reader
from tasks.stages.wheel.model import AbiFingerprint, Wheel
from tasks.system import manifests
from tasks.wheels.machine_code_io import MachineCodeReader
from tests.support.sharedlibrary import linux
from tests.support.validateyard import ALL_GOOD, Yard, probing, program, publish

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")

OWN = "its own headers"
CPU_TORCH = """
__version__ = "2.15.0+cpu"
class version: cuda = None
class cuda:
    is_available = staticmethod(lambda: False)
    get_arch_list = staticmethod(lambda: [])
class device:
    def __init__(self, type): self.type = type
"""
EXTENSION = """
#include <Python.h>
int _ZN2at4_ops3add4callEv(void);
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "toy", "", -1, 0};
PyMODINIT_FUNC PyInit_toy(void) { return _ZN2at4_ops3add4callEv() ? 0 : PyModule_Create(&module); }
"""


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    """Return a valid build on a machine without cuobjdump."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    made = Yard(tmp_path)
    made.python(probing(ALL_GOOD, gpu=""))
    return made


def failing(yard: Yard, job: ValidateJob) -> dict[str, ValidationResult]:
    """Return the failed checks; each must have a remedy."""
    with pytest.raises(ValidationFailedError):
        run(job)
    found = {name: check for name, check in yard.written().items() if check.status == "failed"}
    assert all(check.remedy for check in found.values())
    return found


def test_valid_build_passes(yard: Yard) -> None:
    run(yard.job())
    detail = yard.written()["machine_code"].detail
    assert detail == f"libtorch_cuda.so: 12.0 native (by {OWN})"


def test_torch_for_other_arch_is_reported_with_archs(yard: Yard) -> None:
    yard.library("torch/lib/libtorch_cuda.so", "8.0", "9.0", "9.0+PTX")
    found = failing(yard, yard.job(targets=(Arch(7, 5), Arch(9, 0))))
    expected = "libtorch_cuda.so holds no code for 7.5 (it has 8.0, 9.0, 9.0+PTX)"
    assert found["machine_code"].detail.startswith(expected)


def test_few_kernels_for_target_do_not_count_as_coverage(yard: Yard) -> None:
    yard.library("torch/lib/libtorch_cuda.so", *["9.0"] * 8, "12.0")
    found = failing(yard, yard.job())
    assert "holds no code for 12.0 (it has 9.0)" in found["machine_code"].detail


def test_torch_without_device_code_in_main_library_fails(yard: Yard) -> None:
    """Code in secondary libraries does not make it pass."""
    yard.library("torch/lib/libtorch_cuda.so")
    yard.library("torch/lib/libtorch_cuda_linalg.so", "12.0")
    assert (
        "libtorch_cuda.so holds no device code" in failing(yard, yard.job())["machine_code"].detail
    )


def test_uncovered_secondary_torch_library_does_not_fail(
    yard: Yard,
) -> None:
    """In PyPI's torch 2.15.0, libtorch_cuda_linalg.so has one kernel in 33 for 7.5."""
    yard.library("torch/lib/libtorch_cuda.so", "7.5", "12.0")
    yard.library("torch/lib/libtorch_cuda_linalg.so", *["12.0"] * 8, "7.5")
    yard.library("torch/lib/libtorch_nvshmem.so", "7.5", "12.0")
    yard.library("torch/_C.so")
    run(yard.job(targets=(Arch(7, 5),), extensions={}, smokes={}, checks=("machine_code",)))
    told, rest = yard.written()["machine_code"].detail.split("; ", 1)
    assert told == "libtorch_cuda.so: 7.5 native"
    assert rest.startswith(
        "libtorch_cuda_linalg.so holds no code for 7.5 (it has 12.0), which only"
    )
    assert "libtorch_nvshmem.so: 7.5 native" in rest
    assert "_C" not in rest


def test_damaged_torch_library_is_failure(yard: Yard) -> None:
    path = yard.library("torch/lib/libtorch_nvshmem.so", "12.0")
    path.write_bytes(path.read_bytes()[:-100])
    assert "libtorch_nvshmem.so: the machine" in failing(yard, yard.job())["machine_code"].detail


def test_linked_library_is_reported_once(yard: Yard) -> None:
    lib = yard.folder / "torch" / "lib"
    (lib / "libtorch_cuda.so.1").symlink_to(lib / "libtorch_cuda.so")
    run(yard.job())
    assert yard.written()["machine_code"].detail.count("libtorch_cuda") == 1


def test_extension_for_other_arch_is_reported_with_archs(yard: Yard) -> None:
    yard.library("smoke.so", "9.0")
    found = failing(yard, yard.job())
    assert list(found) == ["smoke: machine code"]
    expected = f"smoke.so holds no code for 12.0 (it has 9.0) (by {OWN})"
    assert found["smoke: machine code"].detail == expected
    (yard.folder / "smoke.so").unlink()
    assert "smoke.so: the library does not exist" in failing(yard, yard.job())[
        "smoke: machine code"
    ].detail  # fmt: skip


def test_cpu_torch_installed_over_build_is_detected(yard: Yard) -> None:
    """Runs the real probe with a fake torch."""
    (yard.folder / "torch/lib/libtorch_cuda.so").unlink()
    (yard.folder / "torch" / "__init__.py").write_text(CPU_TORCH, encoding="utf-8")
    publish(
        yard.folder / "extension-env.json",
        Environment({"PYTHONPATH": str(yard.folder)}, {}, (), ":"),
    )
    yard.torch(sys.executable)
    found = failing(yard, yard.job(extensions={}, smokes={}))
    assert list(found) == ["cuda", "archs", "machine_code"]
    assert "torch has no CUDA" in found["archs"].detail
    again = "install torch again: doit build profile=mine"
    assert {found[name].remedy for name in ("cuda", "archs")} == {again}
    assert "libtorch_cuda.so" in found["machine_code"].detail
    assert "doit build profile=mine" in found["machine_code"].remedy
    for name in ("device", "matmul", "convolution"):
        assert yard.written()[name] == ValidationResult(name, "not run", "torch without CUDA")
    only = failing(yard, yard.job(extensions={}, smokes={}, checks=("matmul",)))
    assert list(only) == ["cuda"], "a failed prerequisite is reported even if not selected"


@linux
def test_extension_built_against_other_torch_is_detected(yard: Yard) -> None:
    """The extension calls a function of at:: that is missing here."""
    code, made = yard.folder / "toy.c", yard.folder / "toy.so"
    code.write_text(EXTENSION, encoding="utf-8")
    include = sysconfig.get_path("include")
    argv = ["cc", "-shared", "-fPIC", f"-I{include}", "-o", str(made), str(code)]
    subprocess.run(argv, check=True)
    (yard.folder / "torch" / "__init__.py").write_text(CPU_TORCH, encoding="utf-8")
    publish(
        yard.folder / "extension-env.json",
        Environment({"PYTHONPATH": str(yard.folder)}, {}, (), ":"),
    )
    publish(yard.folder / "toy.json", BuiltExtension("toy", "built", {}, imports=("toy",)))
    yard.torch(sys.executable, cuda=None)
    lists = {"toy": yard.folder / "toy.json"}
    found = failing(yard, yard.job(extensions=lists, smokes={}, checks=("extensions",)))
    assert list(found) == ["toy: import"]
    check = found["toy: import"]
    assert "undefined symbol: _ZN2at4_ops3add4callEv" in check.detail
    assert check.cause == "abi-undefined-symbol"
    assert check.remedy.startswith("this extension was built against another torch: rebuild")


HERE = AbiFingerprint("2.15.0", "13.2", "cp311", "headers", "symbols", True, 20, "1")


def test_loadable_extension_of_earlier_torch_is_stale(yard: Yard) -> None:
    publish(yard.folder / "surface.json", HERE)
    earlier = replace(HERE, symbols="fewer").name
    publish(yard.folder / "smoke.json", replace(yard.built(), surface=earlier))
    found = failing(yard, yard.job())
    assert list(found) == ["smoke: built for this torch"]
    check = found["smoke: built for this torch"]
    expected = f"built for ABI fingerprint {earlier}, but the installed torch has {HERE.name}"
    remedy = "build the extension again: doit build profile=mine"
    assert (check.detail, check.remedy) == (expected, remedy)
    run(yard.job(checks=("matmul",)))
    assert list(yard.written()) == ["matmul"], "the check belongs to the group extensions"


def test_extension_of_this_torch_passes_and_unknown_is_skipped(
    yard: Yard,
) -> None:
    publish(yard.folder / "surface.json", HERE)
    run(yard.job())
    assert "smoke: built for this torch" not in yard.written()
    publish(yard.folder / "smoke.json", replace(yard.built(), surface=HERE.name))
    run(yard.job())
    told = ValidationResult("smoke: built for this torch", "passed", f"ABI fingerprint {HERE.name}")
    assert yard.written()["smoke: built for this torch"] == told


def test_cuobjdump_is_found_in_toolkit_then_triton_then_path(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> MachineCodeReader:
        deps = manifests.read_manifest(yard.folder / "deps.json", DepsManifest)
        return find_code_reader(deps, manifests.read_manifest(yard.folder / "wheel.json", Wheel))

    assert found() == MachineCodeReader()
    on_path = yard.folder / "bin"
    on_path.mkdir()
    program(on_path / "cuobjdump", "")
    monkeypatch.setenv("PATH", f"{on_path}:/usr/bin:/bin")
    assert found() == MachineCodeReader(str(on_path / "cuobjdump"))
    tritons = yard.folder / "triton/backends/nvidia/bin/cuobjdump"
    tritons.parent.mkdir(parents=True)
    program(tritons, "")
    assert found() == MachineCodeReader(str(tritons))
    yard.listing("sm_120")
    assert found() == MachineCodeReader(str(yard.folder / "cuobjdump"))
    yard.deps(cuobjdump=str(yard.folder / "gone"))
    assert found() == MachineCodeReader(str(tritons)), (
        "cuobjdump of the toolkit may have been removed"
    )


def test_machine_code_reader_is_reported(yard: Yard) -> None:
    yard.listing("sm_120")
    run(yard.job())
    assert yard.written()["machine_code"].detail == "libtorch_cuda.so: 12.0 native (by cuobjdump)"


@pytest.mark.parametrize(("needed", "status"), [(True, "failed"), (False, "not run")])
def test_extension_without_device_code_fails_only_if_needed(
    yard: Yard, needed: bool, status: str
) -> None:
    yard.library("smoke.so")
    publish(yard.folder / "smoke.json", replace(yard.built(), needs_code=needed))
    yard.python(probing(ALL_GOOD, gpu=""))
    with suppress(ValidationFailedError):
        run(yard.job())
    check = yard.written()["smoke: machine code"]
    assert (check.status, "smoke.so holds no device code" in check.detail) == (status, True)
    assert ("doit build profile=mine" in check.remedy) is needed
