"""docs/architecture.md against the house: each room is in its table, and what it names is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
OF_PYTORCH = {"cmake/public/utils.cmake", "torch/utils/cpp_extension.py"}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> Iterator[list[str]]:
    """What stands in backticks in the first cell of each row."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| where"):
            yield re.findall(r"`([^`]+)`", line.split("|")[1])


def paths(group: str) -> list[str]:
    """`tasks/a.py b.py` are two files of one folder."""
    first, *others = group.split()
    folder = first.rstrip("/").rpartition("/")[0]
    return [first, *(f"{folder}/{name}" for name in others)]


ROOMS = [
    path.replace("ROOM/", "")
    for cell in first_cells(section("The rooms"))
    for group in cell
    for path in paths(group)
]


def test_every_module_and_room_is_in_the_table() -> None:
    named = {found for path in ROOMS for found in ROOT.glob(path.rstrip("/"))}
    modules = [path for path in (ROOT / "tasks").glob("*.py") if path.name != "__init__.py"]
    rooms = [path.parent for path in (ROOT / "tasks").glob("*/__init__.py")]
    rooms += [path.parent for path in (ROOT / "tasks" / "effects").glob("*/__init__.py")]
    assert sorted({*modules, *rooms} - named) == []


def test_every_room_in_the_table_is_there() -> None:
    assert [path for path in ROOMS if not list(ROOT.glob(path.rstrip("/")))] == []


def test_the_way_of_a_setting_leads_through_files_and_names_that_there_are() -> None:
    lost: list[str] = []
    for cell in first_cells(section("The way of a setting")):
        text = ""
        for word in cell:
            files = [path for path in paths(word) if path.endswith((".py", ".yaml", ".cmake"))]
            if not files and word.rpartition(".")[2] not in text:
                lost.append(word)
            for path in files:
                file = ROOT / path if path.startswith("config/") else ROOT / "tasks" / path
                if path not in OF_PYTORCH and not file.is_file():
                    lost.append(path)
                text = file.read_text(encoding="utf-8") if file.is_file() else ""
    assert lost == []
