"""Tests of the digest of built libraries and of its cache."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tasks.stages.compile import build_folder_io

LONG_AGO = 1_700_000_000


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    folder = tmp_path / "tree" / "build" / "lib"
    folder.mkdir(parents=True)
    for name in ("liba.so", "libb.so.1", "notes.txt"):
        write(folder / name, name)
    return folder


def write(path: Path, text: str, when: int = LONG_AGO) -> None:
    path.write_text(text, encoding="utf-8")
    os.utime(path, (when, when))


def digest(libraries: Path) -> str:
    tree = libraries.parent.parent
    return build_folder_io.compute_library_digest([libraries], tree, tree / "known.json")


def test_digest_follows_library_content(libraries: Path) -> None:
    first = digest(libraries)
    write(libraries / "liba.so", "other content")
    assert digest(libraries) != first
    write(libraries / "liba.so", "liba.so", LONG_AGO + 1)
    assert digest(libraries) == first


def test_other_files_do_not_change_digest(libraries: Path) -> None:
    first = digest(libraries)
    write(libraries / "notes.txt", "other words")
    assert digest(libraries) == first


def test_library_with_same_stat_is_not_read_again(libraries: Path) -> None:
    first = digest(libraries)
    write(libraries / "liba.so", "LIBA.so")  # the same inode, size and time
    assert digest(libraries) == first
    (libraries.parent.parent / "known.json").unlink()
    assert digest(libraries) != first


def test_recently_written_library_is_read_again(
    libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (libraries / "liba.so").write_text("aaaaaaa", encoding="utf-8")
    seen = (libraries / "liba.so").stat()
    monkeypatch.setattr(time, "time_ns", lambda: seen.st_mtime_ns + 10**9)
    first = digest(libraries)
    (libraries / "liba.so").write_text("bbbbbbb", encoding="utf-8")
    os.utime(libraries / "liba.so", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert digest(libraries) != first


@pytest.mark.parametrize("record", ["", "[]", '{"a": 1}', "{", '{"a": [1, 2, 3]}'])
def test_invalid_digest_record_is_ignored(libraries: Path, record: str) -> None:
    first = digest(libraries)
    (libraries.parent.parent / "known.json").write_text(record, encoding="utf-8")
    assert digest(libraries) == first
