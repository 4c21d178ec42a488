"""A wheel of an extension is refused before install if it lacks code for a target."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.core.deps_model import CudaHome, DepsManifest, Program
from tasks.core.errors import BadArtifactError
from tasks.core.model import Arch, Layout
from tasks.core.project import Project
from tasks.settings.schema import parse_settings
from tasks.stages.extensions.extension_code_io import (
    build_missing_code_error,
    needs_device_code,
    read_library_archs,
)
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.extensions.plan import plan_extension
from tests.support.actionyard import CHOICE, script
from tests.support.checkout import KNOWLEDGE, ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
NONE = Program("", "")
RECORDED = {"toy/_C.so": "", "toy/__init__.py": ""}


def job(folder: Path, target: Arch) -> ExtensionJob:
    settings = parse_settings({"extensions": [{"name": "toy", "path": "toy"}]})
    choice = replace(CHOICE, torch="2.15.0", targets=(target,))
    layout = Layout(Project.of_checkout(folder), "p", folder / "wheelhouse")
    made = plan_extension(settings.extensions[0], settings, layout, choice, KNOWLEDGE).job
    assert isinstance(made, ExtensionJob)
    return replace(made, knowledge=ROOT / "config" / "knowledge")


def deps(folder: Path, arch: str, cuda: str = "13.0.88") -> DepsManifest:
    """Return deps whose cuobjdump lists one image for `arch`, built by that toolkit."""
    tool = script(folder / "cuobjdump", f'#!/bin/sh\necho "ELF file    1: x.1.{arch}.cubin"\n')
    toolkit = CudaHome("/usr/local/cuda", cuda, ())
    return DepsManifest("", "3.12.0", "1", None, "", toolkit, tool, NONE, NONE, NONE, NONE, None)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Create the unpacked files of a wheel."""
    for name in RECORDED:
        path = tmp_path / "unpacked" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "unpacked"


def test_archs_of_each_library_are_read(tmp_path: Path, wheel: Path) -> None:
    made = job(tmp_path, Arch(12, 0))
    assert read_library_archs(made, deps(tmp_path, "sm_120"), wheel, RECORDED) == {
        "toy/_C.so": ("12.0",)
    }
    no_tool = replace(deps(tmp_path, "sm_90"), cuobjdump=None)
    assert read_library_archs(made, no_tool, wheel, RECORDED) == {}


def test_extension_wheel_without_code_for_target_is_refused(tmp_path: Path, wheel: Path) -> None:
    with pytest.raises(BadArtifactError, match=r"code for 9\.0, but no code that runs on 12\.0"):
        read_library_archs(job(tmp_path, Arch(12, 0)), deps(tmp_path, "sm_90"), wheel, RECORDED)


def test_discrete_gpu_code_covers_orin_depending_on_toolkit(tmp_path: Path, wheel: Path) -> None:
    orin = job(tmp_path, Arch(8, 7))
    assert read_library_archs(orin, deps(tmp_path, "sm_86", "13.2.86"), wheel, RECORDED)
    with pytest.raises(BadArtifactError, match=r"no code that runs on 8\.7"):
        read_library_archs(orin, deps(tmp_path, "sm_86"), wheel, RECORDED)


def test_per_arch_libraries_cover_targets_together(tmp_path: Path, wheel: Path) -> None:
    """For example tiny-cuda-nn builds one library per arch."""
    both = replace(job(tmp_path, Arch(12, 0)), targets=(Arch(8, 6), Arch(12, 0)))
    recorded = {"toy/_120_C.so": ""}
    (wheel / "toy" / "_120_C.so").touch()
    with pytest.raises(
        BadArtifactError, match=r"the wheel contains code for 12\.0, but no code .* 8\.6"
    ):
        read_library_archs(both, deps(tmp_path, "sm_120"), wheel, recorded)
    one = replace(both, targets=(Arch(12, 0),))
    assert read_library_archs(one, deps(tmp_path, "sm_120"), wheel, recorded)


@pytest.mark.parametrize(
    ("sources", "cuda", "needed"),
    [
        (["csrc/cuda/op.cu"], "auto", True),
        (["csrc/cuda/op.cu"], "none", False),
        (["csrc/op.cpp"], "auto", False),
        (["csrc/op.cpp"], "required", True),
        (["tests/op.cu", "examples/op.cu", "third_party/glm/op.cu"], "auto", False),
    ],
)
def test_source_with_cuda_needs_device_code(
    tmp_path: Path, wheel: Path, sources: list[str], cuda: Any, needed: bool
) -> None:
    made = replace(job(tmp_path, Arch(12, 0)), cuda=cuda)
    for name in sources:
        (Path(made.tree) / name).parent.mkdir(parents=True, exist_ok=True)
        (Path(made.tree) / name).touch()
    Path(made.tree).mkdir(parents=True, exist_ok=True)
    assert needs_device_code(made, wheel, RECORDED) is needed
    assert not needs_device_code(replace(made, targets=()), wheel, RECORDED)


def test_jit_compiled_wheel_needs_no_device_code(tmp_path: Path, wheel: Path) -> None:
    made = job(tmp_path, Arch(12, 0))
    for folder in (Path(made.tree), wheel):
        (folder / "toy").mkdir(parents=True, exist_ok=True)
        (folder / "toy" / "op.cu").touch()
    assert not needs_device_code(made, wheel, {"toy/op.cu": ""})
    assert needs_device_code(made, wheel, RECORDED)


@pytest.mark.parametrize(
    ("setup", "env", "line", "hint"),
    [
        (
            "import torch\nuse = torch.cuda.is_available()",
            {},
            2,
            "remove the check for a GPU in this line",
        ),
        (
            "from torch import cuda\nuse = cuda.is_available() or os.getenv('FORCE_CUDA') == '1'",
            {"FORCE_CUDA": "0"},
            2,
            'set extensions (toy).env: {FORCE_CUDA: "1"}',
        ),
        (
            "import os\nuse = os.environ.get('WITH_CUDA')",
            {},
            0,
            "set variables that setup.py reads in extensions (toy).env: WITH_CUDA",
        ),
        ("", {}, 0, "set extensions (toy).cuda: none if the extension needs no CUDA code"),
    ],
)
def test_missing_device_code_error_has_hints(
    tmp_path: Path, setup: str, env: dict[str, str], line: int, hint: str
) -> None:
    made = job(tmp_path, Arch(12, 0))
    Path(made.tree).mkdir(parents=True)
    (Path(made.tree) / "setup.py").write_text(setup, encoding="utf-8")
    (Path(made.tree) / "op.cu").touch()
    error = build_missing_code_error(replace(made, env={**made.env, **env}))
    assert error.message == "toy was built without device code, but its source contains op.cu"
    assert error.location == (
        f"{made.original / 'setup.py'}:{line}" if line else "extensions (toy)"
    )
    assert hint in error.hint.splitlines()[0]
    assert "cuda: none" in error.hint
