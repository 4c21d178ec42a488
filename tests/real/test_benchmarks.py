"""Each row of the table that needs no full build is measured, and has what does not depend on the
clock: nobody killed, and nothing compiled that did not change. The figures are shown, not judged.
`quickstart`, which is the network's more than ours, is left to a run by hand.
"""

from __future__ import annotations

import pytest

from tests.benchmarks import elastic_real, elastic_synthetic, part, state
from tests.benchmarks.rows import table

ROWS = {
    "cold": part.cold,
    "warm": part.warm,
    "flag": part.flag,
    "eta": part.eta,
    "elastic-real": elastic_real.measure,
    "elastic-synthetic": elastic_synthetic.measure,
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
