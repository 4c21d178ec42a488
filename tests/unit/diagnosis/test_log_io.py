"""Logs of any size and encoding: nothing that matters is lost, and its line number is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.core.errors import TorchyardError
from tasks.diagnosis.log_io import read_log

ARCH = "nvcc fatal   : Unsupported gpu architecture 'compute_120'"


def texts(path: Path, data: bytes) -> list[tuple[int, str]]:
    path.write_bytes(data)
    return [(raw.number, raw.text) for raw in read_log(path)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_unicode_of_every_width_is_read(tmp_path: Path, encoding: str) -> None:
    found = texts(tmp_path / "log", f"first\r\n{ARCH}\r\n".encode(encoding))
    assert found[1] == (2, ARCH)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("cp936", "致命错误：没有那个文件或目录"),
        ("cp932", "致命的エラー: そのようなファイルやディレクトリはありません"),
        ("cp1252", "schwerwiegender Fehler: kann nicht geöffnet werden"),
    ],
)
def test_what_consoles_of_other_languages_write_is_read(
    tmp_path: Path, encoding: str, said: str
) -> None:
    assert texts(tmp_path / "log", f"{said}\n".encode(encoding)) == [(1, said)]


def test_broken_bytes_are_replaced_and_nothing_else_is_lost(tmp_path: Path) -> None:
    found = texts(tmp_path / "log", b"\xff\xfa\x81 error: x\n" + ARCH.encode())
    assert "error: x" in found[0][1]
    assert found[1] == (2, ARCH)


def test_progress_that_is_written_over_keeps_its_line_number(tmp_path: Path) -> None:
    found = texts(tmp_path / "log", b"10%\r50%\rfatal: early EOF\nnext\n")
    assert found == [(1, "10%"), (1, "50%"), (1, "fatal: early EOF"), (2, "next")]


def test_of_a_long_log_what_matters_is_kept_with_its_number(tmp_path: Path) -> None:
    quiet = [f"[{n}/90000] c++ -Wno-error=a -c {n}.cpp" for n in range(45_000)]
    noisy = [f"{n}.cpp:{n}:1: warning: error_{n} is not used" for n in range(45_000)]
    lines = [*quiet, ARCH, *noisy]
    found = texts(tmp_path / "log", "\n".join(lines).encode())
    assert (45_001, ARCH) in found
    assert found[0] == (1, lines[0])
    assert found[-1] == (90_001, lines[-1])
    assert len(found) < 2000
    assert [number for number, _ in found] == sorted(number for number, _ in found)


def test_a_file_without_line_ends_is_read_in_pieces(tmp_path: Path) -> None:
    found = texts(tmp_path / "log", b"x" * 5_000_000 + b"\n" + ARCH.encode())
    assert found[-1][1] == ARCH
    assert all(len(text) <= 2000 for _, text in found)


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TorchyardError, match="cannot be read") as told:
        list(read_log(tmp_path / "none.log"))
    assert told.value.location == str(tmp_path / "none.log")
