"""An error in a copy is told of the original, where that has the file, and of nothing else."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

import pytest

from tasks.diagnosis.diagnosis_text import map_to_original
from tasks.diagnosis.failure_cause import Diagnosis
from tasks.diagnosis.first_error import FirstError

COPY, ORIGINAL = PurePosixPath("/w/tree"), PurePosixPath("/home/me/my ext")
THERE = {f"{ORIGINAL}/{name}" for name in ("a.cu", "b.h", "with space.cu")}


def told(text: str, file: str | None = None) -> FirstError:
    found = Diagnosis(None, (), FirstError(1, text, file, 3))
    moved = map_to_original(found, COPY, ORIGINAL, THERE.__contains__).first_error
    assert moved
    return moved


def test_a_file_that_the_build_made_is_told_where_it_is() -> None:
    made = "/w/tree/build/temp/gen.cpp"
    found = told(f"{made}:3: error: x", made)
    assert (found.text, found.file) == (f"{made}:3: error: x", made)


def test_a_file_of_the_original_is_told_there() -> None:
    found = told("/w/tree/a.cu:3: error: x, in '/w/tree/b.h'", "/w/tree/a.cu")
    assert found.file == f"{ORIGINAL}/a.cu"
    assert found.text == f"{ORIGINAL}/a.cu:3: error: x, in '{ORIGINAL}/b.h'"


def test_a_file_with_a_space_in_its_name_is_told_there() -> None:
    found = told("/w/tree/with space.cu:3: error: x", "/w/tree/with space.cu")
    assert found.text == f"{ORIGINAL}/with space.cu:3: error: x"


@pytest.mark.parametrize(
    "path", ["/x/w/tree/a.cu", "/w/tree2/a.cu", "../w/tree/a.cu", "file:///w/tree/a.cu"]
)
def test_what_only_holds_the_name_of_the_copy_stays(path: str) -> None:
    found = told(f"{path}:3: error: x", path)
    assert (found.text, found.file) == (f"{path}:3: error: x", path)


def test_windows_has_both_signs_between_folders() -> None:
    copy, original = PureWindowsPath(r"C:\w\tree"), PureWindowsPath(r"D:\ext")
    error = FirstError(1, r"C:/w/tree/a.cu(3): error: C:\w\tree\b.h", "C:/w/tree/a.cu", 3)
    found = map_to_original(Diagnosis(None, (), error), copy, original, lambda _: True).first_error
    assert found
    assert (found.text, found.file) == (r"D:\ext/a.cu(3): error: D:\ext\b.h", r"D:\ext/a.cu")
