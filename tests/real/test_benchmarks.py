"""Each row of the table that needs no full build is measured, and has what does not depend on the
clock: nobody killed, and nothing compiled that did not change. The figures are shown, not judged.
`eta`, both of `elastic` and `quickstart` are left to a run by hand: CI has no room for them on a
machine where the Debian root is still to be made.
"""

from __future__ import annotations

import pytest

from tests.benchmarks import part, state
from tests.benchmarks.rows import table

ROWS = {
    "cold": part.cold,
    "warm": part.warm,
    "flag": part.flag,
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
