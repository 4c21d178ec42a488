"""Adding files to a wheel's dist-info: listed in RECORD, otherwise unchanged, reproducible."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from tasks.core.errors import BadArtifactError
from tasks.wheels import wheel_archive_io, wheel_rewrite_io
from tasks.wheels.wheel_rewrite_io import add_dist_info_files
from tests.support.systems import posix_only
from tests.support.torchwheels import MODULES, Venv, make
from tests.unit.wheels.test_repack import compressed, good, listed, stored
from tests.unit.wheels.test_wheelfile import INFO, PYTHON

ADDED = {"sboms/torchyard.cdx.json": b'{"bomFormat": "CycloneDX"}\n'}
PLACE = f"{INFO}/sboms/torchyard.cdx.json"


def test_added_files_are_in_record_and_other_members_are_unchanged(tmp_path: Path) -> None:
    wheel = make(tmp_path, "1.0")
    before = {name: compressed(wheel, name) for name in MODULES if name.isascii()}
    add_dist_info_files(wheel, ADDED)
    recorded = wheel_archive_io.verify_wheel(wheel, PYTHON)
    assert "demo-1.0.dist-info/sboms/torchyard.cdx.json" in recorded
    assert before == {name: compressed(wheel, name) for name in before}
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[-1] == "demo-1.0.dist-info/RECORD"
        assert archive.read("demo-1.0.dist-info/sboms/torchyard.cdx.json") == next(
            iter(ADDED.values())
        )


def test_adding_files_twice_equals_adding_once(tmp_path: Path) -> None:
    once, twice = make(tmp_path / "a", "1.0"), make(tmp_path / "b", "1.0")
    add_dist_info_files(once, ADDED)
    add_dist_info_files(twice, {next(iter(ADDED)): b"another"})
    add_dist_info_files(twice, ADDED)
    assert once.read_bytes() == twice.read_bytes()


def test_non_wheel_file_is_left_unchanged(tmp_path: Path) -> None:
    broken = tmp_path / "toy-1.0-py3-none-any.whl"
    broken.write_bytes(b"PK\3\4 and no more")
    with pytest.raises(BadArtifactError):
        add_dist_info_files(broken, ADDED)
    assert broken.read_bytes() == b"PK\3\4 and no more"


def test_stored_wheel_gets_added_files_during_compression(tmp_path: Path) -> None:
    wheel = stored(tmp_path)
    recorded = wheel_rewrite_io.compress_wheel(wheel, None, ADDED)
    assert recorded == wheel_archive_io.verify_wheel(wheel, PYTHON)
    assert PLACE in recorded
    assert compressed(wheel, PLACE) != next(iter(ADDED.values()))


def test_previous_wheel_does_not_affect_the_bytes(tmp_path: Path) -> None:
    alone, helped = stored(tmp_path / "alone"), stored(tmp_path / "helped")
    wheel_rewrite_io.compress_wheel(alone, None, ADDED)
    wheel_rewrite_io.compress_wheel(helped, good(tmp_path / "before"), ADDED)
    assert alone.read_bytes() == helped.read_bytes()
    again = stored(tmp_path / "again")
    wheel_rewrite_io.compress_wheel(again, alone, ADDED)
    assert again.read_bytes() == alone.read_bytes()
    assert len(listed(again)) == len(listed(alone))


@posix_only
def test_installer_installs_the_added_files(tmp_path: Path) -> None:
    wheel = make(tmp_path, "1.0")
    add_dist_info_files(wheel, ADDED)
    site = tmp_path / "site"
    uv = (sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps", "--no-index")
    Venv(tmp_path, "uv").run(*uv, "--target", str(site), str(wheel))
    assert (site / "demo-1.0.dist-info" / "sboms" / "torchyard.cdx.json").is_file()
