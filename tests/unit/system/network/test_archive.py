"""Malicious or damaged archives are refused and leave no files."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from tasks.core.errors import BadArtifactError
from tasks.system.network.archive import extract_archive
from tests.support.systems import needs_links, windows_only


def tar_of(path: Path, *members: tarfile.TarInfo, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for info in members:
            tar.addfile(info, io.BytesIO(b"x" * info.size))
    return path


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


def zip_of(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def zip_link(path: Path, name: str, target: str, mode: int = stat.S_IFLNK) -> Path:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = (mode | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tree/a", "1")
        archive.writestr(info, target)
    return path


ESCAPES = {
    "absolute": [entry("/etc/planted", size=1)],
    "windows absolute": [entry("C:\\planted", size=1)],
    "up": [entry("tree/../../planted", size=1)],
    "windows up": [entry("tree\\..\\..\\planted", size=1)],
    "symlink up": [entry("tree/l", tarfile.SYMTYPE, "../../planted")],
    "symlink absolute": [entry("tree/l", tarfile.SYMTYPE, "/etc/passwd")],
    "hardlink up": [entry("tree/l", tarfile.LNKTYPE, "../planted")],
    "hardlink absolute": [entry("tree/l", tarfile.LNKTYPE, "/etc/passwd")],
    "file behind a link": [entry("tree/l", tarfile.SYMTYPE, "."), entry("tree/l/a", size=1)],
    "link over a link": [
        entry("a/b/c/up", tarfile.SYMTYPE, "../../.."),
        entry("out", tarfile.SYMTYPE, "a/b/c/up/../planted"),
    ],
    "fifo": [entry("tree/f", tarfile.FIFOTYPE)],
    "device": [entry("tree/d", tarfile.CHRTYPE)],
}


@pytest.mark.parametrize("kind", ESCAPES)
def test_escaping_tar_member_is_named_and_leaves_no_files(kind: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    members = [entry("tree/first", size=1), *ESCAPES[kind]]
    archive = tar_of(tmp_path / "a.tar.gz", *members)
    with pytest.raises(BadArtifactError) as caught:
        extract_archive(archive, inside / "tree")
    assert f'"{members[-1].name}"' in str(caught.value)
    assert list(inside.iterdir()) == []
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize("name", ["/planted", "tree/../../planted", "..\\planted", "C:/planted"])
def test_escaping_zip_member_is_named_and_leaves_no_files(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(BadArtifactError, match="is outside"):
        extract_archive(zip_of(tmp_path / "a.zip", **{"tree/a": "1", name: "2"}), inside / "tree")
    assert list(inside.iterdir()) == []


@pytest.mark.parametrize("target", ["/etc/passwd", "../../planted"])
def test_escaping_zip_link_is_refused(target: str, tmp_path: Path) -> None:
    with pytest.raises(BadArtifactError, match="is outside of the target folder"):
        extract_archive(zip_link(tmp_path / "a.zip", "tree/l", target), tmp_path / "out")


def test_tar_ending_with_zip_is_extracted_as_tar(tmp_path: Path) -> None:
    inner = zip_of(tmp_path / "last.zip", inside="x")
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        for name in ("first", "last.zip"):
            tar.add(inner, name)
    extract_archive(tmp_path / "t.tar", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["first", "last.zip"]


def test_device_in_zip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArtifactError, match="is a device"):
        extract_archive(zip_link(tmp_path / "a.zip", "tree/d", "", stat.S_IFCHR), tmp_path / "out")


@needs_links
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_single_top_level_folder_of_tar_is_stripped(mode: str, tmp_path: Path) -> None:
    members = (entry("torch-1/a", size=3), entry("torch-1/l", tarfile.SYMTYPE, "a"))
    extract_archive(tar_of(tmp_path / "a.tar", *members, mode=mode), tmp_path / "out")
    assert (tmp_path / "out" / "a").read_text() == "xxx"
    assert (tmp_path / "out" / "l").read_text() == "xxx"


def test_several_top_level_entries_are_kept(tmp_path: Path) -> None:
    extract_archive(zip_of(tmp_path / "a.zip", **{"a/x": "1", "b": "2"}), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "b"]


@needs_links
def test_zip_keeps_executables_and_links(tmp_path: Path) -> None:
    out = tmp_path / "out"
    extract_archive(zip_link(tmp_path / "a.zip", "tree/l", "a"), out)
    assert (out / "l").is_symlink()
    assert (out / "l").read_text() == "1"


@windows_only
def test_zip_link_is_copied_where_links_are_not_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise OSError("a required privilege is not held by the client")

    monkeypatch.setattr(Path, "symlink_to", forbidden)
    extract_archive(zip_link(tmp_path / "a.zip", "tree/l", "a"), tmp_path / "out")
    assert (tmp_path / "out" / "l").read_text() == "1"


def test_damaged_archive_is_refused_and_leaves_no_files(tmp_path: Path) -> None:
    whole = tar_of(tmp_path / "a.tar.gz", entry("tree/a", size=100_000)).read_bytes()
    (tmp_path / "b.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadArtifactError, match=r"b\.tar\.gz cannot be"):
        extract_archive(tmp_path / "b.tar.gz", tmp_path / "inside" / "out")
    assert not (tmp_path / "inside").exists()


def test_files_of_killed_extraction_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".out.unpacking" / "half").mkdir(parents=True)
    extract_archive(zip_of(tmp_path / "a.zip", **{"a/x": "1"}), tmp_path / "out")
    assert not (tmp_path / ".out.unpacking").exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x"]
