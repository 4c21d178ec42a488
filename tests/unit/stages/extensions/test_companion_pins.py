"""The triton version that a PyTorch tree pins, as its `make triton` reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from tasks.core.deps_model import DepsManifest, Program
from tasks.core.errors import TorchyardError
from tasks.core.model import Layout
from tasks.core.project import Project
from tasks.settings.schema import parse_settings
from tasks.stages.extensions.extension_sources_io import (
    fetch_source,
    resolve_wheel_requirement,
)
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.extensions.plan import plan_extensions
from tasks.stages.source.model import SourceTree
from tasks.system import files, manifests, package_installer
from tests.support.actionyard import CHOICE
from tests.support.checkout import KNOWLEDGE, ROOT
from tests.support.newest import NEXT_TORCH

COMMIT = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"
NIGHTLY = "https://download.pytorch.org/whl/nightly/"
# Scripts from PyTorch's history, newest first
SCRIPTS = {
    "now": 'TRITON_VERSION="triton==$(cat .ci/docker/triton_version.txt)"\n'
    'TRITON_COMMIT_ID="$(head -c 8 .ci/docker/ci_commit_pins/triton.txt)"\n'
    "... $TRITON_VERSION+git${TRITON_COMMIT_ID}\n"
    'TRITON_VERSION="triton-xpu==$(cat .ci/docker/triton_xpu_version.txt)"\n',
    "git": 'TRITON_VERSION="pytorch-triton==$(cat .ci/docker/triton_version.txt)"\n'
    "... $TRITON_VERSION+git$(head -c 8 .ci/docker/ci_commit_pins/triton.txt)\n",
    "plain": "pip install --index-url https://download.pytorch.org/whl/nightly/ "
    '"pytorch-triton==$(cat .ci/docker/triton_version.txt)'
    '+$(head -c 10 .ci/docker/ci_commit_pins/triton.txt)"\n',
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Create a tree of the main branch with pins and without a script."""
    tree = tmp_path / "pytorch"
    for name, text in {
        "version.txt": f"{NEXT_TORCH}a0\n",
        ".ci/docker/triton_version.txt": "3.9.0\n",
        ".ci/docker/ci_commit_pins/triton.txt": f"{COMMIT}\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")
    return tree


def job(folder: Path, tree: Path) -> ExtensionJob:
    config = {"companions": ["triton"], "source": {"path": str(tree)}}
    layout = Layout(Project.of_checkout(folder), "p", folder / "wheelhouse")
    files.create_owned_folder(layout.build)
    manifests.write_manifest(
        layout.compute_manifest_path("source"), SourceTree(str(tree), "path", "", {}, "", "")
    )
    choice = replace(CHOICE, torch=f"{NEXT_TORCH}a0")
    (stage,) = plan_extensions(parse_settings(config), layout, choice, KNOWLEDGE)
    assert isinstance(stage.job, ExtensionJob)
    return replace(stage.job, knowledge=ROOT / "config" / "knowledge")


@pytest.mark.parametrize(
    ("script", "requirement"),
    [
        ("", "triton==3.9.0+git1a2b3c4d"),
        ("now", "triton==3.9.0+git1a2b3c4d"),
        ("git", "pytorch-triton==3.9.0+git1a2b3c4d"),
        ("plain", "pytorch-triton==3.9.0+1a2b3c4d5e"),
    ],
)
def test_main_branch_tree_pins_commit(
    tmp_path: Path, tree: Path, script: str, requirement: str
) -> None:
    if script:
        (tree / "scripts").mkdir()
        (tree / "scripts" / "install_triton_wheel.sh").write_text(SCRIPTS[script], encoding="utf-8")
    assert resolve_wheel_requirement(job(tmp_path, tree)) == (requirement, NIGHTLY)


@pytest.mark.parametrize("version", ["2.15.0", NEXT_TORCH, "2.6.0a0"])
def test_release_tree_pins_pypi_version(tmp_path: Path, tree: Path, version: str) -> None:
    (tree / "version.txt").write_text(f"{version}\n", encoding="utf-8")
    assert resolve_wheel_requirement(job(tmp_path, tree)) == ("triton==3.9.0", "")


def test_tree_without_pin_is_error_with_hint(tmp_path: Path, tree: Path) -> None:
    made = job(tmp_path, tree)
    (tree / ".ci" / "docker" / "ci_commit_pins" / "triton.txt").unlink()
    with pytest.raises(TorchyardError) as error:
        resolve_wheel_requirement(made)
    assert error.value.message == "PyTorch's source tree does not state which triton it needs"
    assert error.value.location.endswith("triton.txt")
    assert "remove triton from companions" in error.value.hint


def test_requirement_from_knowledge_needs_no_tree(tmp_path: Path, tree: Path) -> None:
    made = replace(job(tmp_path, tree), pinned=None, location="triton~=3.9.0", index="")
    assert resolve_wheel_requirement(made) == ("triton~=3.9.0", "")


def test_wheel_is_downloaded_and_recorded_with_digest(
    tmp_path: Path, tree: Path, mocker: MockerFixture
) -> None:
    downloaded = tmp_path / "triton-3.9.0-py3-none-any.whl"
    downloaded.write_bytes(b"wheel")
    download = mocker.patch.object(
        package_installer, "download_distribution", autospec=True, return_value=downloaded
    )
    none = Program("", "")
    deps = DepsManifest(
        "/v/bin/python", "3.12.0", "1", None, "", None, None, none, none, none, none, None
    )
    made = job(tmp_path, tree)
    wheel, source = fetch_source(made, deps)
    assert source == {"wheel": wheel.name, "sha256": files.read_artifact(wheel).sha256}
    (one,) = download.call_args.args
    assert (one.requirement, one.index) == ("triton==3.9.0+git1a2b3c4d", NIGHTLY)
    assert (one.python, one.sdist, one.log) == (deps.python, False, made.log)
