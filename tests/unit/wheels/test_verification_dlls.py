"""External dependencies of a Windows wheel, read from its DLLs and checked by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tasks.core.errors import BadArtifactError
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.wheels import dynamic_linkage_io
from tasks.wheels.external_libraries import (
    ExternalLibrary,
    TargetEnvironment,
    find_dll_package,
    find_external_dlls,
)
from tasks.wheels.library_linkage import SystemDlls
from tasks.wheels.machine_code_io import MachineCodeReader
from tasks.wheels.wheel_checks import RecordedWheel, check_wheel
from tasks.wheels.wheel_inspection_io import inspect_wheel
from tests.support.peimages import dll
from tests.support.rows import each_row
from tests.support.smallwheels import wheel as small_wheel

KNOWLEDGE = load_knowledge(Path(__file__).parents[3] / "config" / "knowledge")
HERE = SystemDlls(
    frozenset({"kernel32.dll"}), frozenset({"python312.dll"}), frozenset({"msvcp140.dll"})
)
TAG = "cp312-cp312-win_amd64"


def check_dll(
    needed: str, *requires: str, windows: SystemDlls | None = HERE, torch: bool = False
) -> ExternalLibrary:
    requested = [Requirement(text) for text in requires]
    beside = TargetEnvironment(requested, None, windows=windows, is_torch=torch)
    (found,) = find_external_dlls({"toy/_C.pyd": (needed,)}, beside)
    return found


@each_row(
    ("name", "package"),
    [
        ("cudart64_12.dll", "cuda-runtime"),
        ("cudart64_110.dll", "cuda-runtime"),
        ("cublas64_13.dll", "cublas"),
        ("cublaslt64_13.dll", "cublas"),
        ("cusolver64_11.dll", "cusolver"),
        ("nvrtc64_120_0.dll", "cuda-nvrtc"),
        ("nvrtc-builtins64_128.dll", "cuda-nvrtc"),
        ("nvjitlink_120_0.dll", "nvjitlink"),
        ("cudnn_ops64_9.dll", "cudnn"),
        ("cudnn64_9.dll", "cudnn"),
        ("cupti64_2024.1.1.dll", "cuda-cupti"),
        ("nvtoolsext64_1.dll", "nvtx"),
    ],
)
def test_cuda_dll_belongs_to_a_package(name: str, package: str) -> None:
    found = find_dll_package(name)
    assert found
    assert found.name == package


@pytest.mark.parametrize("name", ["kernel32.dll", "cudart.dll", "mine64_12.dll", "nvcuda.dll"])
def test_other_dlls_belong_to_no_package(name: str) -> None:
    assert find_dll_package(name) is None


def test_windows_python_and_driver_dlls_require_no_package() -> None:
    for name, whose in (
        ("kernel32.dll", "every Windows system"),
        ("python312.dll", "Python"),
        ("nvcuda.dll", "the driver"),
    ):
        assert (check_dll(name).status, check_dll(name).by) == ("passed", whose)


def test_cuda_dll_comes_with_torch_or_is_missing() -> None:
    assert check_dll("cudart64_12.dll", "torch").by == "the packages of torch"
    assert check_dll("c10_cuda.dll", "torch>=2").status == "passed"
    alone = check_dll("cudart64_12.dll")
    assert alone.status == "failed"
    assert alone.by.startswith("nvidia-cuda-runtime has it")
    assert check_dll("c10.dll").status == "failed"
    result = check_dll("cudart64_12.dll", "nvidia-cuda-runtime-cu12")
    assert result.status == "not run"  # no RPATH reaches it


def test_visual_c_runtime_is_available_only_with_torch() -> None:
    assert check_dll("msvcp140.dll").status == "failed"
    assert check_dll("msvcp140.dll", "torch").status == "passed"
    assert check_dll("msvcp140.dll", torch=True).status == "passed"


def test_windows_system_dlls_are_unknown_without_delvewheel() -> None:
    found = check_dll("kernel32.dll", windows=None)
    assert found.status == "not run"
    assert "delvewheel" in found.by


def test_dll_in_the_wheel_is_no_external_dependency() -> None:
    held = {"torch/lib/C10.dll": (), "torch/_C.pyd": ("c10.dll",)}
    assert find_external_dlls(held, TargetEnvironment([], None, windows=HERE)) == []


def test_normal_and_delay_import_tables_are_read(tmp_path: Path) -> None:
    path = tmp_path / "toy.dll"
    path.write_bytes(dll("KERNEL32.dll", "cudart64_12.dll", delayed=["nvcuda.dll"]))
    assert dynamic_linkage_io.read_needed_dlls(path) == (
        "kernel32.dll",
        "cudart64_12.dll",
        "nvcuda.dll",
    )
    path.write_bytes(dll())
    assert dynamic_linkage_io.read_needed_dlls(path) == ()
    path.write_bytes(b"\x7fELF and more")
    assert dynamic_linkage_io.read_needed_dlls(path) is None
    path.write_bytes(dll("KERNEL32.dll")[:90])
    with pytest.raises(BadArtifactError, match="cannot be read"):
        dynamic_linkage_io.read_needed_dlls(path)


def test_wheel_check_reports_missing_dlls(tmp_path: Path) -> None:
    content: dict[str, bytes | str] = {
        "toy/_C.pyd": dll("python312.dll", "c10.dll", "cudart64_12.dll", "msvcp140.dll"),
        "toy/lonely.dll": dll("KERNEL32.dll", "nowhere.dll"),
    }
    wheel = small_wheel(tmp_path, "toy", "1.0", content, ["torch"], tag=TAG)
    found = inspect_wheel(wheel, MachineCodeReader())
    result = {c.name: c for c in check_wheel(found, RecordedWheel(why="no"), KNOWLEDGE)}[
        "external libraries"
    ]
    assert result.status == "failed"
    assert result.detail == (
        "nowhere.dll (needed by lonely.dll): "
        "neither a requirement nor every Windows system provides it"
    )


def test_external_dlls_are_not_checked_with_unknown_delvewheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("delvewheel._dll_list.ignore_names_x64")
    wheel = small_wheel(tmp_path, "toy", "1.0", {"toy/_C.pyd": dll("nowhere.dll")}, tag=TAG)
    found = inspect_wheel(wheel, MachineCodeReader())
    result = {c.name: c for c in check_wheel(found, RecordedWheel(why="no"), KNOWLEDGE)}[
        "external libraries"
    ]
    assert (result.status, result.remedy) == ("not run", "pip install --upgrade delvewheel")
