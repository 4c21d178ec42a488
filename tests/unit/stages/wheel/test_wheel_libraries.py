"""Tests of the origins of libraries that a wheel needs, with real libraries."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks.core.deps_model import CudaHome, DepsManifest, Program
from tasks.core.errors import BadArtifactError
from tasks.core.model import Layout
from tasks.core.project import Project
from tasks.settings.schema import Settings
from tasks.stages.compile.model import CompileResult
from tasks.stages.env.model import Environment
from tasks.stages.wheel import wheel_libraries_io
from tasks.stages.wheel.model import BuiltJob
from tasks.stages.wheel.plan import plan
from tasks.system import manifests
from tasks.wheels.library_linkage import (
    LibraryOrigin,
    LinkedLibrary,
    WheelLibraries,
    summarize_libraries,
)
from tests.support.checkout import Heard
from tests.support.sharedlibrary import linux, make_library
from tests.unit.stages.wheel.test_wheel_stage import CHOICE, KNOWLEDGE

pytestmark = linux

NONE = Program("", "")
NAME = "torch-2.6.0-cp312-cp312-linux_x86_64.whl"


@dataclass(frozen=True)
class Bench:
    """A build folder and an environment origins_of interpreter only prints its site-packages."""

    folder: Path
    toolkit: CudaHome | None = None

    @property
    def job(self) -> BuiltJob:
        layout = Layout(Project.of_checkout(self.folder), "p", self.folder / "wheelhouse")
        job = plan(Settings(), layout, CHOICE, KNOWLEDGE).job
        assert isinstance(job, BuiltJob)
        return job

    @property
    def site(self) -> Path:
        return self.folder / "build" / "p" / "venv" / "lib" / "site-packages"

    @property
    def tree(self) -> Path:
        return self.folder / "pytorch"

    def look(self, *members: Path) -> WheelLibraries:
        """Create a wheel of `members` from the folder `wheel` and inspect it."""
        path = self.folder / NAME
        with zipfile.ZipFile(path, "w") as archive:
            for member in members:
                archive.write(member, member.relative_to(self.folder / "wheel"))
        recorded = {member.relative_to(self.folder / "wheel").as_posix(): "" for member in members}
        manifests.write_manifest(
            self.job.libraries,
            wheel_libraries_io.inspect_libraries(self.job, self._deps(), path, recorded),
        )
        return manifests.read_manifest(self.job.libraries, WheelLibraries)

    def refused(self, *members: Path) -> BadArtifactError:
        with pytest.raises(BadArtifactError) as error:
            self.look(*members)
        assert error.value.location == str(self.folder / NAME)
        return error.value

    def _deps(self) -> DepsManifest:
        scripts = self.site.parent.parent / "bin"
        scripts.mkdir(parents=True, exist_ok=True)
        python = scripts / "python"
        python.write_text(f"#!/bin/sh\necho {self.site}\n")
        python.chmod(0o755)
        manifests.write_manifest(self.job.env, Environment({}, {}, (), ":"))
        compiled = CompileResult("setup_py", str(self.tree), "", None, "", (), {})
        manifests.write_manifest(self.job.compiled, compiled)
        return DepsManifest(str(python), "3.12.1", "1", None, str(scripts), self.toolkit, None,
                    NONE, NONE, NONE, NONE, None)  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def member(bench: Bench, name: str, *needs: Path, rpath: str = "$ORIGIN") -> Path:
    return make_library(bench.folder / "wheel" / "torch" / name, *needs, rpath=rpath)


def origins_of(found: WheelLibraries, library: str) -> dict[str, str]:
    return dict(found.libraries[f"torch/{library}"].needed)


def test_libraries_of_wheel_and_system_are_distinguished(bench: Bench, heard: Heard) -> None:
    c10 = member(bench, "lib/libc10.so")
    module = member(bench, "_C.cpython-312-x86_64-linux-gnu.so", c10, rpath="$ORIGIN/lib")
    found = bench.look(c10, module, bench_text(bench))
    needed = {"libc10.so": "wheel", "libc.so.6": "system"}
    assert origins_of(found, module.name) == needed
    assert list(found.libraries) == [f"torch/{module.name}", "torch/lib/libc10.so"]
    assert heard[-1] == "2 libraries"
    assert not list(Path(bench.job.landing).rglob("*.so"))


def bench_text(bench: Bench) -> Path:
    """Create a linker script that is named like a library."""
    path = bench.folder / "wheel" / "torch" / "lib" / "libm.so"
    path.write_text("GROUP ( libm.so.6 )\n")
    return path


def test_library_inspection_is_deterministic(bench: Bench) -> None:
    libraries_of = [member(bench, f"lib/lib{name}.so") for name in "cab"]
    bench.look(*libraries_of)
    before = Path(bench.job.libraries).read_bytes()
    bench.look(*reversed(libraries_of))
    assert Path(bench.job.libraries).read_bytes() == before


def test_missing_library_is_refused_with_its_users(bench: Bench) -> None:
    gone = make_library(bench.folder / "elsewhere" / "libgone.so.3")
    one, two = member(bench, "lib/libone.so", gone), member(bench, "lib/libtwo.so", gone)
    error = bench.refused(one, two)
    assert error.message == (
        "the wheel was not installed: libgone.so.3 (needed by torch/lib/libone.so, "
        "torch/lib/libtwo.so) is not on this machine. Nothing was changed"
    )
    assert "LD_LIBRARY_PATH" in error.hint
    assert not Path(bench.job.libraries).exists()


def test_library_of_replaced_torch_does_not_count(bench: Bench) -> None:
    old = make_library(bench.site / "torch" / "lib" / "libold.so")
    error = bench.refused(member(bench, "lib/libone.so", old))
    assert "libold.so (needed by torch/lib/libone.so) is not on this machine" in error.message


def test_wheel_library_without_rpath_is_refused(bench: Bench) -> None:
    c10 = member(bench, "lib/libc10.so")
    error = bench.refused(c10, member(bench, "_C.so", c10, rpath="$ORIGIN"))
    assert "no RPATH leads from torch/_C.so to libc10.so in the wheel" in error.message
    assert "CMAKE_SKIP_RPATH" in error.hint


def test_missing_driver_library_is_accepted(bench: Bench, heard: Heard) -> None:
    stub = make_library(bench.folder / "stubs" / "libcuda.so.1")
    found = bench.look(member(bench, "lib/libone.so", stub))
    assert origins_of(found, "lib/libone.so")["libcuda.so.1"] == "driver"
    assert heard[-1] == "1 library; from the driver: libcuda.so.1"


def test_toolkit_and_packages_are_recognized_through_links(bench: Bench, heard: Heard) -> None:
    packages = bench.site / "nvidia"
    cudart = make_library(packages / "cu13" / "lib" / "libcudart.so.13")
    cudnn = make_library(packages / "cudnn" / "lib" / "libcudnn.so.9")
    mkl = make_library(bench.site.parent / "libmkl_rt.so.2")
    home = bench.folder / "build" / "p" / "cuda" / "lib64"
    home.mkdir(parents=True)
    (home / cudart.name).symlink_to(cudart)
    with_toolkit = Bench(bench.folder, CudaHome(str(home.parent), "13.0.1", ("pin==1",)))
    rpath = f"$ORIGIN:{home}:{mkl.parent}"
    found = with_toolkit.look(member(bench, "lib/libone.so", cudart, cudnn, mkl, rpath=rpath))
    assert found.libraries["torch/lib/libone.so"] == LinkedLibrary(
        {
            "libcudart.so.13": "toolkit",
            "libcudnn.so.9": "toolkit",  # torch/__init__ loads it if no path leads to it
            "libmkl_rt.so.2": "environment",
            "libc.so.6": "system",
        },
        {str(home): "toolkit", str(mkl.parent): "environment"},
    )
    assert [line for line in heard if "RPATH" in line] == []
    assert "from the toolkit: libcudart.so.13, libcudnn.so.9; from packages of" in heard[-1]


def test_rpath_into_source_tree_is_warning(bench: Bench, heard: Heard) -> None:
    left = make_library(bench.tree / "build" / "lib" / "libleft.so")
    found = bench.look(member(bench, "lib/libone.so", left, rpath=str(left.parent)))
    assert origins_of(found, "lib/libone.so")["libleft.so"] == "build"
    (warning,) = (line for line in heard if "RPATH" in line)
    assert warning.startswith(f"the RPATH of libone.so contains {left.parent}. ")
    assert heard[-1] == "1 library; from the build folder: libleft.so"


def test_ld_library_path_is_searched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    other = make_library(bench.folder / "opt" / "libblas.so.3")
    one = member(bench, "lib/libone.so", other)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(other.parent))
    found = bench.look(one)
    assert origins_of(found, "lib/libone.so")["libblas.so.3"] == "system"
    assert heard[-1] == "1 library; from the system: libblas.so.3"


def test_wheel_without_elf_libraries_has_no_summary(bench: Bench, heard: Heard) -> None:
    dll = bench.folder / "wheel" / "torch" / "lib" / "c10.dll"
    dll.parent.mkdir(parents=True)
    dll.write_bytes(b"MZ")
    assert bench.look(dll) == WheelLibraries(NAME, {})
    assert "librar" not in "".join(heard[1:])


def test_library_summary_is_short() -> None:
    needed: dict[str, LibraryOrigin] = {f"lib{number:02}.so": "system" for number in range(11)}
    found = WheelLibraries(NAME, {"torch/_C.so": LinkedLibrary(needed, {})})
    assert summarize_libraries(found).endswith("lib06.so, lib07.so and 3 more")


def test_library_is_read_once_per_digest(bench: Bench) -> None:
    one = member(bench, "lib/libone.so")
    bench.look(one)  # writes the wheel
    name, path = "torch/lib/libone.so", bench.folder / NAME
    first = wheel_libraries_io.read_linkages(
        bench.job, path, {name: "sha256=one"}, bench.job.layout.build / "wheel-linkages.json"
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, "no library")
    assert (
        wheel_libraries_io.read_linkages(
            bench.job, path, {name: "sha256=one"}, bench.job.layout.build / "wheel-linkages.json"
        )
        == first
    )
    assert (
        wheel_libraries_io.read_linkages(
            bench.job, path, {name: "sha256=two"}, bench.job.layout.build / "wheel-linkages.json"
        )
        == {}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(one, name)
    assert (
        wheel_libraries_io.read_linkages(
            bench.job, path, {name: "sha256=two"}, bench.job.layout.build / "wheel-linkages.json"
        )
        == {}
    )
    assert (
        wheel_libraries_io.read_linkages(
            bench.job, path, {name: "sha256=one"}, bench.job.layout.build / "wheel-linkages.json"
        )
        == first
    )
