"""Valid wheels and every kind of invalid one, reported with the member."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging import tags

from tasks.core.errors import BadArtifactError
from tasks.wheels import wheel_archive_io
from tasks.wheels.wheel_archive_io import (
    compute_content_digest,
    read_installed_record,
    verify_wheel,
)
from tests.support.systems import posix_only

PYTHON = "3.12.4"
NAME = "demo-1.0-py3-none-any.whl"
INFO = "demo-1.0.dist-info"
FILES = {
    "demo/__init__.py": b"x = 1\n",
    "demo/_C.so": b"\x7fELF",
    f"{INFO}/METADATA": b"Name: demo",
}


def sha256(content: bytes) -> str:
    return (
        "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    )


def record_of(content: Mapping[str, bytes]) -> str:
    rows = [f"{name},{sha256(data)},{len(data)}" for name, data in content.items()]
    return "\n".join([*rows, f"{INFO}/RECORD,,", ""])


def wheel(
    folder: Path,
    content: Mapping[str, bytes] = FILES,
    record: str | None = None,
    name: str = NAME,
) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in content.items():
            archive.writestr(member, data)
        if record != "":
            archive.writestr(f"{INFO}/RECORD", record or record_of(content))
    return path


def refused(path: Path, python: str = PYTHON) -> str:
    with pytest.raises(BadArtifactError) as error:
        verify_wheel(path, python)
    message = str(error.value)
    assert message.startswith(f"{path}: the wheel cannot be used: ")
    assert message.endswith("\n  → remove the wheel and run the same command again")
    return message.partition("cannot be used: ")[2].partition("\n")[0]


def test_valid_wheel_gives_digest_of_every_member(tmp_path: Path) -> None:
    found = verify_wheel(wheel(tmp_path), PYTHON)
    assert found["demo/_C.so"] == sha256(b"\x7fELF")
    assert set(found) == {*FILES, f"{INFO}/RECORD"}
    assert list(wheel_archive_io.list_libraries(found)) == ["demo/_C.so"]


def test_directories_and_signatures_need_no_digest(tmp_path: Path) -> None:
    content = {**FILES, "demo/data/": b"", f"{INFO}/RECORD.jws": b"{}"}
    assert verify_wheel(wheel(tmp_path, content, record_of(FILES)), PYTHON)


def test_member_with_other_bytes_is_named(tmp_path: Path) -> None:
    changed = {**FILES, "demo/_C.so": b"\x7fELF!"}
    message = refused(wheel(tmp_path, changed, record_of(FILES)))
    assert message == "its member demo/_C.so does not match RECORD"


@pytest.mark.parametrize("row", ["", "evil.pth,,\n", "evil.pth,md5=abc,3\n"])
def test_member_missing_from_record_is_named(tmp_path: Path, row: str) -> None:
    path = wheel(tmp_path, {**FILES, "evil.pth": b"import os"}, record_of(FILES) + row)
    assert refused(path) == "RECORD has no sha256 for its member evil.pth"


@pytest.mark.parametrize(
    "name",
    [
        *("../evil.py", "/etc/evil", "demo/../../evil"),
        pytest.param("demo\\evil.py", marks=posix_only),  # zipfile reads it as demo/evil.py
    ],
)
def test_member_outside_the_root_is_named(tmp_path: Path, name: str) -> None:
    path = wheel(tmp_path, {**FILES, name: b"x"})
    assert refused(path) == f"its member {name} would be extracted outside the target"


def test_missing_record_is_refused(tmp_path: Path) -> None:
    assert refused(wheel(tmp_path, record="")) == "it has 0 files RECORD instead of one"


def test_two_records_are_refused(tmp_path: Path) -> None:
    two = {**FILES, "other-2.dist-info/RECORD": b""}
    assert refused(wheel(tmp_path, two)) == "it has 2 files RECORD instead of one"


def test_record_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path, {**FILES, f"{INFO}/RECORD": b"\xff\xfe"}, record="")
    assert refused(path).startswith("the archive cannot be read: ")


def test_file_that_is_no_zip_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"<html>404</html>")
    assert refused(path) == "the archive cannot be read: File is not a zip file"


def test_truncated_download_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    assert refused(path).startswith("the archive cannot be read: ")


def test_damaged_bytes_are_refused(tmp_path: Path) -> None:
    noise = b"".join(hashlib.sha256(bytes([i])).digest() for i in range(64))
    path = wheel(tmp_path, {"demo/big.bin": noise})
    data = bytearray(path.read_bytes())
    data[60:200] = bytes(140)
    path.write_bytes(bytes(data))
    assert refused(path)


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("demo-1.0-cp311-cp311-linux_x86_64.whl", "cp311-cp311-linux_x86_64"),
        ("demo-1.0-cp312-cp312-win_arm64.whl", "cp312-cp312-win_arm64"),
        ("demo-1.0-py2-none-any.whl", "py2-none-any"),
    ],
)
def test_wheel_for_other_python_or_platform_is_refused(tmp_path: Path, name: str, tag: str) -> None:
    message = refused(wheel(tmp_path, name=name))
    assert message == f"it is for {tag}, not for Python 3.12.4 on this platform"


def test_abi3_wheel_is_valid_for_later_pythons() -> None:
    here = next(tags.platform_tags())
    wheel_archive_io.require_tags(Path(f"demo-1.0-cp38-abi3-{here}.whl"), PYTHON)
    with pytest.raises(BadArtifactError, match=r"not for Python 3\.8\.1 on this platform"):
        wheel_archive_io.require_tags(Path(f"demo-1.0-cp39-abi3-{here}.whl"), "3.8.1")


def test_invalid_wheel_file_name_is_refused(tmp_path: Path) -> None:
    assert "Invalid wheel filename" in refused(wheel(tmp_path, name="demo.whl"))


def test_content_digest_does_not_depend_on_version() -> None:
    def recorded(version: str, code: str) -> dict[str, str]:
        return {
            "torch/version.py": f"sha256={version}",
            "torch/_C.so": f"sha256={code}",
            f"torch-{version}.dist-info/METADATA": f"sha256={version}",
        }

    names = ("torch/version.py",)
    first = compute_content_digest(recorded("2.6.0+g1", "a"), names)
    assert first == compute_content_digest(recorded("2.6.0+g2", "a"), names)
    assert first != compute_content_digest(recorded("2.6.0+g1", "b"), names)
    assert first != compute_content_digest(recorded("2.6.0+g1", "a"))


@pytest.mark.parametrize("name", ["a.so", "lib/b.so.13", "c.pyd", "d.dll", "e.dylib"])
def test_libraries_are_recognized_by_name(name: str) -> None:
    assert list(wheel_archive_io.list_libraries({name: "", "a.py": "", "sofa.txt": ""})) == [name]


def test_record_of_installed_package_is_read(tmp_path: Path) -> None:
    for name in ("torch-2.15.0", "torchvision-1.0"):
        (tmp_path / f"{name}.dist-info").mkdir()
        record = f'{name}/a.py,sha256=abc,1\n"{name}/b,c.py",sha256=def,2\n{name}/d.pyc,,\n'
        (tmp_path / f"{name}.dist-info" / "RECORD").write_text(record, encoding="utf-8")
    assert read_installed_record(tmp_path, "torch") == {
        "torch-2.15.0/a.py": "sha256=abc",
        "torch-2.15.0/b,c.py": "sha256=def",
        "torch-2.15.0/d.pyc": "",
    }
    assert read_installed_record(tmp_path, "numpy") == {}
