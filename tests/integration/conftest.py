"""A yard with a toy tree and a toy extension: everything real but the size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tasks.system import environments, package_installer
from tests.support.toyextension import make_extension
from tests.support.toytree import make_tree
from tests.support.yard import Yard

NEEDED = ("build", "cmake", "ninja", "scikit-build-core", "setuptools", "wheel")


@pytest.fixture(scope="session")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build tools in an environment of their own."""
    folder = tmp_path_factory.mktemp("tools")
    uv, log = environments.find_uv(), folder / "log"
    environments.create_venv(folder / "venv", sys.executable, uv, log)
    python = environments.find_venv_python(folder / "venv")
    package_installer.PackageInstaller(str(python), uv, log).install_requirements(NEEDED)
    return folder / "venv"


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "checkout")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout of the toy tree at one commit."""
    folder = make_tree(tmp_path / "pytorch")
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "first")
    return folder


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    return make_extension(tmp_path / "extension", switches=tmp_path)


def git(folder: Path, *argv: str) -> str:
    who = ("-c", "user.name=upstream", "-c", "user.email=upstream@example.invalid")
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *argv], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, message: str) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def installed(yard: Yard, code: str) -> str:
    """What the interpreter that has the torch prints."""
    python = yard.manifest("deps")["python"]
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def source_profile(tree: Path, extension: Path | None = None) -> dict[str, object]:
    """A CPU build of the toy tree, with the toy extension where one is given."""
    listed = [{"name": "toy", "path": str(extension), "imports": ["toyext"]}] if extension else []
    return {
        "target": {"gpus": []},
        "torch": {"strategy": "source", "version": "2.6.0"},
        "source": {"path": str(tree), "submodules": False},
        "extensions": listed,
    }
