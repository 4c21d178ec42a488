"""A prebuilt wheel without machine code for a GPU of the targets is not installed."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.core.deps_model import DepsManifest, Program
from tasks.core.errors import MissingCodeError
from tasks.core.model import Arch, Layout
from tasks.core.project import Project
from tasks.settings.schema import Settings, parse_settings
from tasks.stages.wheel import run
from tasks.stages.wheel.model import PrebuiltJob
from tasks.stages.wheel.plan import plan
from tasks.stages.wheel.run import require_target_code
from tasks.system import files, manifests, package_installer
from tasks.system.package_installer import PackageInstaller
from tests.support import fatbins, smallwheels
from tests.support.actionyard import PREBUILT
from tests.support.checkout import KNOWLEDGE, ROOT, Heard

KERNELS = "torch/lib/libtorch_cuda.so"
NONE = Program("", "")


def prebuilt(folder: Path, *targets: Arch) -> PrebuiltJob:
    """Return the job for torch 2.15.9 from a folder of wheels, for CUDA 13.2."""
    files.create_owned_folder(folder / "build" / "p")
    settings = parse_settings({"torch": {"index": str(folder / "index")}})
    choice = replace(PREBUILT, torch="2.15.9", targets=targets, index=str(folder / "index"))
    job = plan(
        settings, Layout(Project.of_checkout(folder), "p", folder / "wheelhouse"), choice, KNOWLEDGE
    ).job
    assert isinstance(job, PrebuiltJob)
    shutil.copytree(ROOT / "config" / "knowledge", folder / "config" / "knowledge")
    return job


def torch_wheel(folder: Path, *images: str, library: bytes = b"") -> Path:
    """Create a torch 2.15.9 wheel with these images; without images it has no CUDA library."""
    made = library or fatbins.elf({".nv_fatbin": fatbins.fatbin(*images)} if images else {})
    content = {KERNELS: made} if images or library else {"torch/__init__.py": ""}
    return smallwheels.wheel(folder / "index", "torch", "2.15.9", content)


@pytest.mark.parametrize(
    ("images", "target", "archs"),
    [
        (("9.0", "12.0"), "12.0", "9.0, 12.0"),
        (("8.6",), "8.9", "8.6"),
        (("12.0",), "12.0a", "12.0"),
        (("9.0+PTX",), "12.0", "9.0+PTX"),
    ],
    ids=["native", "compatible", "suffix", "ptx"],
)
def test_archs_of_wheel_with_full_coverage_are_reported(
    tmp_path: Path, heard: Heard, images: tuple[str, ...], target: str, archs: str
) -> None:
    wheel = torch_wheel(tmp_path, *images)
    require_target_code(prebuilt(tmp_path, Arch.parse_capability(target)), wheel)
    assert heard[-1] == f"{wheel.name} holds machine code for {archs}"
    assert not list((tmp_path / "build" / "p").rglob("*.so"))


@pytest.mark.parametrize(
    ("images", "archs"),
    [(("9.0",), "9.0"), (("9.0",) * 8 + ("12.0",), "9.0"), ((), "no GPU")],
    ids=["another", "single kernels", "cpu wheel"],
)
def test_wheel_without_code_for_target_is_refused(
    tmp_path: Path, images: tuple[str, ...], archs: str
) -> None:
    wheel = torch_wheel(tmp_path, *images)
    with pytest.raises(MissingCodeError) as error:
        require_target_code(prebuilt(tmp_path, Arch(9, 0), Arch(12, 0)), wheel)
    lacking = "9.0, 12.0" if archs == "no GPU" else "12.0"
    assert error.value.message == (
        f"{wheel.name} holds machine code for {archs} and none that runs on {lacking}; "
        "the wheel was not installed"
    )


def test_library_of_unknown_format_is_left_to_validate(tmp_path: Path, heard: Heard) -> None:
    broken = fatbins.elf({".nv_fatbin": fatbins.fatbin("9.0", header=8)})
    wheel = torch_wheel(tmp_path, library=broken)
    require_target_code(prebuilt(tmp_path, Arch(12, 0)), wheel)
    assert "cannot be read" in heard[-1]
    assert heard[-1].endswith("; doit validate checks its machine code again")


def test_refused_wheel_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the stage's action with a downloaded wheel."""
    wheel = torch_wheel(tmp_path, "9.0")
    monkeypatch.setattr(package_installer, "download_distribution", lambda _: wheel)
    job = prebuilt(tmp_path, Arch(12, 0))
    version = ".".join(map(str, sys.version_info[:3]))
    deps = DepsManifest(
        sys.executable, version, "1", None, "", None, None, NONE, NONE, NONE, NONE, None
    )
    manifests.write_manifest(job.deps, deps)
    installed: list[object] = []
    monkeypatch.setattr(
        PackageInstaller, "install_requirements", lambda *given, **_: installed.append(given)
    )
    with pytest.raises(MissingCodeError, match=r"2\.15\.9.* for 9\.0 and none that runs on 12\.0"):
        run.run(job)
    assert installed == []


def test_changed_targets_recheck_wheel() -> None:
    layout = Layout(Project.of_checkout(Path("/yard")), "p", Path("/yard/wheelhouse"))
    stages = [
        plan(Settings(), layout, replace(PREBUILT, targets=targets), KNOWLEDGE)
        for targets in ((Arch(9, 0),), (Arch(12, 0),), ())
    ]
    assert [stage.fingerprint.get("targets") for stage in stages] == [["9.0"], ["12.0"], None]
