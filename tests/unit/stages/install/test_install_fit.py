"""Tests of the checks of a target environment before any file is written."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.tags import parse_tag

from tasks.core.errors import BadArtifactError, TorchyardError
from tasks.stages.install import package_resolution_io, target_environment_io
from tasks.stages.install.package_resolution_io import SelectedWheel
from tasks.stages.install.target_environment_io import (
    Distribution,
    EnvironmentInfo,
    TargetEnvironment,
    query_environment,
)
from tests.support.rows import each_row

INFO = EnvironmentInfo(
    version="3.12.4",
    tags=("cp312-cp312-manylinux_2_39_x86_64", "cp312-cp312-linux_x86_64", "py3-none-any"),
    markers={name: str(value) for name, value in default_environment().items()},
    prefix="/env",
    purelib="/env/lib/python3.12/site-packages",
    platlib="/env/lib/python3.12/site-packages",
    scripts="/env/bin",
    managed="",
    user_torch="",
    distributions=(),
)

PLACES = {"platlib": "lib64", "purelib": "lib"}


def target(**more: Any) -> TargetEnvironment:
    return TargetEnvironment("/env/bin/python", replace(INFO, **more))


def wheel(tag: str) -> SelectedWheel:
    path = Path(f"/house/torch-2.6.0-{tag}.whl")
    return SelectedWheel(path, "torch", "2.6.0", frozenset(parse_tag(tag)), "", 0)


def distribution(name: str, version: str, *requires: str, installer: str = "pip") -> Distribution:
    return Distribution(name, version, installer, requires)


def test_matching_and_universal_wheels_are_compatible() -> None:
    package_resolution_io.require_compatible_target(
        target(), [wheel("cp312-cp312-linux_x86_64"), wheel("py3-none-any")]
    )


@pytest.mark.parametrize(
    "tag",
    [
        "cp311-cp311-linux_x86_64",  # another Python
        "cp312-cp312t-linux_x86_64",  # another ABI: free-threaded
        "cp312-cp312-manylinux_2_28_aarch64",  # another machine
        "cp312-cp312-win_amd64",  # another system
        "pp311-pypy311_pp73-linux_x86_64",  # another implementation
    ],
)
def test_wheel_for_other_python_abi_or_platform_is_refused(tag: str) -> None:
    with pytest.raises(TorchyardError, match="nothing was changed") as error:
        package_resolution_io.require_compatible_target(target(), [wheel(tag)])
    assert (
        f"is for {tag}, but /env/bin/python requires cp312-cp312-manylinux" in error.value.message
    )
    assert "set python: /env/bin/python" in error.value.hint


def test_externally_managed_python_is_refused() -> None:
    mark = "/usr/lib/python3.12/EXTERNALLY-MANAGED"
    with pytest.raises(TorchyardError, match="managed by the system") as error:
        package_resolution_io.require_compatible_target(target(managed=mark), [])
    assert error.value.location == mark
    assert "create a venv" in error.value.hint


@each_row(
    ("requirement", "expected"),
    [
        ("torch==2.5.1", ["vision 0.20.1 requires torch==2.5.1, but 2.6.0+cpu is installed"]),
        ("Torch<2.6", ["vision 0.20.1 requires Torch<2.6, but 2.6.0+cpu is installed"]),
        ("torch==2.6.0", []),  # a local version satisfies it
        ("torch>=2.5", []),
        ("torch==2.5.1; extra == 'gpu'", []),
        ("torch==2.5.1; python_version < '3'", []),
        ("numpy==1.0", []),
        ("not a requirement", []),
    ],
)
def test_conflicting_requirement_is_reported(requirement: str, expected: list[str]) -> None:
    info = replace(INFO, distributions=(distribution("vision", "0.20.1", requirement),))
    assert list(package_resolution_io.describe_conflicts(info, {"torch": "2.6.0+cpu"})) == expected


def test_conflicting_companion_is_reported_with_setting() -> None:
    info = replace(INFO, distributions=(distribution("torchvision", "0.20.1", "torch==2.5.1"),))
    (warning,) = package_resolution_io.describe_conflicts(info, {"torch": "2.6.0"})
    assert warning.startswith("torchvision 0.20.1 requires torch==2.5.1, but 2.6.0 is installed; ")
    assert "companions: [torchvision] in config/local.yaml" in warning


def test_replaced_distribution_causes_no_conflict() -> None:
    info = replace(INFO, distributions=(distribution("Simple.KNN", "1", "torch==2.5.1"),))
    assert not list(
        package_resolution_io.describe_conflicts(info, {"torch": "2.6.0", "simple-knn": "2"})
    )


def test_torch_installed_by_conda_is_warning() -> None:
    (warning,) = package_resolution_io.list_install_warnings(
        target(distributions=(distribution("torch", "2.5", installer="conda"),)), {}
    )
    assert "conda does not know that its torch 2.5 " in warning
    assert "conda remove --force pytorch" in warning


def test_conda_metadata_identifies_conda_torch(tmp_path: Path) -> None:
    """Many conda packages name pip as their installer."""
    one = target(prefix=str(tmp_path), distributions=(distribution("torch", "2.5"),))
    assert not list(package_resolution_io.list_install_warnings(one, {}))
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "conda-meta" / "pytorch-2.5.1-py3.12_cuda12.4.json").touch()
    assert len(list(package_resolution_io.list_install_warnings(one, {}))) == 1


def test_shadowing_user_torch_is_warning() -> None:
    (warning,) = package_resolution_io.list_install_warnings(
        target(user_torch="/home/me/.local/lib/torch"), {}
    )
    assert warning.startswith("/env/bin/python imports /home/me/.local/lib/torch before")


def test_unexpected_distributions_are_reported() -> None:
    before = target(distributions=(distribution("torch", "2.5"), distribution("vision", "1")))
    after = target(distributions=(distribution("torch", "2.6"), distribution("sympy", "1")))
    expected = r"sympy 1 \(expected: not installed\); vision is missing \(expected: 1\); the"
    with pytest.raises(BadArtifactError, match=expected):
        package_resolution_io.require_expected_packages(before, after, {"torch": "2.6"})


@pytest.mark.skipif(sys.platform == "win32", reason="not run: written with POSIX's paths")
def test_packages_outside_prefix_are_refused() -> None:
    with pytest.raises(TorchyardError, match="outside of /env"):
        _ = target(purelib="/usr/lib/python3/dist-packages").sites


@pytest.mark.skipif(sys.platform == "win32", reason="not run: there is no lib64")
def test_staging_follows_lib64_link(tmp_path: Path) -> None:
    """Venvs of Fedora, openSUSE and RHEL have the link lib64 → lib."""
    env, staged = tmp_path / "env", tmp_path / "change" / "staged"
    (env / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    (env / "lib64").symlink_to("lib")
    folders = {n: f"{env}/{lib}/python3.12/site-packages" for n, lib in PLACES.items()}
    one = target(prefix=str(env), **folders)
    assert one.sites == ("lib/python3.12/site-packages",)
    assert one.list_links() == {"lib64": "lib"}
    target_environment_io.prepare_staging(staged, one.list_links())
    info = staged / "lib64" / "python3.12" / "site-packages" / "torch-2.6.0.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text("torch-2.6.0.dist-info/RECORD,,\n", encoding="utf-8")
    made = target_environment_io.read_staging(staged, one.sites)
    assert made.versions == {"torch": "2.6.0"}
    assert list(made.placed) == ["lib/python3.12/site-packages/torch-2.6.0.dist-info/RECORD"]


def test_environment_query_writes_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")], check=True)
    python = next(path for path in tmp_path.glob("v/*/python*") if path.stem == "python")
    before = sorted(tmp_path.rglob("*"))
    found = query_environment(python)
    assert sorted(tmp_path.rglob("*")) == before
    assert found.prefix == (tmp_path / "v").resolve()
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert any(one.startswith(tag) for one in found.info.tags)
    assert found.info.distributions == ()
    assert found.info.managed == ""
    assert len(found.sites) == 1
