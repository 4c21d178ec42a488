"""Tests of planning the source stage: location, fingerprint and checks without network."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Arch, Interpreter, Layout, Stage
from tasks.core.project import Project
from tasks.core.resolution import Resolution, ToolkitResolution
from tasks.settings.schema import Settings, parse_settings
from tasks.stages.compile.plan import plan as plan_compile
from tasks.stages.source.plan import plan
from tasks.stages.source.source_checks_io import check_source_settings
from tests.support.toytree import Backend, make_tree

LAYOUT = Layout(Project.of_checkout(PurePosixPath("/yard")), "p", PurePosixPath("/yard/wheelhouse"))
CHOICE = Resolution(
    system="linux",
    strategy="source",
    strategy_why="asked for",
    targets=(Arch(12, 0),),
    targets_why="asked for",
    ptx=False,
    torch="2.6.0",
    cuda=None,
    toolkit=ToolkitResolution("none"),
    python=Interpreter("/usr/bin/python3", "3.12.1"),
)


def settings(**source: Any) -> Settings:
    return parse_settings({"source": source})


def stage(**source: Any) -> Stage:
    return plan(settings(**source), LAYOUT, CHOICE)


def test_git_is_cloned_at_release_tag() -> None:
    job = stage().job
    assert (job.kind, job.ref) == ("git", "v2.6.0")
    assert job.tree == PurePosixPath("/yard/build/p/src/pytorch")


def test_explicit_ref_is_used() -> None:
    assert stage(ref="main").job.ref == "main"


def test_path_is_built_in_place_and_relative_to_checkout() -> None:
    assert stage(path="../pytorch", tarball="a.zip").job.location == "/yard/../pytorch"
    assert stage(path="/src/pytorch").job.tree == PurePosixPath("/src/pytorch")
    assert stage(path="/src/pytorch").job.kind == "path"


def test_tarball_has_precedence_over_git() -> None:
    job = stage(tarball="https://example.invalid/a.tar.gz", sha256="0" * 64).job
    assert (job.kind, job.location) == ("tarball", "https://example.invalid/a.tar.gz")
    assert stage(tarball="a.tar.gz").job.location == "/yard/a.tar.gz"


def test_source_stage_always_checks_tree() -> None:
    assert stage().uptodate_check == "always"
    assert stage().outputs == (PurePosixPath("/yard/build/p/source.json"),)


def test_fingerprint_ignores_mirrors_but_not_ref_submodules_patches() -> None:
    usual = stage().fingerprint
    assert stage(mirrors={"https://github.com/": "https://mirror.example/"}).fingerprint == usual
    for change in ({"ref": "main"}, {"submodules": False}, {"patches": ["a.patch"]}):
        assert stage(**change).fingerprint != usual


def test_fingerprint_of_path_ignores_ref() -> None:
    assert stage(path="/src", ref="a").fingerprint == stage(path="/src", ref="b").fingerprint


def test_compile_fingerprint_ignores_jobs_but_not_flags() -> None:
    def inputs(**build: Any) -> Any:
        return plan_compile(parse_settings({"build": build}), LAYOUT, CHOICE).fingerprint

    assert inputs(jobs=3) == inputs()
    for change in ({"flags": {"USE_MPI": False}}, {"target": "c10"}, {"type": "Debug"}):
        assert inputs(**change) != inputs()


def read_error(root: Path, **source: Any) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        check_source_settings(settings(**source), root)
    return caught.value


def test_default_settings_pass(tmp_path: Path) -> None:
    check_source_settings(Settings(), tmp_path)


def test_missing_path_is_reported_with_key(tmp_path: Path) -> None:
    assert read_error(tmp_path, path="nothing").location == "source.path"


@pytest.mark.parametrize("strategy", ["prebuilt", "existing"])
def test_unused_sources_may_be_missing(tmp_path: Path, strategy: str) -> None:
    """local.yaml may name them for other profiles, for example on an unmounted disk."""
    source = {"path": "nothing", "patches": ["nothing.patch"]}
    check_source_settings(
        parse_settings({"torch": {"strategy": strategy}, "source": source}), tmp_path
    )


def test_path_of_other_project_is_refused_with_missing_files(tmp_path: Path) -> None:
    vision = tmp_path / "vision"
    vision.mkdir()
    for name in ("setup.py", "pyproject.toml", "CMakeLists.txt", "version.txt"):
        (vision / name).touch()
    error = read_error(tmp_path, path="vision")
    assert error.location == "source.path"
    assert error.message.startswith(f"{vision} is not the source tree of PyTorch")
    assert error.message.endswith("it lacks torch/__init__.py, c10")
    assert "cloned" in error.hint


@pytest.mark.parametrize("near", [".", "pytorch/torch", "pytorch/torch/backends"])
def test_path_near_tree_suggests_tree(tmp_path: Path, near: str) -> None:
    tree = make_tree(tmp_path / "pytorch")
    assert read_error(tmp_path, path=near).hint == f"set source.path to {tree}"


@pytest.mark.parametrize("backend", ["setup_py", "scikit_build_core"])
def test_tree_of_either_backend_is_accepted(tmp_path: Path, backend: Backend) -> None:
    make_tree(tmp_path / "tree", backend=backend)
    check_source_settings(settings(path="tree"), tmp_path)


def test_missing_tarball_is_reported_with_key(tmp_path: Path) -> None:
    assert read_error(tmp_path, tarball="a.tar.gz").location == "source.tarball"


def test_tarball_url_needs_sha256(tmp_path: Path) -> None:
    error = read_error(tmp_path, tarball="https://example.invalid/a.tar.gz")
    assert error.location == "source.sha256"


def test_unsupported_archive_and_url_are_refused(tmp_path: Path) -> None:
    assert read_error(tmp_path, tarball="a.rpm").location == "source.tarball"
    assert (
        read_error(tmp_path, tarball="ftp://a/a.zip", sha256="0" * 64).location == "source.tarball"
    )


def test_missing_source_patch_is_reported_with_key(tmp_path: Path) -> None:
    assert read_error(tmp_path, patches=["fix.patch"]).location == "source.patches"
