"""docs/architecture.md lists the packages in order and names only existing files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_layers import PACKAGES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
OF_PYTORCH = {"cmake/public/utils.cmake", "torch/utils/cpp_extension.py"}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> Iterator[list[str]]:
    """Return the code spans in the first cell of each row."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith(("| where", "| package")):
            yield re.findall(r"`([^`]+)`", line.split("|")[1])


def paths(group: str) -> list[str]:
    """Return the paths of a text; `tasks/a.py b.py` are two files of one directory."""
    first, *others = group.split()
    folder = first.rstrip("/").rpartition("/")[0]
    return [first, *(f"{folder}/{name}" for name in others)]


def test_package_table_matches_the_import_order() -> None:
    named = [name for cell in first_cells(section("Packages")) for name in cell]
    assert tuple(named) == PACKAGES


def test_setting_flow_section_names_existing_files_and_functions() -> None:
    lost: list[str] = []
    for cell in first_cells(section("How a setting flows")):
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
