"""The project of a folder, and the folders of the user."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Layout
from tasks.core.project import Project
from tasks.system.find_project import (
    find_cache_folder,
    find_project,
    find_user_settings,
    open_checkout,
)
from tests.support.systems import posix_only


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """Return a checkout of torchyard with a project in it, and one beside it."""
    for name in (
        *("torchyard/dodo.py", "torchyard/tasks/cli/session.py", "torchyard/docs/page.md"),
        *("torchyard/inside/torchyard.yaml", "torchyard/inside/src/a.py"),
        *("named/torchyard.yaml", "named/src/.torchyard/build/x", "named/src/a/b.py"),
        *("built/.torchyard/build/x", "built/src/b.py", "file/torchyard.yaml/x", "plain/x"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path / "torchyard"


@pytest.mark.parametrize(
    ("folder", "root"),
    [
        ("named", "named"),
        ("named/src/a", "named"),
        ("named/src/.torchyard/build", "named"),
        ("built", "built"),
        ("built/src", "built"),
        ("plain", "plain"),
        ("file", "file"),  # torchyard.yaml is a folder
        ("torchyard/inside/src", "torchyard/inside"),
    ],
)
def test_project_is_found_from_its_subfolders(
    code: Path, tmp_path: Path, folder: str, root: str
) -> None:
    found = find_project(tmp_path / folder, code)
    assert found.root == tmp_path / root
    assert found.outputs == tmp_path / root / ".torchyard"
    assert found.code == code
    assert not found.is_checkout


@pytest.mark.parametrize("folder", ["", "docs", "tasks/cli"])
def test_checkout_is_found_from_its_subfolders(code: Path, folder: str) -> None:
    found = find_project(code / folder, code)
    assert found == open_checkout(code)
    assert found.is_checkout
    assert found.outputs == found.root == code


def test_installed_torchyard_is_no_checkout(code: Path) -> None:
    (code / "dodo.py").unlink()
    assert find_project(code / "docs", code).root == code / "docs"


@pytest.mark.parametrize("name", ["nowhere", "torchyard/dodo.py"])
def test_missing_folder_is_refused(code: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="this folder does not exist") as error:
        find_project(tmp_path / name, code)
    assert error.value.location == str(tmp_path / name)
    assert "-C" in error.value.hint


def test_variables_name_the_folders_of_the_user(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = {"TORCHYARD_CACHE_DIR": "cache", "TORCHYARD_CONFIG_DIR": str(tmp_path / "settings")}
    cache, settings = tmp_path / "cache", tmp_path / "settings" / "config.yaml"
    for project in (find_project(tmp_path / "plain", code, own), open_checkout(code, own)):
        assert (project.cache, project.user_settings) == (cache, settings)
        assert Layout(project, "p", tmp_path).jobserver == cache / ".jobs" / platform.node()
    found, file = find_cache_folder({}), find_user_settings({})
    assert found is not None
    assert file is not None
    assert "torchyard" in found.parts
    assert file.parts[-2:] == ("torchyard", "config.yaml")


@posix_only
def test_user_without_a_home_folder_has_the_cache_in_the_project(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", refuse)
    monkeypatch.setattr(os.path, "expanduser", lambda _: refuse())
    (tmp_path / "plain").mkdir(exist_ok=True)
    project = find_project(tmp_path / "plain", code, {})
    assert project.cache == project.outputs / "cache"
    assert project.user_settings is None


def test_paths_of_a_project(tmp_path: Path) -> None:
    root, code = tmp_path / "project", tmp_path / "torchyard"
    project, checkout = Project.of_folder(root, code, tmp_path), Project.of_checkout(code)
    assert project.resolve_path("{torchyard}/templates/smoke") == code / "templates" / "smoke"
    assert project.resolve_path("toy") == root / "toy"
    assert project.compute_build_folder("a@b") == root / ".torchyard" / "build" / "a.b"
    smoke = str(code / "templates" / "smoke")
    assert project.identify_location(smoke) == "{torchyard}/templates/smoke"
    assert checkout.identify_location(smoke) == smoke
    assert project.identify_location("https://h/a") == "https://h/a"


def test_home_folder_is_not_the_project_of_its_folders(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, folder = tmp_path / "home", tmp_path / "home" / "work" / "a"
    folder.mkdir(parents=True)
    for mark in (".git", ".torchyard"):
        (home / mark).mkdir()
    monkeypatch.setattr(Path, "home", lambda: home)
    assert find_project(folder, code, {}).root == folder
    assert find_project(home, code, {}).root == home
    (folder.parent / ".git").mkdir()
    assert find_project(folder, code, {}).root == folder.parent
