"""Logs of any size and encoding are read without losing relevant lines or line numbers."""

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
def test_every_unicode_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    found = texts(tmp_path / "log", f"first\r\n{ARCH}\r\n".encode(encoding))
    assert found[1] == (2, ARCH)


@pytest.mark.parametrize(
    ("encoding", "line"),
    [
        ("cp936", "致命错误：没有那个文件或目录"),
        ("cp932", "致命的エラー: そのようなファイルやディレクトリはありません"),
        ("cp1252", "schwerwiegender Fehler: kann nicht geöffnet werden"),
    ],
)
def test_legacy_console_encodings_are_read(tmp_path: Path, encoding: str, line: str) -> None:
    assert texts(tmp_path / "log", f"{line}\n".encode(encoding)) == [(1, line)]


def test_invalid_bytes_are_replaced_and_rest_is_kept(tmp_path: Path) -> None:
    found = texts(tmp_path / "log", b"\xff\xfa\x81 error: x\n" + ARCH.encode())
    assert "error: x" in found[0][1]
    assert found[1] == (2, ARCH)


def test_overwritten_progress_keeps_line_number(tmp_path: Path) -> None:
    found = texts(tmp_path / "log", b"10%\r50%\rfatal: early EOF\nnext\n")
    assert found == [(1, "10%"), (1, "50%"), (1, "fatal: early EOF"), (2, "next")]


def test_long_log_keeps_relevant_lines_with_numbers(tmp_path: Path) -> None:
    quiet = [f"[{n}/90000] c++ -Wno-error=a -c {n}.cpp" for n in range(45_000)]
    noisy = [f"{n}.cpp:{n}:1: warning: error_{n} is not used" for n in range(45_000)]
    lines = [*quiet, ARCH, *noisy]
    found = texts(tmp_path / "log", "\n".join(lines).encode())
    assert (45_001, ARCH) in found
    assert found[0] == (1, lines[0])
    assert found[-1] == (90_001, lines[-1])
    assert len(found) < 2000
    assert [number for number, _ in found] == sorted(number for number, _ in found)


def test_log_without_line_ends_is_read_in_chunks(tmp_path: Path) -> None:
    found = texts(tmp_path / "log", b"x" * 5_000_000 + b"\n" + ARCH.encode())
    assert found[-1][1] == ARCH
    assert all(len(text) <= 2000 for _, text in found)


def test_missing_log_is_reported_with_path(tmp_path: Path) -> None:
    with pytest.raises(TorchyardError, match="cannot be read") as error:
        list(read_log(tmp_path / "none.log"))
    assert error.value.location == str(tmp_path / "none.log")
