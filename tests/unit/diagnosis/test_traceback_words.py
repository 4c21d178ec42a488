"""Tests for the words that a traceback gives: the package or the file whose code failed."""

from tasks.diagnosis.log_lines import LogLine, RawLine, parse_lines
from tasks.diagnosis.traceback_words import read_traceback_words

FRAMES = """Traceback (most recent call last):
  File "/home/a/main.py", line 3, in <module>
  File "/x/lib/python3.10/site-packages/cv2/__init__.py", line 9, in load
  File "/usr/lib/python3.10/importlib/__init__.py", line 126, in import_module
  File "/x/lib/python3.10/site-packages/numpy/__init__.py", line 5, in __getattr__
AttributeError: module 'numpy' has no attribute 'x'"""


def read(text: str, module: str = "") -> dict[str, str]:
    raws = [RawLine(number, line) for number, line in enumerate(text.splitlines(), 1)]
    lines: list[LogLine] = list(parse_lines(raws))
    return read_traceback_words(lines, len(lines) - 1, module)


def test_package_has_its_name_for_pip() -> None:
    assert read(FRAMES, "numpy") == {"importer": "opencv-python"}


def test_file_of_the_project_is_named() -> None:
    assert read(FRAMES.replace("/x/lib/python3.10/site-packages/cv2", "/home/a/p")) == {
        "own_file": "/home/a/p/__init__.py"
    }


def test_package_that_is_not_on_pypi_is_not_named() -> None:
    assert read(FRAMES.replace("cv2", "apex"), "numpy") == {}


def test_line_without_traceback_gives_nothing() -> None:
    assert read("AttributeError: module 'numpy' has no attribute 'x'") == {}
