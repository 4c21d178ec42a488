"""The tables in docs/scale.md match the model, and the model behaves as described."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import model

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("table", model.TABLES)
def test_tables_match_the_model(table: str) -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert table in page, f"python -m tests.benchmarks.model\n{table}"


@pytest.mark.parametrize("cell", [*model.FIRST, model.PYTHON, model.ARCHS, model.FOR_CPU])
def test_more_slots_are_faster_up_to_the_longest_object(cell: model.Cell) -> None:
    spans = [cell.seconds(slots) for slots in (1, 2, 16, 64, 10_000)]
    assert all(least <= most for least, most in spans)
    assert spans == sorted(spans, reverse=True)
    assert spans[-1][0] >= model.SERIAL + cell.longest[0]


def test_every_object_is_compiled_or_served_from_cache() -> None:
    whole = model.CXX + model.NVCC
    for cell in (model.AGAIN, model.PYTHON, model.ARCHS, model.BOTH, model.TOOLKIT):
        assert cell.cxx + cell.nvcc + cell.served == whole, cell.name
    assert model.FOR_CPU.cxx + model.FOR_CPU.served == model.CPU


def test_range_names_its_unit_once() -> None:
    assert model.span((1200, 1860)) == "20 to 31 min"
    assert model.span((5640, 9000)) == "94 min to 2.5 h"
    assert model.span((9000, 9000)) == "2.5 h"
