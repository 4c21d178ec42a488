"""A wheel under another version stays the same for pip, uv and the installation."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tasks.core.errors import BadArtifactError
from tasks.wheels import wheel_archive_io, wheel_requirements_io
from tasks.wheels.wheel_rewrite_io import relabel_wheel
from tests.support.torchwheels import MODULES, make

LABEL = "torch2.15.0.s1a2b3c4d.cu132.sm120"


def test_local_version_of_the_project_precedes_the_added_one(tmp_path: Path) -> None:
    found = relabel_wheel(make(tmp_path, "2.1.2+pt21cu121"), LABEL)
    assert found.name.split("-")[1] == f"2.1.2+pt21cu121.{LABEL}"


def test_relabeled_wheel_is_complete_with_unchanged_members(tmp_path: Path) -> None:
    made = make(tmp_path, "1.0")
    with zipfile.ZipFile(made) as archive:
        before = {name: archive.read(name) for name in archive.namelist()}
    found = relabel_wheel(made, LABEL)
    assert not made.exists()
    name, version, *tags = made.name.split("-")
    assert found.name == "-".join([name, f"{version}+{LABEL}", *tags])
    recorded = wheel_archive_io.verify_wheel(
        found, f"{sys.version_info[0]}.{sys.version_info[1]}.0"
    )
    info = f"{name}-{version}"
    with zipfile.ZipFile(found) as archive:
        assert archive.testzip() is None
        after = {
            member.replace(f"{info}+{LABEL}", info): archive.read(member)
            for member in archive.namelist()
        }
    assert before.keys() == after.keys()
    changed = {member for member in before if before[member] != after[member]}
    assert changed == {f"{info}.dist-info/METADATA", f"{info}.dist-info/RECORD"}
    assert f"Version: {version}+{LABEL}\n".encode() in after[f"{info}.dist-info/METADATA"]
    assert f"{info}+{LABEL}.dist-info/METADATA" in recorded


def test_data_directories_are_renamed_with_the_version(tmp_path: Path) -> None:
    made = make(tmp_path, "1.0", {**MODULES, "demo-1.0.data/scripts/toy": b"#!python\n"})
    recorded = wheel_archive_io.verify_wheel(relabel_wheel(made, LABEL), "3.12.0")
    assert f"demo-1.0+{LABEL}.data/scripts/toy" in recorded


def test_pip_installs_wheel_under_the_new_version(tmp_path: Path) -> None:
    found = relabel_wheel(make(tmp_path, "1.0"), LABEL)
    place = tmp_path / "site"
    argv = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps"]
    subprocess.run([*argv, "--target", str(place), str(found)], check=True)
    metadata = (place / f"demo-1.0+{LABEL}.dist-info" / "METADATA").read_text(encoding="utf-8")
    assert f"Version: 1.0+{LABEL}" in metadata


def test_non_wheel_file_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "toy-1.0-py3-none-any.whl"
    broken.write_bytes(b"PK\3\4 and no more")
    with pytest.raises(BadArtifactError):
        relabel_wheel(broken, LABEL)


def test_vendored_distribution_is_left_unchanged(tmp_path: Path) -> None:
    inner = "demo/_vendor/bar-9.9.dist-info"
    vendored = {f"{inner}/METADATA": b"Version: 9.9\n", f"{inner}/RECORD": b"x,,\n"}
    found = relabel_wheel(make(tmp_path, "1.0", {**vendored, **MODULES}), LABEL)
    with zipfile.ZipFile(found) as archive:
        assert {name: archive.read(name) for name in vendored} == vendored
    assert wheel_requirements_io.read_wheel_requirements(found, "3.12.0") == ()
