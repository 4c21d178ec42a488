"""The wheel and the sdist: their files, their metadata, and what their checkers say."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.installedwheel import build_distribution

pytestmark = pytest.mark.integration

# Folders of the checkout that a wheel has in the package torchyard
PACKAGED = ("tasks", "config", "templates")
OF_A_USER = ("local.yaml", "local-")  # settings that git ignores


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_distribution("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_distribution("sdist", tmp_path_factory.mktemp("sdist"))


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def packaged_files() -> set[str]:
    """Return the names in a wheel of all files of the checkout that belong there."""
    paths = (path for name in PACKAGED for path in (ROOT / name).rglob("*") if path.is_file())
    found = (path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts)
    return {f"torchyard/{name}" for name in found if not any(one in name for one in OF_A_USER)}


def test_wheel_has_all_files_in_one_package(wheel: Path) -> None:
    found = names(wheel)
    assert packaged_files() <= found
    tops = {name.partition("/")[0] for name in found}
    assert tops == {"torchyard", f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"}
    folders = {name.split("/")[1] for name in found if name.startswith("torchyard/")}
    modules = {"__init__.py", "__main__.py", "doit_commands.py"}
    assert folders == {*PACKAGED, "docs", *modules}
    assert not [name for name in found if "local.yaml" in name or "__pycache__" in name]


def test_sdist_builds_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert names(build_distribution("wheel", tmp_path / "dist", source)) == names(wheel)
    assert (source / "tests" / "conftest.py").is_file()


def test_metadata_is_complete(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata: Message = HeaderParser().parsestr(archive.read(name).decode())
        scripts = archive.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert len(metadata.get_all("Classifier", [])) > 10
    labels = {url.partition(",")[0] for url in metadata.get_all("Project-URL", [])}
    assert labels == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert "torchyard = torchyard.__main__:main" in scripts


@pytest.mark.parametrize("checker", [("twine", "check", "--strict"), ("check_wheel_contents",)])
def test_checkers_find_nothing(checker: tuple[str, ...], wheel: Path, sdist: Path) -> None:
    files = [wheel, sdist] if checker[0] == "twine" else [wheel]
    argv = [sys.executable, "-m", *checker, *map(str, files)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=wheel.parent, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
