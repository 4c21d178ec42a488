"""The row of the table that takes seconds is measured. The figures are shown, not judged. Those
that compile a slice of PyTorch twice (`cold`, `warm`, `flag`), and the longer ones, are run by
hand, `python -m tests.benchmarks`: CI has no room for them.
"""

from __future__ import annotations

import pytest

from tests.benchmarks import state
from tests.benchmarks.rows import table

ROWS = {
    "state": state.measure,
}
BY_THE_CLOCK = {"state"}  # what it asks for beside the ratio is a time as well
pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", ROWS)
def test_the_row_is_measured(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print()
        row = ROWS[name]()
        print(table([row]))
    if row.ours is None and not row.failed:
        pytest.skip(f"not run: {name} cannot be measured here")
    assert row.ratio is not None
    assert not row.failed or name in BY_THE_CLOCK
