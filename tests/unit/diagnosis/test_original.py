"""Paths of a copy in error messages are mapped to the original, where it has the file."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

import pytest

from tasks.diagnosis.diagnosis_text import map_to_original
from tasks.diagnosis.failure_cause import Diagnosis
from tasks.diagnosis.first_error import FirstError

COPY, ORIGINAL = PurePosixPath("/w/tree"), PurePosixPath("/home/me/my ext")
EXISTING = {f"{ORIGINAL}/{name}" for name in ("a.cu", "b.h", "with space.cu")}


def map_error(text: str, file: str | None = None) -> FirstError:
    found = Diagnosis(None, (), FirstError(1, text, file, 3))
    mapped = map_to_original(found, COPY, ORIGINAL, EXISTING.__contains__).first_error
    assert mapped
    return mapped


def test_path_of_generated_file_is_kept() -> None:
    generated = "/w/tree/build/temp/gen.cpp"
    found = map_error(f"{generated}:3: error: x", generated)
    assert (found.text, found.file) == (f"{generated}:3: error: x", generated)


def test_path_of_copied_file_is_mapped_to_original() -> None:
    found = map_error("/w/tree/a.cu:3: error: x, in '/w/tree/b.h'", "/w/tree/a.cu")
    assert found.file == f"{ORIGINAL}/a.cu"
    assert found.text == f"{ORIGINAL}/a.cu:3: error: x, in '{ORIGINAL}/b.h'"


def test_path_with_space_is_mapped_to_original() -> None:
    found = map_error("/w/tree/with space.cu:3: error: x", "/w/tree/with space.cu")
    assert found.text == f"{ORIGINAL}/with space.cu:3: error: x"


@pytest.mark.parametrize(
    "path", ["/x/w/tree/a.cu", "/w/tree2/a.cu", "../w/tree/a.cu", "file:///w/tree/a.cu"]
)
def test_path_that_only_contains_copy_path_is_kept(path: str) -> None:
    found = map_error(f"{path}:3: error: x", path)
    assert (found.text, found.file) == (f"{path}:3: error: x", path)


def test_both_windows_path_separators_are_mapped() -> None:
    copy, original = PureWindowsPath(r"C:\w\tree"), PureWindowsPath(r"D:\ext")
    error = FirstError(1, r"C:/w/tree/a.cu(3): error: C:\w\tree\b.h", "C:/w/tree/a.cu", 3)
    found = map_to_original(Diagnosis(None, (), error), copy, original, lambda _: True).first_error
    assert found
    assert (found.text, found.file) == (r"D:\ext/a.cu(3): error: D:\ext\b.h", r"D:\ext/a.cu")
