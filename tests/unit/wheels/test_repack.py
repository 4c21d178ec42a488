"""A wheel is compressed with reused data of the previous one, and contains nothing else of it."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tasks.core.errors import BadArtifactError
from tasks.wheels import wheel_archive_io, wheel_rewrite_io
from tests.unit.wheels.test_wheelfile import FILES, INFO, NAME, PYTHON, record_of, sha256

TEXT = b"the same words again and again; " * 400
WHEN = (2026, 11, 21, 10, 30, 2)


def stored(folder: Path, content: Mapping[str, bytes] = FILES, record: str | None = None) -> Path:
    """Create a wheel like `bdist_wheel --compression=stored`, with its times, modes and order."""
    folder.mkdir(exist_ok=True)
    path = folder / NAME
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for number, (name, data) in enumerate(content.items()):
            info = zipfile.ZipInfo(name, (*WHEN[:5], 2 * number % 60))
            info.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(info, data)
        archive.writestr(zipfile.ZipInfo(f"{INFO}/RECORD", WHEN), record or record_of(content))
    return path


def listed(wheel: Path) -> list[tuple[object, ...]]:
    with zipfile.ZipFile(wheel) as archive:
        return [
            (m.filename, m.date_time, m.external_attr, m.create_system, m.CRC, m.file_size)
            for m in archive.infolist()
        ]


def compressed(wheel: Path, name: str) -> bytes:
    """Return the compressed bytes of a member."""
    with zipfile.ZipFile(wheel) as archive, wheel.open("rb") as stream:
        member = archive.getinfo(name)
        stream.seek(member.header_offset + 30 + len(name))
        return stream.read(member.compress_size)


def good(folder: Path, content: Mapping[str, bytes] = FILES) -> Path:
    path = stored(folder, content)
    wheel_rewrite_io.compress_wheel(path, None)
    return path


def test_wheel_is_compressed_and_otherwise_unchanged(tmp_path: Path) -> None:
    content = {**FILES, "demo/words.txt": TEXT, "demo/empty.py": b""}
    wheel = stored(tmp_path, content)
    before, size = listed(wheel), wheel.stat().st_size
    assert wheel_rewrite_io.is_uncompressed(wheel)
    recorded = wheel_rewrite_io.compress_wheel(wheel, None)
    assert listed(wheel) == before
    assert wheel.stat().st_size < size - 10_000
    assert not wheel_rewrite_io.is_uncompressed(wheel)
    assert recorded == wheel_archive_io.verify_wheel(wheel, PYTHON)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_compressed_wheel_equals_zipfile_output_byte_for_byte(tmp_path: Path) -> None:
    content = {**FILES, "demo/noise.bin": os.urandom(3 << 20), "demo/words.txt": TEXT}
    wheel = stored(tmp_path / "one", content)
    other = stored(tmp_path / "other", content)
    with zipfile.ZipFile(other) as archive:
        members = [(m, archive.read(m)) for m in archive.infolist()]
    with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members:
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    wheel_rewrite_io.compress_wheel(wheel, None)
    whole = wheel.read_bytes()
    assert whole == other.read_bytes()
    wheel_rewrite_io.compress_wheel(
        stored(tmp_path / "one", content), other
    )  # with all data reused
    assert wheel.read_bytes() == whole


def test_compressed_data_of_unchanged_members_is_reused(tmp_path: Path) -> None:
    before = tmp_path / "before.whl"
    content = {**FILES, "demo/words.txt": TEXT, "demo/more.txt": TEXT}
    with zipfile.ZipFile(before, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
        archive.writestr(f"{INFO}/RECORD", record_of(content))
    changed = {**content, "demo/more.txt": TEXT + b"!", "demo/new.txt": TEXT}
    wheel = stored(tmp_path / "new", changed)
    was = listed(wheel)
    recorded = wheel_rewrite_io.compress_wheel(wheel, before)
    assert listed(wheel) == was
    assert recorded == wheel_archive_io.verify_wheel(wheel, PYTHON)
    taken = compressed(before, "demo/words.txt")
    assert compressed(wheel, "demo/words.txt") == taken
    assert compressed(wheel, "demo/new.txt") != taken  # level 6 gives another stream


def test_member_of_same_name_and_size_but_other_bytes_is_not_reused(tmp_path: Path) -> None:
    before = good(tmp_path / "before", {"demo/a.txt": b"one " * 99, "demo/b.txt": b"two " * 99})
    changed = {"demo/a.txt": b"two " * 99, "demo/b.txt": b"one " * 99}
    wheel = stored(tmp_path / "new", changed)
    wheel_rewrite_io.compress_wheel(wheel, before)
    wheel_archive_io.verify_wheel(wheel, PYTHON)


def test_wrong_record_of_previous_wheel_gives_no_bytes(tmp_path: Path) -> None:
    """The previous RECORD matches the new one, but its archive does not."""
    false = {**FILES, "demo/_C.so": b"\x7fELF, another"}
    before = stored(tmp_path / "before", false, record_of(FILES))
    with zipfile.ZipFile(before) as archive:
        members = [(m, archive.read(m)) for m in archive.infolist()]
    with zipfile.ZipFile(before, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members:
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    wheel = stored(tmp_path / "new")
    wheel_rewrite_io.compress_wheel(wheel, before)
    wheel_archive_io.verify_wheel(wheel, PYTHON)


def test_stored_or_unrecorded_members_are_compressed_again(tmp_path: Path) -> None:
    for before in (
        stored(tmp_path / "stored", {**FILES, "demo/words.txt": TEXT}),
        stored(tmp_path / "unrecorded", {**FILES, "demo/words.txt": TEXT}, "\n"),
    ):
        wheel = stored(tmp_path / "new", {**FILES, "demo/words.txt": TEXT})
        wheel_rewrite_io.compress_wheel(wheel, before)
        wheel_archive_io.verify_wheel(wheel, PYTHON)
        assert len(compressed(wheel, "demo/words.txt")) < len(TEXT) / 10


def refused(wheel: Path, before: Path | None = None) -> str:
    held = wheel.read_bytes()
    with pytest.raises(BadArtifactError) as error:
        wheel_rewrite_io.compress_wheel(wheel, before)
    assert wheel.read_bytes() == held
    return error.value.message


def test_member_that_differs_from_record_is_named(tmp_path: Path) -> None:
    changed = {**FILES, "demo/_C.so": b"\x7fELF!"}
    assert "its member demo/_C.so does not match" in refused(
        stored(tmp_path, changed, record_of(FILES))
    )
    before = good(tmp_path / "before")
    assert "RECORD has no sha256 for its member evil.pth" in refused(
        stored(tmp_path, {**FILES, "evil.pth": b"x"}, record_of(FILES)), before
    )
    outside = {**FILES, "../evil.py": b"x"}
    assert "would be extracted outside the target" in refused(stored(tmp_path, outside), before)


def test_truncated_wheel_is_refused(tmp_path: Path) -> None:
    wheel = stored(tmp_path)
    wheel.write_bytes(wheel.read_bytes()[:-40])
    assert not wheel_rewrite_io.is_uncompressed(wheel)
    assert "the archive cannot be read" in refused(wheel)


def test_members_beyond_4_gib_use_zip64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of 4 GiB is lowered for the test."""
    content = {**FILES, "demo/words.txt": TEXT, "demo/noise.bin": os.urandom(9000)}
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 5000)
    before = good(tmp_path / "before", content)
    changed = {**content, "demo/more.txt": TEXT + TEXT}
    wheel = stored(tmp_path / "new", changed)
    was = listed(wheel)
    wheel_rewrite_io.compress_wheel(wheel, before)
    monkeypatch.undo()
    assert listed(wheel) == was
    assert wheel_archive_io.verify_wheel(wheel, PYTHON)["demo/noise.bin"] == sha256(
        content["demo/noise.bin"]
    )


def test_directory_members_stay_directories(tmp_path: Path) -> None:
    wheel = stored(tmp_path, {**FILES, "demo/data/": b""}, record_of(FILES))
    was = listed(wheel)
    wheel_rewrite_io.compress_wheel(wheel, None)
    assert listed(wheel) == was
