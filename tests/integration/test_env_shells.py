"""env.sh in real shells, with hostile names and values by the thousand."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.checkout import SHORT
from tests.shellcases import SHELLS, Case, cases, require_all

pytestmark = pytest.mark.integration

# Most of them in the one that starts soonest: 10,000 in all, a fifth of that where time is short
BATCHES = {"dash": 26, "bash": 8, "zsh": 6} if SHORT else {"dash": 130, "bash": 40, "zsh": 30}
BATCH = 50


@pytest.mark.parametrize("shell", BATCHES)
def test_nothing_in_a_name_or_a_value_is_executed_or_lost(shell: str, tmp_path: Path) -> None:
    if shell not in SHELLS:
        pytest.skip(f"not run: no {shell}")
    tried = 0

    # a case that fails is told as it is: to shrink fifty of them takes minutes
    @settings(
        max_examples=BATCHES[shell],
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(batch=st.lists(cases, min_size=BATCH, max_size=BATCH))
    def holds(batch: list[Case]) -> None:
        nonlocal tried
        place = tmp_path / "batch"
        place.mkdir()
        require_all(SHELLS[shell], place, batch, "C.UTF-8")
        shutil.rmtree(place)
        tried += len(batch)

    holds()
    assert tried >= BATCHES[shell] * BATCH
