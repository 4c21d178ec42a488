"""Tests of the wheel stage: version, requirement and installed release."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from packaging.version import Version

from tasks.core.canonical_json import compute_text_sha256
from tasks.core.errors import BadArtifactError, SettingsError
from tasks.core.model import Arch, InstalledTorch, Interpreter, Layout, Stage, Strategy
from tasks.core.project import Project
from tasks.core.resolution import Resolution, ToolkitResolution
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.settings.schema import parse_settings
from tasks.stages.source.model import SourceTree
from tasks.stages.wheel.model import AbiReadOptions
from tasks.stages.wheel.plan import plan
from tasks.stages.wheel.run import require_release
from tasks.stages.wheel.wheel_packing_io import format_wheel_version

KNOWLEDGE = load_knowledge(Path(__file__).parents[4] / "config" / "knowledge")
LAYOUT = Layout(Project.of_checkout(PurePosixPath("/yard")), "p", PurePosixPath("/yard/wheelhouse"))
CHOICE = Resolution(
    system="linux",
    strategy="source",
    strategy_why="asked for",
    targets=(Arch(12, 0),),
    targets_why="asked for",
    ptx=False,
    torch="2.6.0",
    cuda="13.0",
    toolkit=ToolkitResolution("pypi", "13.0"),
    python=Interpreter("/usr/bin/python3", "3.12.1"),
)
TREE = SourceTree("/src", "git", "1a2b3c4d5e6f", {}, "", "abcdef0123456789")


def stage(choice: Resolution = CHOICE, **asked: Any) -> Stage:
    return plan(parse_settings(asked), LAYOUT, choice, KNOWLEDGE)


def version(asked: str = "auto", choice: Resolution = CHOICE, tree: SourceTree = TREE) -> str:
    return format_wheel_version(stage(choice, wheel={"local_version": asked}).job, tree)


@pytest.mark.parametrize(
    ("targets", "cuda", "named"),
    [
        ([Arch(12, 0)], "13.0", "cu130.sm120"),
        ([Arch(8, 9), Arch(9, 0, "a"), Arch(12, 0)], "12.8", "cu128.sm89.sm90a.sm120"),
        ([], None, "cpu"),
    ],
)
def test_local_version_names_cuda_and_archs(
    targets: list[Arch], cuda: str | None, named: str
) -> None:
    choice = replace(CHOICE, targets=tuple(targets), cuda=cuda)
    assert choice.label == named
    assert version(choice=choice) == f"2.6.0+{named}.g1a2b3c4"


@pytest.mark.parametrize(
    ("kind", "named"), [("Release", ""), ("Debug", ".debug"), ("RelWithDebInfo", ".debinfo")]
)
def test_debug_wheel_version_sorts_below_release_build(kind: str, named: str) -> None:
    version = format_wheel_version(stage(build={"type": kind}).job, TREE)
    assert version == f"2.6.0+cu130.sm120{named}.g1a2b3c4"
    assert Version(version) <= Version("2.6.0+cu130.sm120.g1a2b3c4")


def test_tree_without_commit_is_versioned_by_digest() -> None:
    assert version(tree=replace(TREE, commit="")) == "2.6.0+cu130.sm120.tabcdef0"


def test_edits_add_digest_to_version() -> None:
    first, second = (version(tree=replace(TREE, edits=text)) for text in ("a", "b"))
    assert first == f"2.6.0+cu130.sm120.g1a2b3c4.d{compute_text_sha256('a')[:6]}"
    assert first != second


def test_none_and_user_local_version_are_used_verbatim() -> None:
    assert version("none") == "2.6.0"
    assert version("mine.3", tree=replace(TREE, edits="a")) == "2.6.0+mine.3"


def test_prebuilt_requires_exact_release_and_existing_requires_none() -> None:
    job = stage(replace(CHOICE, strategy="prebuilt"), torch={"sha256": "a" * 64}).job
    assert (job.requirement, job.cuda, job.sha256) == ("torch==2.6.0", "13.0", "a" * 64)
    one_of_several = stage(replace(CHOICE, strategy="prebuilt"), torch={"local": "cu130.sm120.g1"})
    assert one_of_several.job.requirement == "torch==2.6.0+cu130.sm120.g1"
    assert one_of_several.fingerprint["requirement"] == one_of_several.job.requirement
    python = Interpreter("/usr/bin/python3", "3.12.1", InstalledTorch("2.6.0", "13.0", "/s/torch"))
    found = stage(replace(CHOICE, strategy="existing", python=python))
    assert (found.job.python, found.job.folder) == ("/usr/bin/python3", "/s/torch")
    assert found.inputs == (LAYOUT.compute_manifest_path("deps"),)


FOUND = InstalledTorch("2.15.0+cu132", "13.2", "/s/torch")


def test_expected_torch_is_accepted() -> None:
    require_release(FOUND, "2.15.0", "13.2")
    require_release(InstalledTorch("2.15.0+cpu", None, "/s/torch"), "2.15.0", None)


@pytest.mark.parametrize(
    ("found", "release", "cuda", "message"),
    [
        (FOUND, "2.14.1", "13.2",
         "/s/torch: torch 2.15.0+cu132 was installed instead of 2.14.1"),
        (FOUND, "2.15.0", "13.0",
         ("/s/torch: the installed torch 2.15.0+cu132 has CUDA 13.2 instead of CUDA 13.0\n"
         '  → set toolkit.version: "13.2"')),
        (FOUND, "2.15.0", None,
         ("/s/torch: the installed torch 2.15.0+cu132 has CUDA 13.2 instead of no CUDA\n"
         '  → set toolkit.version: "13.2"')),
        (InstalledTorch("2.15.0+cpu", None, "/s/torch"), "2.15.0", "13.2",
         ("/s/torch: the installed torch 2.15.0+cpu has no CUDA instead of CUDA 13.2\n"
         "  → choose another torch.index")),
    ],
)  # fmt: skip
def test_unexpected_torch_is_error(
    found: InstalledTorch, release: str, cuda: str | None, message: str
) -> None:
    with pytest.raises(BadArtifactError) as error:
        require_release(found, release, cuda)
    assert str(error.value) == message


@pytest.mark.parametrize("strategy", ["source", "prebuilt", "existing"])
def test_every_strategy_reads_same_abi_options(strategy: Strategy) -> None:
    python = Interpreter("/usr/bin/python3", "3.12.1", InstalledTorch("2.6.0", "13.0", "/s/torch"))
    choice = replace(CHOICE, strategy=strategy, python=python)
    found = stage(choice)
    build = LAYOUT.build
    assert found.job.reading == AbiReadOptions(17, build / "wheel-symbols.json", build / "surfaces")
    assert "reading" not in found.fingerprint
    assert stage(replace(choice, torch="9.9.0")).job.reading.cxx_standard is None


@pytest.mark.parametrize(
    ("setting", "provider", "expected"),
    [
        ("auto", "pypi", True),
        ("auto", "system", False),
        ("auto", "path", False),
        ("packages", "system", True),
        ("toolkit", "pypi", False),
    ],
)
def test_cuda_source_follows_toolkit_or_setting(
    setting: str, provider: Any, expected: bool
) -> None:
    choice = replace(CHOICE, toolkit=ToolkitResolution(provider, "13.0", "/opt/cuda"))
    found = stage(choice, wheel={"cuda": setting})
    assert found.job.by_packages is expected
    assert ("by_packages" in found.fingerprint) is expected  # other wheels keep their fingerprint


def test_cpu_and_windows_wheels_need_no_cuda_packages() -> None:
    none = replace(CHOICE, cuda=None, targets=(), toolkit=ToolkitResolution("none"))
    assert not stage(none, wheel={"cuda": "packages"}).job.by_packages
    windows = replace(CHOICE, system="windows")
    assert not stage(windows).job.by_packages
    with pytest.raises(SettingsError) as error:
        stage(windows, wheel={"cuda": "packages"})
    assert str(error.value).startswith("wheel.cuda: torch can use CUDA from")
