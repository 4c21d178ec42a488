"""An installation is trusted if its RECORD, names, sizes and times are unchanged."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.wheels import wheel_record
from tasks.wheels.installed_wheel_io import find_unmodified_wheel, hash_installed_record
from tasks.wheels.wheel_record import RecordRow
from tests.unit.wheels.test_wheelfile import sha256

FILES = {"demo/__init__.py": b"x = 1\n", "demo/lib,c.so": b"\x7fELF"}


def installation(site: Path, version: str = "1.0", ending: str = "\n") -> str:
    """Install `demo` into `site` and return the digest of its RECORD."""
    info = f"demo-{version}.dist-info"
    rows = [RecordRow(f"{info}/RECORD"), RecordRow("demo/__pycache__/__init__.cpython-312.pyc")]
    for name, data in FILES.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        rows.append(RecordRow(name, sha256(data), str(len(data))))
    (site / info).mkdir()
    (site / info / "RECORD").write_bytes(wheel_record.format_record(rows, ending).encode())
    return hash_installed_record(site, "demo")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_unmodified_installation_is_returned_with_its_record_rows(
    tmp_path: Path, ending: str
) -> None:
    digest = installation(tmp_path, ending=ending)
    found = find_unmodified_wheel(tmp_path, "demo", digest)
    assert found
    assert found.info == tmp_path / "demo-1.0.dist-info"
    assert found.ending == ending
    assert found.rows["demo/lib,c.so"].size == "4"


def longer(site: Path) -> None:
    (site / "demo" / "__init__.py").write_bytes(b"x = 11\n")


def edited(site: Path) -> None:
    """Edit a file: same size, modified after the installation."""
    path = site / "demo" / "__init__.py"
    path.write_bytes(b"x = 2\n")
    os.utime(path, (time.time() + 1, time.time() + 1))


def removed(site: Path) -> None:
    (site / "demo" / "__init__.py").unlink()


def linked(site: Path) -> None:
    path = site / "demo" / "__init__.py"
    path.rename(site / "x.py")
    path.symlink_to(site / "x.py")


def twice(site: Path) -> None:
    (site / "demo-2.0.dist-info").mkdir()


def editable(site: Path) -> None:
    (site / "__editable__.demo-2.0.pth").write_text("/src\n", encoding="utf-8")


def develop(site: Path) -> None:
    (site / "demo.egg-link").write_text("/src\n", encoding="utf-8")


def recorded(site: Path) -> None:
    path = site / "demo-1.0.dist-info" / "RECORD"
    path.write_bytes(path.read_bytes() + b"demo/more.py,,\n")


def gone(site: Path) -> None:
    (site / "demo-1.0.dist-info" / "RECORD").unlink()


CHANGES = [longer, edited, removed, linked, twice, editable, develop, recorded, gone]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_modified_installation_is_not_trusted(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    digest = installation(tmp_path)
    change(tmp_path)
    assert find_unmodified_wheel(tmp_path, "demo", digest) is None


def test_reordered_record_is_not_reused(tmp_path: Path) -> None:
    installation(tmp_path)
    path = tmp_path / "demo-1.0.dist-info" / "RECORD"
    path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))
    assert find_unmodified_wheel(tmp_path, "demo", hash_installed_record(tmp_path, "demo")) is None


def test_package_that_is_not_installed_has_no_digest(tmp_path: Path) -> None:
    assert hash_installed_record(tmp_path, "demo") == ""
    assert find_unmodified_wheel(tmp_path, "demo", "") is None
