"""Installed packages: where they came from, who requires them, and which index file matches."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tasks.core.errors import BadArtifactError, FetchError
from tasks.system import environments, files
from tasks.system.environments import (
    InstalledPackage,
    read_installed_packages,
    read_package_versions,
    resolve_required_names,
)
from tasks.system.package_installer import DigestLister, InstallOptions, PackageInstaller
from tests.support import smallwheels
from tests.support.systems import needs_pip


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_NO_INDEX", "1")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    smallwheels.wheel(folder, "one", "1.0", {"one.py": ""}, ["two>=1", "absent; extra == 'x'"])
    smallwheels.wheel(folder, "two", "2.0", {"two.py": ""})
    smallwheels.wheel(folder, "two", "2.0", {"two.py": "2"}, tag="cp39-cp39-win32")
    return folder


@pytest.fixture
def packages(tmp_path: Path, index: Path) -> Path:
    """Install packages from the index, and one from a local file."""
    given = smallwheels.wheel(tmp_path / "given", "given", "3.0", {"given.py": ""}, ["one"])
    landing = tmp_path / "packages"
    into = PackageInstaller(sys.executable, environments.find_uv(), tmp_path / "log", landing)
    into.install_requirements(["one", str(given)], InstallOptions(index=str(index)))
    return landing


def test_packages_from_files_are_distinguished_from_index_packages(packages: Path) -> None:
    here = read_installed_packages(packages)
    assert {name: one.is_file for name, one in here.items()} == {
        "given": True,
        "one": False,
        "two": False,
    }
    assert here["one"].pin == "one==1.0"
    assert read_package_versions(packages) == {"given": "3.0", "one": "1.0", "two": "2.0"}
    assert read_package_versions(packages / "nowhere") == {}


def test_requirements_are_followed_transitively(packages: Path) -> None:
    here = dict(read_installed_packages(packages))
    assert resolve_required_names(["given"], here) == {"given", "one", "two"}
    assert resolve_required_names(["two>=2; python_version > '3'", "nothing"], here) == {"two"}
    here["kit"] = InstalledPackage(
        "kit", "1", frozenset(), ("two; extra == 'cc'", "= not PEP 508"), False
    )
    assert resolve_required_names(["kit"], here) == {"kit"}
    assert resolve_required_names(["kit", "kit[cc]"], here) == {"kit", "two"}


def test_digest_is_that_of_installed_file(packages: Path, index: Path, tmp_path: Path) -> None:
    lister = DigestLister(environments.find_uv(), sys.executable, tmp_path, tmp_path / "log")
    here = read_installed_packages(packages)
    assert lister.find_digests([here["two"]], str(index)) == {
        "two==2.0": (files.read_artifact(index / "two-2.0-py3-none-any.whl").sha256,)
    }
    (index / "two-2.0-py3-none-any.whl").unlink()
    (index / "two-2.0-cp39-cp39-win32.whl").unlink()
    with pytest.raises(FetchError, match="ask the index for digests"):
        lister.find_digests([here["two"]], str(index))


@pytest.fixture(params=["uv", pytest.param("pip", marks=needs_pip)])
def into(request: pytest.FixtureRequest, tmp_path: Path, index: Path) -> PackageInstaller:
    """Return an installer for a folder, with uv and with pip."""
    uv = environments.find_uv() if request.param == "uv" else None
    return PackageInstaller(sys.executable, uv, tmp_path / "log", tmp_path / "packages")


def test_locked_version_is_installed_instead_of_newest(into: PackageInstaller, index: Path) -> None:
    held = files.read_artifact(index / "two-2.0-py3-none-any.whl").sha256
    smallwheels.wheel(index, "two", "3.0", {"two.py": "3"})
    into.install_locked({"two==2.0": (held,)}, str(index))
    assert into.target
    assert read_package_versions(into.target) == {"two": "2.0"}


def test_digest_mismatch_is_refused_with_both_digests(into: PackageInstaller, index: Path) -> None:
    with pytest.raises(BadArtifactError) as error:
        into.install_locked({"one==1.0": ("b" * 64,)}, str(index))
    found = files.read_artifact(index / "one-1.0-py3-none-any.whl").sha256
    message = f"the index provides one==1.0 with sha256 {found}, but torchyard.lock requires"
    assert f"{message} {'b' * 64}" in str(error.value)
    assert "TORCHYARD__LOCK=false" in error.value.hint
    assert into.target
    assert read_package_versions(into.target) == {}
