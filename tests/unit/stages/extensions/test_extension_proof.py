"""What an extension's wheel holds, read before it is installed: refused where a target is left
out.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.errors import BadArtifactError
from tasks.model import Arch, Layout
from tasks.settings.schema import Settings
from tasks.stages.deps.job import CudaHome, Deps, Program
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.plan import plan
from tasks.stages.extensions.proof import archs
from tests.actionyard import CHOICE, script
from tests.checkout import KNOWLEDGE, ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
NONE = Program("", "")
RECORDED = {"toy/_C.so": "", "toy/__init__.py": ""}


def job(folder: Path, target: Arch) -> ExtensionJob:
    settings = Settings.model_validate({"extensions": [{"name": "toy", "path": "toy"}]})
    choice = replace(CHOICE, torch="2.15.0", targets=(target,))
    layout = Layout(folder, "p", folder / "wheelhouse")
    made = plan(settings.extensions[0], settings, layout, choice, KNOWLEDGE).job
    assert isinstance(made, ExtensionJob)
    return replace(made, knowledge=ROOT / "config" / "knowledge")


def deps(folder: Path, holds: str, cuda: str = "13.0.88") -> Deps:
    """A cuobjdump that finds one image of `holds`, and the toolkit that made it."""
    tool = script(folder / "cuobjdump", f'#!/bin/sh\necho "ELF file    1: x.1.{holds}.cubin"\n')
    toolkit = CudaHome("/usr/local/cuda", cuda, ())
    return Deps("", "3.12.0", "1", None, "", toolkit, tool, NONE, NONE, NONE, NONE, None)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Its files, unpacked."""
    for name in RECORDED:
        path = tmp_path / "unpacked" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "unpacked"


def test_each_library_with_device_code_says_what_it_holds(tmp_path: Path, wheel: Path) -> None:
    made = job(tmp_path, Arch(12, 0))
    assert archs(made, deps(tmp_path, "sm_120"), wheel, RECORDED) == {"toy/_C.so": ("12.0",)}
    nobody = replace(deps(tmp_path, "sm_90"), cuobjdump=None)
    assert archs(made, nobody, wheel, RECORDED) == {}


def test_a_wheel_that_leaves_a_target_out_is_refused(tmp_path: Path, wheel: Path) -> None:
    with pytest.raises(BadArtifactError, match=r"code for 9\.0 and none that runs on 12\.0"):
        archs(job(tmp_path, Arch(12, 0)), deps(tmp_path, "sm_90"), wheel, RECORDED)


def test_code_of_discrete_cards_counts_for_orin_by_the_toolkit_that_made_it(
    tmp_path: Path, wheel: Path
) -> None:
    orin = job(tmp_path, Arch(8, 7))
    assert archs(orin, deps(tmp_path, "sm_86", "13.2.86"), wheel, RECORDED)
    with pytest.raises(BadArtifactError, match=r"none that runs on 8\.7"):
        archs(orin, deps(tmp_path, "sm_86"), wheel, RECORDED)
